"""Theorem 10 and Figure 4: in the tree model every row soon has at most three clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_research import tree_representation
from splinescope_research.pictures import plot_tree
from splinescope_research.random_layers.tree_model import three_cluster_depth_bound


def three_cluster_depth(values: np.ndarray) -> int:
    """First depth at which no row of the whole tree has more than three clusters (five points or more)."""
    tree = tree_representation(values, 0)
    while tree.wide:
        tree = tree.advance()
    return tree.depth


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    rng = np.random.default_rng(seed)
    sizes, repeats = ((5, 10, 20), 40) if size == "quick" else ((5, 10, 20, 50, 100, 200), 30)
    depths: dict[int, list[int]] = {}
    bounds: dict[int, list[int]] = {}
    for n in sizes:
        if progress is not None:
            progress(len(depths) / len(sizes), f"batches of {n}")
        batches = [rng.standard_normal(n) for _ in range(repeats)]
        depths[n] = [three_cluster_depth(x) for x in batches]
        bounds[n] = [three_cluster_depth_bound(x) for x in batches]
    pairs = [_delayed(np.sort(rng.standard_normal(50))) for _ in range(3 if size == "quick" else 20)]
    ordinary, close = zip(*pairs, strict=True)
    violations = sum(t > b for n in sizes for t, b in zip(depths[n], bounds[n], strict=True))
    total = len(sizes) * repeats
    return Outcome(
        {
            "depths": depths,
            "bounds": bounds,
            "ordinary_depth": ordinary,
            "close_pair_depth": close,
            "example": rng.standard_normal(7),
        },
        (
            judged(
                "From some depth on every row of the tree takes at most three values (Theorem 10); explicitly (ours), "
                "from ceil(ln(range / smallest inner gap) / ln(n / (n - 1))) on.",
                f"{violations} of {total} random batches beyond the bound; mean depth "
                + ", ".join(f"{np.mean(depths[n]):.1f} (n={n})" for n in sizes),
                holds=[Check("batches beyond the bound", float(violations), "<", 0.5, "a proven bound: none may")],
            ),
        ),
    )  # fmt: skip


def _delayed(batch: np.ndarray) -> tuple[int, int]:
    """Depth of three clusters of a sorted batch, and with its second and third value all but equal."""
    close = batch.copy()
    close[2] = close[1] + 1e-12
    return three_cluster_depth(batch), three_cluster_depth(close)


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    depths = {int(n): np.asarray(d) for n, d in numbers["depths"].items()}
    bounds = {int(n): np.asarray(d) for n, d in numbers["bounds"].items()}
    for n in depths:
        left.scatter(bounds[n], depths[n], s=12, alpha=0.6, label=f"n = {n}")
    top = max(b.max() for b in bounds.values())
    left.plot([1, top], [1, top], color="0.6", linewidth=1)
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel("bound")
    left.set_ylabel("depth from which rows have <= 3 clusters")
    left.legend(frameon=False)
    plot_tree(numbers["example"], 3, right)
    figure.set_size_inches(11, 4.2)
    return figure


EXPERIMENT = Experiment(
    "Theorem 10 and Figure 4: three clusters in the tree model", run, draw, place="Theorem 10 and Figure 4"
)
