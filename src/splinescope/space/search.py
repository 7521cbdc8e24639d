"""Searches over tiles: by hops, or in order of distance from a point. Each tile is read once, each wall asked once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count

import numpy as np
import torch
from torch import nn

from ..network import trace
from ..tiling.engine.time_limit import Clock
from ..tiling.measures.differentiate import jacobians
from .cell import Cell, cell_at, cells_behind
from .polytope import UnresolvedError

_NUMBERS = 1 << 20  # in the widest site of tiles that are read together: 8 MB


class Tiles:
    """The tiles that a search has met, each once.

    A tile behind a facet that one unit makes is known by its key, and waits: it is read once it is asked for, together
    with those that wait behind it.
    """

    def __init__(self, start: Cell) -> None:
        self._cells: list[Cell | tuple[Cell, int, tuple[int, int]]] = [start]
        self._number = {start.rows.key: 0}
        numbers = (1 + start.space.dimension) * max([1, *(len(part) for part in start.rows.pattern)])
        self._together = max(1, _NUMBERS // numbers)

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, number: int) -> Cell:
        """A tile by its number, in the order of meeting."""
        found = self._cells[number]
        if isinstance(found, Cell):
            return found
        walls = []
        for waiting in self._cells[number : number + self._together]:
            if isinstance(waiting, Cell):
                break
            walls.append(waiting)
        cells = cells_behind(walls)
        self._cells[number : number + len(cells)] = cells
        return cells[0]

    def forget(self, most: int) -> None:
        """Leave the first `most` tiles."""
        del self._cells[most:]
        self._number = {key: number for key, number in self._number.items() if number < most}

    def behind(self, cell: Cell, wall: int) -> tuple[int, bool]:
        """Number of the tile behind a facet, and whether it is met for the first time."""
        unit = cell.one_unit(wall)
        other = cell.across(wall) if unit is None else (cell, wall, unit)
        key = other.rows.key if isinstance(other, Cell) else cell.rows.key_behind(*other[2])
        number = self._number.setdefault(key, len(self._cells))
        if number < len(self._cells):
            return number, False
        self._cells.append(other)
        return number, True

    def number_behind(self, cell: Cell, wall: int) -> int | None:
        """Number of the tile behind a wall as far as that is known without reading it; -1: it was not met."""
        unit = cell.one_unit(wall)
        return None if unit is None else self._number.get(cell.rows.key_behind(*unit), -1)

    def edges(self) -> list[tuple[int, int, int, int]]:
        """Both tiles, site and unit of all facets between tiles that were met."""
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for first in range(len(self)):
            cell = self[first]
            for wall in range(len(cell.polytope.heights)):
                other = self.number_behind(cell, wall)
                if other is not None and (other < 0 or (min(first, other), max(first, other)) in found):
                    continue
                try:
                    if not cell.polytope.is_facet(wall):
                        continue
                except UnresolvedError:  # a tile too thin for it; from its neighbor the wall is seen
                    continue
                if other is None:
                    other = self._number.get(cell.across(wall).rows.key, -1)
                if other >= 0:
                    site, unit, _ = cell.units(wall)[0].tolist()
                    found.setdefault((min(first, other), max(first, other)), (site, unit))
        return [(*pair, *unit) for pair, unit in sorted(found.items())]


def by_hops(tiles: Tiles, stop: Callable[[], bool], hops: int | None = None) -> Iterator[tuple[int, int]]:
    """(number, hops) of tiles in order of hops from the first; `stop` is asked before each step."""
    far = [0]
    yield 0, 0
    place = 0
    while place < len(tiles) and (hops is None or far[place] < hops) and not stop():
        cell = tiles[place]
        for wall in cell.walls(lambda _share: stop()):
            number, is_new = tiles.behind(cell, wall)
            if is_new:
                far.append(far[place] + 1)
                yield number, far[number]
        place += 1


def by_distance(tiles: Tiles, norm: float, reach: Callable[[], float], clock: Clock) -> Iterator[tuple[int, float]]:
    """(number, distance) of tiles in order of their distance from the origin, as long as it is below `reach()`.

    A tile is nearest to the origin at a facet through which a straight way enters it, so that a queue of facets meets
    tiles in order (GeoCert's argument). A facet waits with the distance of its hyperplane, which is a bound, until
    that is the least of all; only then is the facet itself asked.

    Reference: Jordan, Lewis, Dimakis, "Provable certificates for adversarial examples: fitting a ball in the union of
    polytopes", 2019.
    """
    order = count()
    queue: list[tuple[float, int, int, int, bool]] = []  # (bound, order, tile, wall, whether the bound is exact)
    yield 0, 0.0

    def push(number: int, least: float) -> None:
        cell, most = tiles[number], reach()
        heights, normals = cell.polytope.heights, cell.polytope.normals
        if norm != 2:  # the dual norm of the maximum
            heights = heights / np.abs(cell.space.directions(normals)).sum(1)
        for wall, height in enumerate(np.abs(heights).tolist()):
            if height < most:
                heapq.heappush(queue, (max(height, least), next(order), number, wall, False))

    push(0, 0.0)
    while queue:
        far, _, number, wall, is_exact = heapq.heappop(queue)
        if far >= reach():
            return
        cell = tiles[number]
        known = tiles.number_behind(cell, wall)
        if (known is not None and known >= 0) or cell.polytope.state[wall] == 0:
            continue
        if not is_exact:
            exact = max(far, cell.distance(wall, norm, clock.left)[0])
            if exact < reach() and cell.polytope.is_facet(wall):
                heapq.heappush(queue, (exact, next(order), number, wall, True))
            continue
        other, is_new = tiles.behind(cell, wall)
        if is_new:
            yield other, far
            push(other, far)


@cache
def load_once() -> None:
    """Load and compile what searches and attacks need, by some among a few tiles."""
    x = np.array([[0.3, 0.0], [0.3, 0.1]])  # on a fold, and off all
    layer = nn.utils.skip_init(nn.Linear, 2, 2, dtype=torch.float64)  # draws no random numbers
    nn.init.eye_(layer.weight)
    nn.init.zeros_(layer.bias)
    program = trace(nn.Sequential(layer, nn.ReLU(), nn.Hardtanh()), torch.from_numpy(x)).program()
    jacobians(program, x)
    for row in x:
        list(by_hops(Tiles(cell_at(program, row)), lambda: False))
        list(by_distance(Tiles(cell_at(program, row)), 2, lambda: 1.0, Clock()))
