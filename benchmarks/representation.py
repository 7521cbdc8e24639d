"""Speed of the representation part: `python -m benchmarks.representation` rewrites docs/benchmarks/representation*.csv.

* the interval form of the tree model against the literal one, which doubles with every layer, and far beyond it;
* `representation_geometry` of a layer in multiples of that layer's forward pass.

All in CPU seconds of one process with one thread, so that ratios mean something on a busy machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.tables import write_table
from splinescope.representation import representation_geometry
from splinescope_research import random_network, tree_representation
from splinescope_research.random_layers.tree_model import tree_rows

Rows = list[tuple[object, ...]]


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


def tree_table(quick: bool) -> Rows:
    x = np.random.default_rng(0).standard_normal(20)
    rows: Rows = []
    for depth in (4, 8, 12) if quick else (4, 8, 12, 16, 19):
        literal = seconds(lambda d=depth: literal_gram(x, d))  # type: ignore[misc]
        fast = seconds(lambda d=depth: tree_representation(x, d).gram())  # type: ignore[misc]
        rows.append((depth, f"{2**depth:,}", f"{literal:.2g}", f"{fast:.2g}", f"{literal / fast:.2g}"))
    return rows


def deep_table(quick: bool) -> Rows:
    rows: Rows = []
    sizes = ((10, 10_000), (100, 10_000)) if quick else ((10, 100_000), (100, 100_000), (1000, 20_000))
    for n, depth in sizes:
        x = np.random.default_rng(0).standard_normal(n)
        used = seconds(lambda v=x, d=depth: tree_representation(v, d), repeats=1)  # type: ignore[misc]
        rows.append((n, f"{depth:,}", f"{used:.2g}", f"{1e6 * used / depth:.0f}"))
    return rows


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


def geometry_table(quick: bool) -> Rows:
    rows: Rows = []
    for n, width in ((64, 256),) if quick else ((64, 256), (256, 1024), (512, 4096)):
        forward, each = layer_times(n, width)
        rows.append((n, width, f"{1e3 * forward:.3g}", f"{1e3 * each:.3g}", f"{each / forward:.2g}"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, written too: for a trial")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    quick = arguments.quick
    head = ("points", "width", "forward pass of a layer, ms", "geometry of a place, ms", "ratio")
    write_table("representation", head, geometry_table(quick))
    head = ("layers", "literal rows", "literal, s", "intervals, s", "ratio")
    write_table("representation_tree", head, tree_table(quick))
    write_table("representation_depth", ("points", "layers", "s", "microseconds a layer"), deep_table(quick))


if __name__ == "__main__":
    main()
