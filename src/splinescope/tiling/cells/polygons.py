"""Tiles of lines and planes as lists of corners, and the walls between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..approximation import TilingResult
from ..kernels.polygon_walls import fill_walls, list_walls, rank_walls
from .lists import CornerLists

if TYPE_CHECKING:
    from .polytopes import Facets


@dataclass(frozen=True, repr=False)
class Cells(CornerLists, TilingResult):
    """Tiles as lists of vertex numbers, counter-clockwise (1-D: left, right), in CSR form.

    Tile i has the corners `corners[offsets[i]:offsets[i + 1]]`, which is also `cells[i]`.
    """

    @property
    def side_offsets(self) -> np.ndarray:
        """`[K + 1]` where the sides (walls) of each tile begin in a list of all; there is one per corner."""
        return self.offsets

    def __getitem__(self, tile: int) -> np.ndarray:
        if not -len(self) <= tile < len(self):
            raise IndexError(f"tile must be in [0, {len(self)}), got {tile}")
        tile %= len(self)
        return self.corners[self.offsets[tile] : self.offsets[tile + 1]]

    def walls(
        self, labels: np.ndarray, points: np.ndarray, site_of: Callable[[np.ndarray], np.ndarray]
    ) -> Walls | Facets:
        """Every wall once, with its sides and what made it; `site_of` finds the site of each cut."""
        if points.shape[1] == 1:
            ends, cuts, tiles = _walls_of_intervals(self.corners, labels)
        else:
            ends, tiles, cuts = walls_of_polygons(self.offsets, self.corners, labels, len(points))
        return Walls(ends, tiles.astype(np.int32, copy=False), cuts, site_of(cuts))


@dataclass(frozen=True, repr=False)
class Walls(TilingResult):
    """The walls between tiles; each names what made it.

    Attributes:
        ends: `[E, 2]` vertex numbers (1-D: the one vertex, twice).
        tiles: `[E, 2]` the tiles on its two sides, -1 for outside the domain.
        cuts: `[E]` number of the cut that made it, counted over all sites (`Folds.units` has the unit); -1 outside.
            Where several folds coincide, the first in execution order.
        sites: `[E]` index into `Tiling.sites`; -1 for the domain's boundary.
    """

    ends: np.ndarray
    tiles: np.ndarray
    cuts: np.ndarray
    sites: np.ndarray

    def __len__(self) -> int:
        return len(self.ends)

    def sizes(self, points: np.ndarray) -> np.ndarray:
        """`[E]` lengths (1-D: zero)."""
        ends = points[self.ends]
        return np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)


def _walls_of_intervals(corners: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The end points of intervals as walls: (ends, cuts, tiles)."""
    points, first, inverse = np.unique(corners, return_index=True, return_inverse=True)
    tiles = np.full((len(points), 2), -1, np.int64)
    numbers = np.arange(len(corners)) // 2
    right_end = np.arange(len(corners)) % 2 == 1
    tiles[inverse[right_end], 0] = numbers[right_end]
    tiles[inverse[~right_end], 1] = numbers[~right_end]
    return np.stack([points, points], 1), labels[first], tiles


def walls_of_polygons(
    offsets: np.ndarray, corners: np.ndarray, labels: np.ndarray, vertices: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every wall once, by its lower and then its higher end: (ends `[E, 2]`, tiles `[E, 2]`, labels `[E]`).

    Ends, label and first tile are those of the first tile in order that has the wall; the second is -1 at the boundary.
    Memory beside the result: three int32 a wall, one a vertex.
    """
    most = len(corners)  # memory that is not written to is not taken
    heads, following, higher = np.full(vertices, -1, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    count = list_walls(offsets, corners, heads, following, higher)
    ranks = np.empty(count, np.int32)
    rank_walls(heads, following, ranks)
    ends, tiles = np.empty((count, 2), corners.dtype), np.full((count, 2), -1, np.int32)
    cuts = np.empty(count, labels.dtype)
    fill_walls(offsets, corners, labels, heads, following, higher, ranks, ends, tiles, cuts)
    return ends, tiles, cuts
