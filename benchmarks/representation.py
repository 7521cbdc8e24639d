"""Speed of the representation part: `python -m benchmarks.representation` rewrites docs/benchmarks/representation.md.

* the interval form of the tree model against the literal one, which doubles with every layer, and far beyond it;
* `representation_geometry` of a layer in multiples of that layer's forward pass.

All in CPU seconds of one process with one thread, so that ratios mean something on a busy machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from splinescope.representation import random_network, representation_geometry, tree_representation
from splinescope.representation.tree import tree_rows

TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "representation.md"


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Smallest CPU time of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def literal_gram(x: np.ndarray, depth: int) -> np.ndarray:
    rows = tree_rows(x, depth)
    return rows.T @ rows


def tree_table(quick: bool) -> list[str]:
    x = np.random.default_rng(0).standard_normal(20)
    lines = ["| layers | literal rows | literal, s | intervals, s | ratio |", "|---|---|---|---|---|"]
    for depth in (4, 8, 12) if quick else (4, 8, 12, 16, 19):
        literal = seconds(lambda d=depth: literal_gram(x, d))  # type: ignore[misc]
        fast = seconds(lambda d=depth: tree_representation(x, d).gram())  # type: ignore[misc]
        lines.append(f"| {depth} | {2**depth:,} | {literal:.2g} | {fast:.2g} | {literal / fast:.2g} |")
    return lines


def deep_table(quick: bool) -> list[str]:
    lines = ["| points | layers | s | microseconds a layer |", "|---|---|---|---|"]
    sizes = ((10, 10_000), (100, 10_000)) if quick else ((10, 100_000), (100, 100_000), (1000, 20_000))
    for n, depth in sizes:
        x = np.random.default_rng(0).standard_normal(n)
        used = seconds(lambda v=x, d=depth: tree_representation(v, d), repeats=1)  # type: ignore[misc]
        lines.append(f"| {n} | {depth:,} | {used:.2g} | {1e6 * used / depth:.0f} |")
    return lines


def layer_times(n: int, width: int) -> tuple[float, float]:
    """Seconds of one layer's forward pass and of one place's geometry, in a ReLU network of four layers."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, width, dtype=torch.float64, generator=generator)
    network = random_network(4, width, components=("nl",), dtype=torch.float64, generator=generator)
    places = len(representation_geometry(network, x, method="hooks"))
    with torch.no_grad():
        forward = seconds(lambda: network(x))
    both = seconds(lambda: representation_geometry(network, x, method="hooks"))
    return forward / 4, (both - forward) / places


def geometry_table(quick: bool) -> list[str]:
    lines = [
        "| points | width | forward pass of a layer, ms | geometry of a place, ms | ratio |",
        "|---|---|---|---|---|",
    ]
    for n, width in ((64, 256),) if quick else ((64, 256), (256, 1024), (512, 4096)):
        forward, each = layer_times(n, width)
        lines.append(f"| {n} | {width} | {1e3 * forward:.3g} | {1e3 * each:.3g} | {each / forward:.2g} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--out", type=Path, default=TABLE)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    parts = [
        "# Representation: speed",
        "Written by `python -m benchmarks.representation`: CPU seconds, one thread, float64.",
        "## The tree model: intervals against the literal rows, 20 points\n\n" + "\n".join(tree_table(arguments.quick)),
        "## The tree model at depth\n\n" + "\n".join(deep_table(arguments.quick)),
        "## Geometry of a layer (ranks by singular values, Gram matrix, angles, activity)\n\n"
        + "\n".join(geometry_table(arguments.quick)),
    ]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(arguments.out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
