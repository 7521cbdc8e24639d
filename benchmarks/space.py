"""Tiles of one input in the whole input space: `python -m benchmarks.space` rewrites docs/benchmarks/space.md.

Facets of one tile (beside a linear programme per unit, timed on a few of them and multiplied), graphs of tiles, and the
same graphs by relucent where it is installed. CPU seconds, those of processes that a tool starts included.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog
from torch import nn

import splinescope as ss

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "space.md"
_PROGRAMMES = 3  # of the plain method that are timed
BESIDE: tuple[tuple[tuple[int, ...], int | None], ...] = (
    ((4, 8, 1), None), ((3, 6, 6, 1), None), ((20, 16, 16, 2), 100), ((100, 30, 30, 2), 10),
)  # fmt: skip
"""Networks for both tools, and how many tiles; None: all there are."""
HEAD = """# One input in all dimensions: speed

CPU seconds of one core, random networks at torch's own initialisation. Compare ratios: seconds depend on the machine.
"""


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    torch.manual_seed(0)
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1]).double()


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a call with its processes, and what it returned."""
    start = sum(os.times()[:4])
    result = work()
    return sum(os.times()[:4]) - start, result


def facets() -> list[str]:
    """Rows: true walls of one tile."""
    rows = ["| network | units | facets | s | a programme per unit, s |", "|---|---|---|---|---|"]
    for widths in ((784, 50, 50, 50, 10), (784, 200, 200, 200, 200, 10)):
        network, x = ss.trace(mlp(*widths), torch.zeros(1, 784)), np.random.default_rng(0).random(784)
        spent, tile = seconds(lambda network=network, x=x: ss.tile_at(network, x, progress=False))
        normals, heights = tile._cell.rows.normals, tile._cell.rows.heights

        def plain(normals: np.ndarray = normals, heights: np.ndarray = heights) -> None:
            for row in range(_PROGRAMMES):
                linprog(normals[row], A_ub=-normals, b_ub=heights + np.eye(len(heights))[row], bounds=(None, None))

        each = seconds(plain)[0] / _PROGRAMMES
        rows.append(f"| {'-'.join(map(str, widths))} | {len(heights)} | {len(tile.facets)} | {spent:.1f} | "
                    f"{each * len(heights):.0f} |")  # fmt: skip
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


def beside() -> list[str]:
    """Rows: the same tiles by relucent."""
    import relucent

    rows = ["| network | tiles | relucent's | s | relucent s | times faster a tile |", "|---|---|---|---|---|---|"]
    for widths, most in BESIDE:
        spent, graph = explored(widths, most)
        cells = relucent.Complex(mlp(*widths))
        start = torch.from_numpy(np.random.default_rng(0).random(widths[0]))[None]
        limit = {} if most is None else {"max_polys": most}
        other = seconds(lambda cells=cells, start=start, limit=limit: cells.bfs(start, nworkers=1, verbose=0, **limit))
        ratio = (other[0] / len(cells)) / (spent / graph.count)
        rows.append(f"| {'-'.join(map(str, widths))} | {graph.count} | {len(cells)} | {spent:.2f} | {other[0]:.2f} | "
                    f"{ratio:.0f} |")  # fmt: skip
    return rows


def main() -> None:
    """Write the page."""
    ss.space.explore(mlp(3, 4, 1), np.zeros(3), progress=False)  # what loads once
    lines = [HEAD, "The true walls of one tile:\n", *facets()]
    net, x = mlp(784, 50, 50, 50, 10), np.random.default_rng(0).random(784)
    spent, graph = seconds(lambda: ss.space.explore(net, x, max_tiles=1000, progress=False))
    lines.append(f"\nA graph of {graph.count:,} tiles of 784-50-50-50-10 takes {spent:.1f} s.\n")
    if importlib.util.find_spec("relucent"):
        lines += ["The same tiles in one run beside relucent 1.0 (one worker, its start included); all tiles of the",
                  "first two networks, the first ones about an input of the others:\n", *beside()]  # fmt: skip
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
