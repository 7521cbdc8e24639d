"""Equation (8): the expected Gram matrix of a layer in closed form, and the tree model beside Gaussian networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.words import span
from splinescope_research import tree_representation
from splinescope_research.random_layers.expected_gram import expected_gram

KINDS = {"recentering": ("rc", "nl"), "recentering and rescaling": ("rc", "rs", "nl")}


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    batches, draws, repeats = (2, 4_000, 1) if size == "quick" else (20, 200_000, 10)
    rng = np.random.default_rng(seed)
    drawn = [_drawn(rng, int(n), draws) for n in rng.integers(3, 13, batches)]
    far = {kind: max(row[kind]["far"] for row in drawn) for kind in KINDS}
    error = {kind: max(row[kind]["error"] for row in drawn) for kind in KINDS}
    rows: list[dict[str, Any]] = []
    for n in (10, 20, 40):
        for _ in range(repeats):
            if progress is not None:
                progress(len(rows) / (3 * repeats), f"batches of {n}")
            x = np.sort(rng.standard_normal(n))
            rows.append({"n": n, "tree": _shape(_tree(x)), "net": _shape(_deep(x, rng))})
    odd = {model: [row[model]["odd"] for row in rows] for model in ("tree", "net")}
    inner = {model: [row[model]["inner"] * (row["n"] - 1) for row in rows] for model in ("tree", "net")}
    alike = float(np.mean([row["tree"]["odd"] == row["net"]["odd"] for row in rows]))
    order = max(max(np.log(values).max(), -np.log(values).min()) for values in map(np.array, inner.values()))
    one, two = (float(np.mean(np.array(odd[model]) == k)) for model, k in (("net", 1), ("tree", 2)))
    return Outcome(
        {"drawn": drawn, "rows": rows},
        (
            judged(
                "The expected Gram matrix of equation (8) appears intractable. Corrected: with recentering it is the "
                "arc-cosine kernel of C G C; with rescaling too it is one integral of such kernels.",
                f"{batches} batches of 3 to 12 points, {draws} draws each: largest difference in standard errors "
                + ", ".join(f"{far[kind]:.2f} with {kind} (relative {error[kind]:.1e})" for kind in KINDS),
                holds=[Check("closed form minus draws, standard errors, least of both kinds", min(far.values()), ">",
                             5.0, "a closed form that fails would leave it intractable")],
                corrected=[
                    Check("closed form minus draws, standard errors, largest", max(far.values()), "<", 5.0,
                          "some 1,500 numbers were compared"),
                    Check("largest relative difference", max(error.values()), "<", 0.02, "enough draws to tell"),
                ],
            ),
            judged(
                "The tree model acts on a batch as a Gaussian network does. Corrected: inner points shrink alike, to "
                "the order of 1/(n-1), but the tree keeps both ends of a batch of numbers where a network keeps one.",
                f"{len(rows)} batches of 10, 20 and 40 numbers; points longer than three medians: tree "
                f"{min(odd['tree'])} to {max(odd['tree'])}, network {min(odd['net'])} to {max(odd['net'])}, equally "
                f"many in {alike:.0%}; inner length over the longest, times n - 1: tree {span(inner['tree'])}, network "
                f"{span(inner['net'])}",
                holds=[
                    Check("share of batches with equally many odd points", alike, ">", 0.9, "'remarkably similar'"),
                    Check("|log| of inner length times n - 1, largest", order, "<", np.log(3), "the order of 1/(n-1)"),
                ],
                corrected=[
                    Check("|log| of inner length times n - 1, largest", order, "<", np.log(3), "the order of 1/(n-1)"),
                    Check("share of networks with one odd point", one, ">", 0.9, "as Figure 3 shows"),
                    Check("share of trees with two odd points", two, ">", 0.9, "both ends"),
                ],
            ),
        ),
    )  # fmt: skip


def _drawn(rng: np.random.Generator, n: int, draws: int) -> dict[str, Any]:
    """Closed form against draws for one random Gram matrix: largest difference, also in standard errors."""
    factor = rng.standard_normal((n, int(rng.integers(2, 2 * n)))) + rng.standard_normal()
    gram = factor @ factor.T / factor.shape[1]
    found: dict[str, Any] = {"n": n}
    for kind, components in KINDS.items():
        z = factor @ rng.standard_normal((factor.shape[1], draws)) / np.sqrt(factor.shape[1])
        z -= z.mean(0)
        if "rs" in components:
            z /= np.sqrt(np.square(z).mean(0))
        h = np.maximum(z, 0)
        mean = h @ h.T / draws
        deviation = np.sqrt(np.maximum(np.square(h) @ np.square(h).T / draws - mean**2, 0) / draws)
        gap = np.abs(expected_gram(gram, components) - mean)
        scale = float(np.diag(mean).max())
        far = gap / np.maximum(deviation, 1e-12 * scale)
        found[kind] = {"far": float(far.max()), "error": float(gap.max()) / scale}
    return found


def _tree(x: np.ndarray) -> np.ndarray:
    """Gram matrix of the tree model behind 40 n layers."""
    return np.asarray(tree_representation(x, 40 * len(x)).gram(), dtype=np.float64)


def _deep(x: np.ndarray, rng: np.random.Generator, width: int = 256) -> np.ndarray:
    """Gram matrix of a batch of numbers behind as many layers of recentering and ReLU as the tree has, at most 400."""
    h = x[:, None]
    for _ in range(min(40 * len(x), 400)):
        h = h @ rng.standard_normal((h.shape[1], width))
        h = np.maximum(h - h.mean(0), 0)
        h /= np.linalg.norm(h)
    return h @ h.T


def _shape(gram: np.ndarray) -> dict[str, Any]:
    lengths = np.sqrt(np.diag(gram) / np.diag(gram).max())
    return {"odd": int((lengths > 3 * np.median(lengths)).sum()), "inner": float(np.median(lengths)),
            "lengths": np.sort(lengths)[::-1].tolist()}  # fmt: skip


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    for kind, color in zip(KINDS, ("#0072b2", "#d55e00"), strict=True):
        left.plot([row["n"] for row in numbers["drawn"]], [row[kind]["far"] for row in numbers["drawn"]], "o",
                  color=color, label=kind)  # fmt: skip
    left.axhline(5, color="0.5", linestyle="--", linewidth=1)
    left.set(xlabel="points in the batch", ylabel="closed form minus draws, standard errors", ylim=(0, 6))
    left.legend(frameon=False)
    chosen = [row for row in numbers["rows"] if row["n"] == 20]
    for model, color, words in (("tree", "#009e73", "tree model"), ("net", "#cc79a7", "Gaussian network")):
        for row in chosen:
            right.semilogy(range(1, 21), row[model]["lengths"], ".-", color=color, alpha=0.5, linewidth=0.8)
        right.plot([], [], ".-", color=color, label=words)
    right.axhline(1 / 19, color="0.5", linestyle="--", linewidth=1, label="1/(n - 1)")
    right.set(
        xlabel="point, by length (n = 20)",
        ylabel="length over the longest",
        ylim=(0.02, 1.5),
        xticks=[1, 5, 10, 15, 20],
    )
    right.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    "Equation (8): the expected Gram matrix in closed form",
    run,
    draw,
    place="equation (8); the part that introduces the tree model",
)
