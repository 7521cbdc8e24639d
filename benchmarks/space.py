"""Tiles of one input in the whole input space: `python -m benchmarks.space` rewrites docs/benchmarks/space*.csv.

Facets of one tile (beside a linear program per unit, timed on a few of them and multiplied), graphs of tiles, and the
same graphs by relucent where it is installed. CPU seconds, those of processes that a tool starts included.
"""

from __future__ import annotations

import importlib.util
import resource
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog
from torch import nn

import splinescope as ss
from benchmarks.tables import write_table

_PROGRAMS = 3  # of the plain method that are timed
BESIDE: tuple[tuple[tuple[int, ...], int | None], ...] = (
    ((4, 8, 1), None), ((3, 6, 6, 1), None), ((3, 10, 10, 1), None), ((20, 16, 16, 2), 100), ((100, 30, 30, 2), 10),
)  # fmt: skip
"""Networks for both tools, and how many tiles; None: all there are."""


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    torch.manual_seed(0)
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).double()


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a call with its processes, and what it returned."""
    start = _spent()
    result = work()
    return _spent() - start, result


def _spent() -> float:
    """CPU seconds of this process and of those that it has ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def facets() -> list[tuple[object, ...]]:
    """Rows: true walls of one tile."""
    rows: list[tuple[object, ...]] = []
    for widths in ((784, 50, 50, 50, 10), (784, 200, 200, 200, 200, 10)):
        network, x = ss.trace(mlp(*widths), torch.zeros(1, 784)), np.random.default_rng(0).random(784)
        spent, tile = seconds(lambda network=network, x=x: ss.tile_at(network, x, progress=False))
        normals, heights = tile._cell.rows.normals, tile._cell.rows.heights

        def plain(normals: np.ndarray = normals, heights: np.ndarray = heights) -> None:
            for row in range(_PROGRAMS):
                linprog(normals[row], A_ub=-normals, b_ub=heights + np.eye(len(heights))[row], bounds=(None, None))

        each = seconds(plain)[0] / _PROGRAMS
        name = "-".join(map(str, widths))
        rows.append((name, len(heights), len(tile.facets), f"{spent:.2f}", f"{each * len(heights):.0f}"))
    return rows


def explored(widths: tuple[int, ...], most: int | None) -> tuple[float, Any]:
    """A graph with the facets of all of its tiles."""
    net, x = mlp(*widths), np.random.default_rng(0).random(widths[0])

    def work() -> Any:
        graph = ss.space.explore(net, x, max_tiles=most, progress=False)
        for tile in range(graph.count):
            graph.tile(tile)
        return graph

    return seconds(work)


def beside() -> list[tuple[object, ...]]:
    """Rows: the same tiles by relucent."""
    import relucent

    rows: list[tuple[object, ...]] = []
    for widths, most in BESIDE:
        spent, graph = explored(widths, most)
        cells = relucent.Complex(mlp(*widths))
        start = torch.from_numpy(np.random.default_rng(0).random(widths[0]))[None]
        limit = {} if most is None else {"max_polys": most}
        other = seconds(lambda cells=cells, start=start, limit=limit: cells.bfs(start, nworkers=1, verbose=0, **limit))
        ratio = (other[0] / len(cells)) / (spent / graph.count)
        name = "-".join(map(str, widths))
        rows.append((name, graph.count, len(cells), f"{spent:.3f}", f"{other[0]:.2f}", f"{ratio:.0f}"))
    return rows


def main() -> None:
    """Write the tables."""
    ss.space.explore(mlp(3, 4, 1), np.zeros(3), progress=False)  # what loads once
    write_table("space", ("network", "units", "facets", "s", "a program per unit, s"), facets())
    net, x = mlp(784, 50, 50, 50, 10), np.random.default_rng(0).random(784)
    spent, graph = seconds(lambda: ss.space.explore(net, x, max_tiles=1000, progress=False))
    print(f"A graph of {graph.count:,} tiles of 784-50-50-50-10 takes {spent:.1f} s.")
    if importlib.util.find_spec("relucent"):
        head = ("network", "tiles", "relucent's", "s", "relucent s", "times faster a tile")
        write_table("space_relucent", head, beside())


if __name__ == "__main__":
    main()
