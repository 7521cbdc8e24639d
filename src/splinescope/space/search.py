"""Searches over tiles: by hops, or in order of distance from a point. Each tile is read once, each wall asked once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count

import numpy as np

from .cell import Cell


class Tiles:
    """The tiles that a search has met, each once.

    Attributes:
        cells: In the order of meeting.
        number: Their numbers, by the keys of their patterns.
    """

    def __init__(self, start: Cell) -> None:
        self.cells = [start]
        self.number = {start.rows.key: 0}

    def behind(self, cell: Cell, wall: int) -> tuple[int, bool]:
        """Number of the tile behind a facet, and whether it is met for the first time."""
        key = cell.key_behind(wall)
        if key is not None and key in self.number:
            return self.number[key], False
        other = cell.across(wall)
        key = other.rows.key
        if key in self.number:
            return self.number[key], False
        self.number[key] = len(self.cells)
        self.cells.append(other)
        return len(self.cells) - 1, True

    def is_met(self, cell: Cell, wall: int) -> bool:
        """Whether the tile behind a wall is known to have been met, without reading it."""
        key = cell.key_behind(wall)
        return key is not None and key in self.number

    def edges(self) -> list[tuple[int, int, int]]:
        """(tile, tile, wall of the first) of all facets between tiles that were met, each once."""
        found: dict[tuple[int, int], int] = {}
        for first, cell in enumerate(self.cells):
            for wall in range(len(cell.polytope.heights)):
                if not cell.leads_on(wall) or cell.polytope.state[wall] == 0:
                    continue
                key = cell.key_behind(wall)
                if key is not None:
                    other = self.number.get(key, -1)
                    if other < 0 or (min(first, other), max(first, other)) in found or not cell.polytope.is_facet(wall):
                        continue
                else:
                    if not cell.polytope.is_facet(wall):
                        continue
                    other = self.number.get(cell.across(wall).rows.key, -1)
                if other >= 0:
                    found.setdefault((min(first, other), max(first, other)), wall if first < other else -1 - wall)
        return [(a, b, wall) for (a, b), wall in sorted(found.items())]


def by_hops(tiles: Tiles, stop: Callable[[int], bool], hops: int | None = None) -> Iterator[tuple[int, int]]:
    """(number, hops) of tiles in order of hops from the first; `stop` is told of every one that is looked at."""
    far = [0]
    yield 0, 0
    place = 0
    while place < len(tiles.cells) and (hops is None or far[place] < hops):
        cell = tiles.cells[place]
        if stop(place):
            return
        cell.polytope.solve()
        for wall in np.flatnonzero(cell.polytope.state == 1).tolist():
            if cell.leads_on(wall):
                number, is_new = tiles.behind(cell, wall)
                if is_new:
                    far.append(far[place] + 1)
                    yield number, far[number]
        place += 1


def by_distance(tiles: Tiles, norm: float, reach: Callable[[], float]) -> Iterator[tuple[int, float]]:
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
        cell = tiles.cells[number]
        heights, normals = cell.polytope.heights, cell.polytope.normals
        if norm != 2:  # the dual norm of the maximum
            heights = heights / np.abs(cell.space.directions(normals)).sum(1)
        for wall, height in enumerate(np.abs(heights).tolist()):
            if height < reach() and cell.leads_on(wall):
                heapq.heappush(queue, (max(height, least), next(order), number, wall, False))

    push(0, 0.0)
    while queue:
        far, _, number, wall, is_exact = heapq.heappop(queue)
        if far >= reach():
            return
        cell = tiles.cells[number]
        if tiles.is_met(cell, wall) or cell.polytope.state[wall] == 0:
            continue
        if not is_exact:
            exact = max(far, cell.distance(wall, norm)[0])
            if exact < reach() and cell.polytope.is_facet(wall):
                heapq.heappush(queue, (exact, next(order), number, wall, True))
            continue
        other, is_new = tiles.behind(cell, wall)
        if is_new:
            yield other, far
            push(other, far)
