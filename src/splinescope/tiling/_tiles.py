"""How tiles are kept and cut: intervals and polygons as lists of corners, one unit's fold after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import kernels

OUTSIDE = -1
"""Label of a wall that is the boundary of the domain."""


@dataclass(frozen=True)
class Tiles:
    """Intervals or convex polygons as CSR lists of corners, counter-clockwise (1-D: left, right).

    `labels[i]` names what made the wall from corner i to the next (1-D: what made corner i).
    """

    offsets: np.ndarray
    corners: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def whole(cls, domain: np.ndarray) -> Tiles:
        """The domain, corners `[n, d]`, as one tile of vertices 0 to n - 1."""
        n = len(domain)
        return cls(np.array([0, n], np.int64), np.arange(n, dtype=np.int32), np.full(n, OUTSIDE, np.int32))

    def part(self, start: int, stop: int) -> Tiles:
        """The tiles start..stop."""
        low, high = self.offsets[start], self.offsets[stop]
        return Tiles(self.offsets[start : stop + 1] - low, self.corners[low:high], self.labels[low:high])

    def renumbered(self, ids: np.ndarray) -> Tiles:
        """The same tiles with vertex v called ids[v]."""
        return Tiles(self.offsets, ids[self.corners], self.labels)

    def used(self, count: int) -> np.ndarray:
        """`[count]` booleans: which vertices are corners."""
        used = np.zeros(count, bool)
        used[self.corners] = True
        return used

    def size(self, points: np.ndarray) -> float:
        """Length or area of all tiles together."""
        if points.shape[1] == 1:
            ends = points[self.corners, 0].reshape(-1, 2)
            return float((ends[:, 1] - ends[:, 0]).sum())
        areas = np.empty(len(self))
        kernels.polygon_areas(self.offsets, self.corners, points, areas)
        return float(areas.sum())

    def cutting(self, pos: np.ndarray, neg: np.ndarray, first: int) -> np.ndarray:
        """Per tile, how many units >= first take both signs on it."""
        counts = np.empty(len(self), np.int64)
        kernels.count_cutting_units(self.offsets, self.corners, pos, neg, first, counts)
        return counts

    def unit_after(self, nth: int, pos: np.ndarray, neg: np.ndarray, first: int) -> int:
        """The unit just past the nth (from 1) unit >= first that takes both signs on some tile."""
        return int(kernels.nth_cutting_unit(self.offsets, self.corners, pos, neg, first, nth))


def expected_pieces(lines: np.ndarray) -> np.ndarray:
    """About how many pieces a convex tile is cut into by that many lines.

    At most one more for each pair that crosses inside; about half of the pairs do. Only sizes depend on it.
    """
    return 1 + lines + lines * (lines - 1) // 4


class Room:
    """Space for a cut: what kernels fill. A guess that was too small is doubled where it was, and the cut repeated."""

    def __init__(self, vertices: int, tiles: Tiles, units: int, pieces: int) -> None:
        self._given, self._tiles, self._units = vertices, tiles, units
        self._more = pieces - len(tiles)
        self._vertices = self._stack = 1
        self._results = 2

    @property
    def vertices(self) -> int:
        """How many vertices there may be; a cut adds at most two."""
        return self._given + 2 * (self._more + 4) * self._vertices

    def enlarge(self, status: int) -> None:
        if status in (kernels.VERTICES_FULL, kernels.TABLE_FULL):
            self._vertices *= 2
        elif status == kernels.TILES_FULL:
            self._results *= 2
        else:
            self._stack *= 2

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The table of edges (keys, values), the tiles (offsets, corners, labels) and the stack (four arrays)."""
        size = 1 << int(np.ceil(np.log2(2 * self.vertices + 16)))
        tiles = len(self._tiles) + (self._more + 2) * self._results
        corners = len(self._tiles.corners) + 4 * (self._more + 2) * self._results  # a cut adds at most four
        depth = (256 + self._units) * self._stack
        return (
            np.empty(size, np.uint64), np.full(size, -1, np.int32),
            np.empty(tiles + 1, np.int64), np.empty(corners, np.int32), np.empty(corners, np.int32),
            np.empty(16 * depth, np.int32), np.empty(16 * depth, np.int32),
            np.empty(depth, np.int64), np.empty(depth, np.int64),
        )  # fmt: skip


def cut(
    tiles: Tiles, vertices: kernels.Vertices, count: int, first: int, last: int,
    labels: np.ndarray, tolerances: np.ndarray, room: Room,
) -> tuple[int, int, Tiles | None]:  # fmt: skip
    """Cut tiles along units first <= k < last; `vertices`, of which `count` are in use, are added to in place.

    `labels` `[U]` are what the units are called. Returns the status of the kernel, how many vertices are in use then,
    and the tiles that stand in the place of the old ones, in their order (None unless the status is DONE).
    """
    split = kernels.split_polygons if vertices.points.shape[1] == 2 else kernels.split_intervals
    arrays = room.arrays()
    status, total, pieces = split(
        tiles.offsets, tiles.corners, tiles.labels, first, last, labels, count, *vertices, tolerances, *arrays
    )
    if status != kernels.DONE:
        return status, total, None
    offsets, corners, walls = arrays[2:5]
    end = int(offsets[pieces])
    return status, total, Tiles(offsets[: pieces + 1].copy(), corners[:end].copy(), walls[:end].copy())
