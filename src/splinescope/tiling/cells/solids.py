"""How tiles of three and more dimensions are kept and cut: corners with the sets of facets they lie on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import kernels
from .hull import hull
from .lists import joined_offsets, offsets_of, owners, places_of
from .tiles import OUTSIDE, CutBuffers, Tiles, joined_lists

_SAMPLE = 64  # tiles that are measured for progress
_FEWEST = 4096  # pieces there is room for at least: folds of one large tile make up to ten times those expected


@dataclass(frozen=True)
class Solids(Tiles):
    """Convex polytopes: CSR lists of corners, and per corner the bits of the tile's facets it lies on.

    `labels` holds one entry per facet (not per corner): those of tile i are `facet_offsets[i]` to
    `facet_offsets[i + 1]`, and bit f of `masks[c]` says that corner c lies on the f-th of them.
    """

    masks: np.ndarray
    facet_offsets: np.ndarray

    @property
    def lists(self) -> tuple[np.ndarray, ...]:
        """The arrays as kernels take them."""
        return self.offsets, self.corners, self.masks, self.facet_offsets

    @classmethod
    def whole(cls, domain: np.ndarray) -> Solids:
        """The domain, corners `[n, d]`, as one tile of vertices 0 to n - 1."""
        on = hull(domain).on
        n, facets = on.shape
        return cls(
            np.array([0, n], np.int64), np.arange(n, dtype=np.int32), np.full(facets, OUTSIDE, np.int32),
            bits_of(on), np.array([0, facets], np.int64),
        )  # fmt: skip

    @classmethod
    def joined(cls, parts: Sequence[Tiles]) -> Solids:
        solids = [part for part in parts if isinstance(part, Solids)]
        words = max(part.masks.shape[1] for part in solids)
        masks = np.concatenate([widened(part.masks, words) for part in solids])
        return cls(
            *joined_lists(parts), np.concatenate([part.labels for part in parts]),
            masks, joined_offsets([part.facet_offsets for part in solids]),
        )  # fmt: skip

    def part(self, start: int, stop: int) -> Solids:
        low, high = self.offsets[start], self.offsets[stop]
        first, last = self.facet_offsets[start], self.facet_offsets[stop]
        return Solids(
            self.offsets[start : stop + 1] - low, self.corners[low:high], self.labels[first:last],
            self.masks[low:high], self.facet_offsets[start : stop + 1] - first,
        )  # fmt: skip

    def taken(self, order: np.ndarray) -> Solids:
        offsets, corners = places_of(self.offsets, order)
        facet_offsets, facets = places_of(self.facet_offsets, order)
        return Solids(offsets, self.corners[corners], self.labels[facets], self.masks[corners], facet_offsets)

    def renumbered(self, ids: np.ndarray) -> Solids:
        return Solids(self.offsets, ids[self.corners], self.labels, self.masks, self.facet_offsets)

    def finished(self, dimension: int) -> Solids:
        """Folds that touch a tile in a face of few dimensions look like facets while tiles are cut: not any more."""
        if dimension == 3:  # three corners span a facet
            return self
        real = np.empty(len(self.labels), np.bool_)
        kernels.real_facets(self.offsets, self.masks, self.facet_offsets, dimension, real)
        if real.all():
            return self
        masks = self.masks.copy()
        kernels.keep_slots(self.offsets, masks, self.facet_offsets, real)
        kept = offsets_of(real)
        return Solids(self.offsets, self.corners, self.labels[real], masks, kept[self.facet_offsets])

    def size(self, points: np.ndarray) -> float:
        """Volume of all tiles together, for progress: beyond some dozens of tiles an estimate from a sample of them."""
        if len(self) > 2 * _SAMPLE:
            chosen = np.zeros(len(self), bool)
            chosen[np.linspace(0, len(self) - 1, _SAMPLE).astype(int)] = True
            return self.chosen(chosen).size(points) * len(self) / np.count_nonzero(chosen)
        return float(self.sizes(points).sum())

    def sizes(self, points: np.ndarray) -> np.ndarray:
        """`[K]` volumes."""
        return measured(self.lists, points)[0]

    def sides(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        keys, sizes = np.empty(len(self.labels), np.uint64), np.empty(len(self.labels), np.int32)
        kernels.facet_keys(*self.lists, keys, sizes)
        starts = offsets_of(sizes)
        places = np.empty(starts[-1], np.int64)
        slots = np.arange(len(self.labels))
        kernels.list_facets(slots, owners(self.facet_offsets), *self.lists, 0, starts[:-1], places)  # in any order
        return self.facet_offsets, starts, self.corners[places]

    def room(self, vertices: int, units: int, pieces: int) -> SolidCutBuffers:
        return SolidCutBuffers(vertices, self, units, pieces)


class SolidCutBuffers(CutBuffers):
    """Space for a cut of solids."""

    _tiles: Solids
    _dimension = 3

    def __init__(self, vertices: int, tiles: Solids, units: int, pieces: int) -> None:
        super().__init__(vertices, tiles, units, pieces)
        self._words = tiles.masks.shape[1]
        self._more = max(self._more, _FEWEST)
        self._stack = self._vertices = self._results = 4

    def enlarge(self, status: int) -> None:
        if status == kernels.FACETS_FULL:
            self._words += 1
        elif status == kernels.STACK_FULL:
            self._stack *= 2
        else:  # more pieces than expected, so of all that belongs to them
            self._more *= 4

    def _table(self) -> np.ndarray:
        """No larger than it must be: it is looked into at random, and a small one stays in the cache."""
        new = (self._more + 4) << (self._dimension - 2)  # there are about as many vertices as 3-D tiles
        size = 1 << int(np.ceil(np.log2(2 * new + 16)))
        return np.zeros((size, 2), np.uint64)

    def cut(
        self, vertices: kernels.Vertices, count: int, first: int, last: int, labels: np.ndarray, tolerances: np.ndarray
    ) -> tuple[int, int, Tiles | None]:
        tiles, words = self._tiles, self._words
        dimension = self._dimension = vertices.points.shape[1]
        many = (self._more + 2) * self._results
        corners = len(tiles.corners) + (many << dimension)
        facets = len(tiles.labels) + many * (2 * dimension + 2)
        largest = max(int(np.diff(tiles.offsets).max()), 64) * self._stack
        depth = 64 * self._stack
        masks = widened(tiles.masks, words)
        out = (
            np.empty(len(tiles) + many + 1, np.int64), np.empty(corners, np.int32),
            np.empty((corners, words), np.uint64), np.empty(len(tiles) + many + 1, np.int64),
            np.empty(facets, np.int32),
        )  # fmt: skip
        stack = (
            np.empty(16 * largest, np.int32), np.empty((16 * largest, words), np.uint64), np.empty(depth, np.int64),
            np.empty(depth, np.int64), np.empty(64 * words * depth, np.int32), np.empty(depth, np.int64),
            np.empty(depth, np.int64), np.empty(depth, np.uint64),
        )  # fmt: skip
        scratch = (
            np.empty(largest, np.int8), np.empty(largest, np.int32), np.empty(largest, np.int32),
            np.empty(largest, np.uint64), np.empty(largest, np.int32), np.empty((largest, words), np.uint64),
        )  # fmt: skip
        status, total, pieces = kernels.split_cells(
            tiles.offsets, tiles.corners, masks, tiles.facet_offsets, tiles.labels, first, last, labels, count,
            *vertices, tolerances, self._table(), *out, *stack, *scratch,
        )  # fmt: skip
        if status != kernels.DONE:
            return status, total, None
        offsets, corner_list, out_masks, facet_offsets, facet_list = out
        end, facet_end = int(offsets[pieces]), int(facet_offsets[pieces])
        solids = Solids(
            offsets[: pieces + 1].copy(), corner_list[:end].copy(), facet_list[:facet_end].copy(),
            out_masks[:end].copy(), facet_offsets[: pieces + 1].copy(),
        )  # fmt: skip
        return status, total, solids


def measured(lists: tuple[np.ndarray, ...], points: np.ndarray, second: bool = False) -> tuple[np.ndarray, ...]:
    """Volumes `[K]`, centers of mass `[K, d]`, covariances `[K, d, d]` (if asked for), and how many simplices `[K]`."""
    count, d = len(lists[0]) - 1, points.shape[1]
    found = np.empty(count), np.empty((count, d)), np.empty((count if second else 0, d, d)), np.empty(count, np.int64)
    kernels.measure_cells(*lists, points, *found)
    return found


def kind_of(domain: np.ndarray) -> type[Tiles]:
    """How tiles of a domain `[n, d]` are kept."""
    return Tiles if domain.shape[1] < 3 else Solids


def bits_of(on: np.ndarray) -> np.ndarray:
    """Masks `[n, words]` from booleans `[n, facets]`."""
    n, facets = on.shape
    masks = np.zeros((n, (facets + 63) // 64), np.uint64)
    for f in range(facets):
        masks[on[:, f], f // 64] |= np.uint64(1) << np.uint64(f % 64)
    return masks


def widened(masks: np.ndarray, words: int) -> np.ndarray:
    """The masks as 64-bit words, with zero words behind them."""
    masks = masks.astype(np.uint64, copy=False)
    if masks.shape[1] == words:
        return masks
    return np.concatenate([masks, np.zeros((len(masks), words - masks.shape[1]), np.uint64)], 1)
