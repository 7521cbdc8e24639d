"""Tiles of three and more dimensions: corners with their facets, the walls between tiles, volumes and centers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...support.errors import InputError, SplinescopeError
from .. import kernels
from ..approximation import TilingResult
from .lists import offsets_of
from .lists import owners as owners_of
from .polygons import Cells
from .solids import Solids, measured
from .tiles import Tiles


@dataclass(frozen=True, repr=False)
class Polytopes(Cells):
    """Convex tiles of three and more dimensions, in CSR form.

    Tile i has the corners `corners[offsets[i]:offsets[i + 1]]`, in no special order, and the facets
    `side_offsets[i]` to `side_offsets[i + 1]` (numbered through all tiles). Bit f of `facet_bits[c]` says that corner
    number c of the list lies on the tile's f-th facet; that is all there is to know about its faces.
    """

    facet_bits: np.ndarray
    facet_offsets: np.ndarray

    @property
    def side_offsets(self) -> np.ndarray:
        return self.facet_offsets

    @property
    def lists(self) -> tuple[np.ndarray, ...]:
        """The arrays as kernels take them."""
        return self.offsets, self.corners, self.facet_bits, self.facet_offsets

    def walls(self, labels: np.ndarray, points: np.ndarray, site_of: Callable[[np.ndarray], np.ndarray]) -> Facets:
        """Every facet once, paired with the neighbor's by its set of vertices."""
        slots = len(labels)
        keys, sizes = np.empty(slots, np.uint64), np.empty(slots, np.int32)
        kernels.facet_keys(*self.lists, keys, sizes)
        first, second, numbers = np.empty(slots, np.int64), np.empty(slots, np.int64), np.empty(slots, np.int32)
        table = np.full(1 << int(2 * slots + 1).bit_length(), -1, np.int32)
        count = kernels.pair_facets(keys, table, first, second, numbers)
        if count < 0:
            raise SplinescopeError("more than two tiles share a facet: please report this network and slice.")
        first, second = first[:count].copy(), second[:count]
        tile_of = owners_of(self.facet_offsets, np.int32)
        tiles = np.stack([tile_of[first], np.where(second >= 0, tile_of[second], -1)], 1).astype(np.int32)
        cuts = labels[first]
        return Facets(
            tiles, cuts, site_of(cuts), offsets_of(sizes[first].astype(np.int64)), numbers, first, self, points
        )

    def second_moments(self, points: np.ndarray, part: slice) -> np.ndarray:
        """`[n, d, d]` covariances of the uniform distribution on each of some tiles."""
        ends = slice(part.start, part.stop + 1)
        lists = self.offsets[ends], self.corners, self.facet_bits, self.facet_offsets[ends]
        return measured(lists, points, second=True)[2]


@dataclass(frozen=True, repr=False)
class Facets(TilingResult):
    """The walls between tiles of three and more dimensions: convex polytopes of one dimension less.

    Attributes:
        tiles: `[E, 2]` the tiles on its two sides, -1 for outside the domain.
        cuts: `[E]` number of the cut that made it, counted over all sites (`Folds.units` has the unit); -1 outside.
        sites: `[E]` index into `Tiling.sites`; -1 for the domain's boundary.
        offsets: `[E + 1]` wall i has the vertices `vertices[offsets[i]:offsets[i + 1]]`; in 3-D they go around it.
        numbers: The wall of each facet of each tile, in the order of the tiles' facets.
        slots: `[E]` its number among the facets of all tiles, of the first of its tiles.
    """

    tiles: np.ndarray
    cuts: np.ndarray
    sites: np.ndarray
    offsets: np.ndarray
    numbers: np.ndarray
    slots: np.ndarray
    _cells: Polytopes
    _points: np.ndarray

    def __len__(self) -> int:
        return len(self.tiles)

    @cached_property
    def vertices(self) -> np.ndarray:
        """`[M]` vertex numbers, as `offsets` say."""
        places, dimension = np.empty(self.offsets[-1], np.int64), self._points.shape[1]
        kernels.list_facets(self.slots, self.tiles[:, 0], *self._cells.lists, dimension, self.offsets[:-1], places)
        return self._cells.corners[places]

    @cached_property
    def _measured(self) -> tuple[np.ndarray, np.ndarray]:  # in five dimensions, most of what walls cost
        vectors, centers = np.empty((2, len(self), self._points.shape[1]))
        kernels.measure_facets(self.slots, self.tiles[:, 0], *self._cells.lists, self._points, vectors, centers)
        return vectors, centers

    @property
    def vectors(self) -> np.ndarray:
        """`[E, d]` its (d-1)-volume times its unit normal, away from the first of its tiles."""
        return self._measured[0]

    @property
    def centers(self) -> np.ndarray:
        """`[E, d]` its center of mass."""
        return self._measured[1]

    def sizes(self, points: np.ndarray) -> np.ndarray:
        """`[E]` (d-1)-volumes: areas in 3-D."""
        return np.linalg.norm(self.vectors, axis=1)

    @property
    def ends(self) -> np.ndarray:
        raise InputError("walls have two ends on a plane only; those of solids are lists: vertices, offsets.")

    def __getitem__(self, wall: int) -> np.ndarray:
        """The vertex numbers of one wall."""
        if not -len(self) <= wall < len(self):
            raise IndexError(f"wall must be in [0, {len(self)}), got {wall}")
        wall %= len(self)
        return self.vertices[self.offsets[wall] : self.offsets[wall + 1]]


def cells_of(tiles: Tiles) -> Cells:
    """The engine's tiles as a tiling shows them."""
    if isinstance(tiles, Solids):
        return Polytopes(tiles.offsets, tiles.corners, tiles.masks, tiles.facet_offsets)
    return Cells(tiles.offsets, tiles.corners)
