"""How tiles are kept and cut: intervals and polygons as lists of corners, one unit's fold after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np

from .. import kernels
from .lists import CornerLists, following, joined_offsets, places_of

OUTSIDE = -1
"""Label of a wall that is the boundary of the domain."""


@dataclass(frozen=True)
class Tiles(CornerLists):
    """Intervals or convex polygons as CSR lists of corners, counter-clockwise (1-D: left, right).

    `labels[i]` names what made the wall from corner i to the next (1-D: what made corner i).
    """

    labels: np.ndarray

    @classmethod
    def whole(cls, domain: np.ndarray) -> Tiles:
        """The domain, corners `[n, d]`, as one tile of vertices 0 to n - 1."""
        n = len(domain)
        return cls(np.array([0, n], np.int64), np.arange(n, dtype=np.int32), np.full(n, OUTSIDE, np.int32))

    @classmethod
    def joined(cls, parts: Sequence[Tiles]) -> Tiles:
        """The tiles of all parts, which number vertices alike."""
        return cls(*joined_lists(parts), np.concatenate([part.labels for part in parts]))

    def part(self, start: int, stop: int) -> Tiles:
        """The tiles start..stop."""
        low, high = self.offsets[start], self.offsets[stop]
        return Tiles(self.offsets[start : stop + 1] - low, self.corners[low:high], self.labels[low:high])

    def chosen(self, mask: np.ndarray) -> Tiles:
        """The tiles with a True."""
        return self.taken(np.flatnonzero(mask))

    def taken(self, order: np.ndarray) -> Tiles:
        """The tiles of those numbers, in that order."""
        offsets, places = places_of(self.offsets, order)
        return Tiles(offsets, self.corners[places], self.labels[places])

    def renumbered(self, ids: np.ndarray) -> Tiles:
        """The same tiles with vertex v called ids[v]."""
        return Tiles(self.offsets, ids[self.corners], self.labels)

    def finished(self, dimension: int) -> Tiles:
        """The tiles without what only the cutting needed."""
        return self

    def used(self, count: int) -> np.ndarray:
        """`[count]` booleans: which vertices are corners."""
        used = np.zeros(count, bool)
        used[self.corners] = True
        return used

    def size(self, points: np.ndarray) -> float:
        """Length or area of all tiles together."""
        return float(self.sizes(points).sum())

    def cutting(self, pos: np.ndarray, neg: np.ndarray, first: int) -> np.ndarray:
        """Per tile, how many units >= first take both signs on it."""
        counts = np.empty(len(self), np.int64)
        kernels.count_cutting_units(self.offsets, self.corners, pos, neg, first, counts)
        return counts

    def unit_after(self, nth: int, pos: np.ndarray, neg: np.ndarray, first: int) -> int:
        """The unit just past the nth (from 1) unit >= first that takes both signs on some tile."""
        return int(kernels.nth_cutting_unit(self.offsets, self.corners, pos, neg, first, nth))

    def sides(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The sides that labels name: offsets by tile, offsets of their lists of vertices, and these."""
        sizes = np.repeat(np.diff(self.offsets), np.diff(self.offsets))
        ends = np.where(sizes == 2, self.corners, self.corners[following(self.offsets)])  # in 1-D a side is a point
        return self.offsets, np.arange(0, 2 * len(ends) + 1, 2), np.stack([self.corners, ends], 1).reshape(-1)

    def room(self, vertices: int, units: int, pieces: int) -> CutBuffers:
        """Space to cut these tiles, which have that many vertices, by that many units into that many pieces or so."""
        return CutBuffers(vertices, self, units, pieces)


def joined_lists(parts: Sequence[Tiles]) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and corners of all parts."""
    return joined_offsets([part.offsets for part in parts]), np.concatenate([part.corners for part in parts])


def expected_pieces(folds: np.ndarray, dimension: int) -> np.ndarray:
    """About how many pieces a convex tile is cut into by that many folds.

    At most one more for each set of up to d that meet inside; about 1 in j! of the sets of j do. Only sizes depend
    on it.
    """
    pieces = 1 + folds
    if dimension == 2 and folds.max(initial=0) < 1 << 20:
        return pieces + folds * (folds - 1) // 4
    sets = folds.astype(float)
    for j in range(2, dimension + 1):
        sets = sets * np.maximum(folds - j + 1, 0) / j
        pieces = pieces + np.minimum(sets // factorial(j), 1e12).astype(np.int64)
    return pieces


def most_folds(pieces: int, dimension: int) -> int:
    """About how many folds cut one tile into at most that many pieces."""
    return int((factorial(dimension) * float(pieces)) ** (1.0 / dimension))


class CutBuffers:
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

    def cut(
        self, vertices: kernels.Vertices, count: int, first: int, last: int, labels: np.ndarray, tolerances: np.ndarray
    ) -> tuple[int, int, Tiles | None]:
        """Cut the tiles along units first <= k < last; `vertices`, of which `count` are in use, are added to in place.

        `labels` `[U]` are what the units are called. Returns the status of the kernel, how many vertices are in use
        then, and the tiles that stand in the place of the old ones, in their order (None unless the status is DONE).
        """
        split = kernels.split_polygons if vertices.points.shape[1] == 2 else kernels.split_intervals
        tiles = len(self._tiles) + (self._more + 2) * self._results
        size = len(self._tiles.corners) + 4 * (self._more + 2) * self._results  # a cut adds at most four
        depth = (256 + self._units) * self._stack
        out = (np.empty(tiles + 1, np.int64), np.empty(size, np.int32), np.empty(size, np.int32))
        status, total, pieces = split(
            self._tiles.offsets, self._tiles.corners, self._tiles.labels, first, last, labels, count,
            *vertices, tolerances, self._table(), *out,
            np.empty(16 * depth, np.int32), np.empty(16 * depth, np.int32),
            np.empty(depth, np.int64), np.empty(depth, np.int64), np.empty(depth, np.uint64),
        )  # fmt: skip
        if status != kernels.DONE:
            return status, total, None
        offsets, corners, walls = out
        end = int(offsets[pieces])
        return status, total, Tiles(offsets[: pieces + 1].copy(), corners[:end].copy(), walls[:end].copy())

    def _table(self) -> np.ndarray:
        """Where the vertices on cut edges are looked up: keys (0: none) and values, side by side in the cache."""
        size = 1 << int(np.ceil(np.log2(2 * self.vertices + 16)))
        return np.zeros((size, 2), np.uint64)
