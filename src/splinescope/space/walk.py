"""`walk`: the tiles on the straight way between two inputs, and a shortest way by hops."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from torch import nn

from ..network import SplineNetwork
from ..network.program import Site, site_names
from ..support.checks import check_whole
from ..support.display import Certainty, Result, counted, table
from ..support.errors import InputError
from ..support.progress import Progress, telling
from ._kernels import typical
from .affine_rows import behind
from .cell import Cell, cell_at
from .search import Tiles
from .tile import checked_network

_TOGETHER = 1e-12  # of the way so far and of typical distances: walls met within it are met at one point
_FARTHEST = 1e12  # typical distances of folds: at the end of a longer way rounding hides them

Crossing = tuple[int, int]
"""Site and unit of a fold that is crossed (the first one, where folds coincide)."""


@dataclass(frozen=True, eq=False, repr=False)
class Walk(Result):
    """Ways from one input to another through tiles.

    Attributes:
        sites: The network's sites.
        times: `[K]` where the straight way crosses walls, from 0 to 1.
        crossings: `[K]` site and unit of the fold at each of them.
        shortest: Facets that some way of fewest hops crosses, in order; the straight way's where none shorter is known.
        at_least: Proven: no way takes fewer hops.
    """

    sites: tuple[Site, ...]
    times: np.ndarray
    crossings: tuple[Crossing, ...]
    shortest: tuple[Crossing, ...]
    at_least: int

    @property
    def certainty(self) -> Certainty:
        """ "exact" if `shortest` is shortest; "bound" if a limit came first."""
        return "exact" if self.at_least == len(self.shortest) else "bound"

    def __repr__(self) -> str:
        return f"Walk({counted(len(self.times), 'hop')} straight, {len(self.shortest)} at best, {self.certainty})"

    def summary(self) -> str:
        """Hops of both ways, by site."""
        rows = [("site", "straight", "shortest")]
        for number, name in enumerate(site_names(self.sites)):
            straight, best = (sum(site == number for site, _ in way) for way in (self.crossings, self.shortest))
            rows.append((name, str(straight), str(best)))
        return f"{self!r}\n{table(rows)}\nNo way takes fewer than {counted(self.at_least, 'hop')}.\n{self.assurance}"


def walk(
    model: nn.Module | SplineNetwork,
    a: Any,
    b: Any,
    *,
    max_tiles: int = 1000,
    progress: Progress | bool | None = None,
) -> Walk:
    """The tiles on the straight line from one input to another, and a path of fewest hops.

    A hop crosses one facet. The straight way is exact at any size; a fold within rounding of an end may count or not.
    A shortest way is looked for by A*: every fold of the first site that lies between both ends must be crossed, which
    bounds the hops that are left.

    Args:
        model: A torch module, or the result of `trace` or `load`.
        a, b: Two inputs, `[*input_shape]`.
        max_tiles: How many tiles the search for a shortest way may meet; then its bounds are what they are.
        progress: As in `tessellate`.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> way = ss.space.walk(net, -3 * torch.ones(5), 3 * torch.ones(5))
        >>> len(way.times) == len(way.shortest)  # one layer: no plane is crossed twice
        True
    """
    check_whole(max_tiles, "max_tiles")
    network, start = checked_network(model, a, "a")
    end = checked_network(network, b, "b")[1]
    first = cell_at(network.program(), start, name="a")
    times, crossings, goal = _straight(first, first.space.coordinates(end[None])[0])
    with telling(progress, "shortest way") as tell:
        shortest, at_least = _shortest(first, goal, crossings, max_tiles, lambda n: tell(n / max_tiles, f"{n:,} tiles"))
    return Walk(network.program().sites, np.array(times), crossings, shortest, at_least)


def _straight(cell: Cell, way: np.ndarray) -> tuple[list[float], tuple[Crossing, ...], Cell]:
    """Times and folds of the crossings on the way from the origin, and the tile at its end."""
    times: list[float] = []
    crossings: list[Crossing] = []
    now, length, scale = 0.0, float(np.abs(way).max(initial=0.0)), typical(cell.rows.heights)
    if length > _FARTHEST * scale:
        raise InputError(f"b is too far away for float64: {length:.1e} from a, folds are some {scale:.1e} from it.")
    while True:
        polytope = cell.polytope
        speed = -(polytope.normals @ way)
        with np.errstate(divide="ignore", invalid="ignore"):
            exits = np.where(speed > 1e-14 * np.linalg.norm(way), polytope.heights / speed, np.inf)
        exits = np.maximum(exits, now)
        soon = float(exits.min(initial=np.inf))
        apart = _TOGETHER * (soon + scale / max(length, 1e-300))
        if not soon + apart < 1.0:
            return times, tuple(crossings), cell
        walls = np.flatnonzero(exits <= soon + apart)
        units = [cell.units(wall) for wall in walls.tolist()]
        for each in units:
            times.append(soon)
            crossings.append((int(each[0, 0]), int(each[0, 1])))
        now = soon
        rows = cell.space.rows(behind(cell.rows, np.concatenate(units), way)).of(0)
        cell = Cell(cell.space, rows, now * way)


def _shortest(
    start: Cell, goal: Cell, straight: tuple[Crossing, ...], max_tiles: int, tell: Callable[[int], None]
) -> tuple[tuple[Crossing, ...], int]:
    """A way of fewest hops, and how many every way takes at least."""
    plane = np.full(len(start.rows.pattern[0]) if start.rows.pattern else 0, -1)
    for number, group in enumerate(start.members):
        own = start.rows.owners[group]
        plane[own[own[:, 0] == 0, 1]] = number
    target = goal.rows.pattern

    def left(cell: Cell) -> tuple[int, int]:
        """(hops that are left at least, units that differ)."""
        differ = [p != q for p, q in zip(cell.rows.pattern, target, strict=True)]
        planes = np.unique(plane[differ[0]]) if differ and target[0].dtype == bool else plane[:0]
        return int((planes >= 0).sum()), int(sum(d.sum() for d in differ))

    tiles = Tiles(start)
    gone: dict[int, tuple[Crossing, ...]] = {0: ()}
    order = count()
    least, away = left(start)
    queue = [(least, away, next(order), 0)]
    done: set[int] = set()
    while queue:
        bound, _, _, number = heapq.heappop(queue)
        if bound >= len(straight):
            return straight, len(straight)
        cell = tiles[number]
        if number in done:
            continue
        if cell.rows.key == goal.rows.key:
            return gone[number], len(gone[number])
        if len(tiles) >= max_tiles:
            return straight, bound
        done.add(number)
        tell(min(len(tiles), max_tiles))
        for wall in cell.walls():
            other, _ = tiles.behind(cell, wall)
            unit = cell.units(wall)[0]
            way = (*gone[number], (int(unit[0]), int(unit[1])))
            if other not in gone or len(way) < len(gone[other]):
                gone[other] = way
                least, away = left(tiles[other])
                heapq.heappush(queue, (len(way) + least, away, next(order), other))
    return straight, len(straight)
