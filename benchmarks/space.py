"""Tiles of one input in the whole input space: facets and neighbours, CPU seconds of one thread.

`python -m benchmarks.space` prints a table: facets of one tile (against a linear programme per unit, timed on a few of
them and multiplied), and the graph of 1,000 tiles.
"""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import torch
from scipy.optimize import linprog
from torch import nn

import splinescope as ss

_PROGRAMMES = 3  # of the plain method that are timed


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    torch.manual_seed(0)
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def seconds(work: object) -> tuple[float, object]:
    """CPU seconds of a call, and what it returned."""
    start = time.process_time()
    result = work()  # type: ignore[operator]
    return time.process_time() - start, result


def main() -> None:
    """Print the table."""
    for widths in ((784, 50, 50, 50, 10), (784, 200, 200, 200, 200, 10)):
        net, x = mlp(*widths), np.random.default_rng(0).random(784)
        network = ss.trace(net, torch.zeros(1, 784))
        spent, tile = seconds(lambda network=network, x=x: ss.tile_at(network, x, progress=False))
        normals, heights = tile._cell.rows.normals, tile._cell.rows.heights

        def plain(normals: np.ndarray = normals, heights: np.ndarray = heights) -> None:
            for row in range(_PROGRAMMES):
                linprog(normals[row], A_ub=-normals, b_ub=heights + np.eye(len(heights))[row], bounds=(None, None))

        each = seconds(plain)[0] / _PROGRAMMES
        name = "-".join(map(str, widths))
        print(f"{name}: {len(tile.facets)} facets of {len(heights)} units in {spent:.2f} s; "
              f"one programme per unit would take {each * len(heights):.0f} s")  # fmt: skip
    net, x = mlp(784, 50, 50, 50, 10), np.random.default_rng(0).random(784)
    spent, graph = seconds(lambda: ss.space.explore(net, x, max_tiles=1000, progress=False))
    edges = seconds(lambda: graph.edges)[0]
    print(
        f"784-50-50-50-10: {graph.count} tiles in {spent:.1f} s, their {len(graph.edges)} edges in {edges:.1f} s more"
    )


if __name__ == "__main__":
    main()
