"""A chunk: some tiles with the vertices they need, standing before one fold; a leaf: tiles that have met them all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from mmap import mmap

import numpy as np

from .. import kernels
from ..cells.solids import Solids
from ..cells.tiles import Tiles
from .rows_factored import FactoredRows
from .rows_plain import PlainRows

_PAGES = 1 << 18  # bytes of an array from which on it gets pages of its own
PER_VERTEX = ("names", "points", "parents", "weights", "pos", "neg")
"""The arrays of a chunk with one entry per vertex."""


@dataclass(frozen=True)
class Chunk:
    """Tiles before fold number `stage`, of which units below `first` are already done.

    Attributes:
        path: Its place in the order of tiles; sub-chunks append their number.
        names, points: `[V]`, `[V, d]` of all vertices.
        old: How many vertices were there before this fold; the others have `parents` and `weights`.
        rows: What the old vertices carry: their values, and the pre-activations `rows.cuts` `[old, U]` (in factored
            form, of those units alone that take both signs on the chunk; units are then numbered within them).
        pos, neg: Signs of the pre-activations of all vertices.
        tiles: The tiles.
    """

    path: tuple[int, ...]
    stage: int
    first: int
    names: np.ndarray
    points: np.ndarray
    old: int
    parents: np.ndarray
    weights: np.ndarray
    rows: PlainRows | FactoredRows
    pos: np.ndarray
    neg: np.ndarray
    tiles: Tiles

    @property
    def count(self) -> int:
        return len(self.tiles)

    def part(self, start: int, stop: int, number: int) -> Chunk:
        """The tiles start..stop with the vertices they need (and those vertices' ancestors at this fold)."""
        tiles = self.tiles.part(start, stop)
        used = tiles.used(len(self.names))
        # rows of new vertices follow from their parents', which come along though they may be corners of no tile
        kernels.keep_ancestors(used, self.old, self.parents)
        ids = np.cumsum(used, dtype=np.int32) - np.int32(1)
        rows = self.rows.some(used[: self.old])
        old = len(rows)
        parents = self.parents[used]
        parents[old:] = ids[parents[old:]]
        return replace(
            self, path=(*self.path, number), names=self.names[used], points=self.points[used], old=old,
            parents=parents, weights=self.weights[used], rows=rows, pos=self.pos[used], neg=self.neg[used],
            tiles=tiles.renumbered(ids),
        )  # fmt: skip


@dataclass(frozen=True)
class Leaf:
    """Finished tiles: the vertices' names, points and outputs (None if not kept), and the tiles."""

    path: tuple[int, ...]
    names: np.ndarray
    points: np.ndarray
    values: np.ndarray | None
    tiles: Tiles

    @property
    def count(self) -> int:
        return len(self.tiles)

    @property
    def size(self) -> float:
        """Length or area of its tiles together."""
        return self.tiles.size(self.points)

    def packed(self) -> Leaf:
        """The same for a long wait: in pages of its own, which go back to the system with it, and narrow masks."""
        tiles, values = self.tiles, None if self.values is None else _in_pages(self.values)
        lists = [_in_pages(array) for array in (tiles.offsets, tiles.corners, tiles.labels)]
        if isinstance(tiles, Solids):
            kind = np.min_scalar_type(tiles.masks.max(initial=0))
            lists += [_in_pages(tiles.masks.astype(kind, copy=False)), _in_pages(tiles.facet_offsets)]
        return Leaf(self.path, _in_pages(self.names), _in_pages(self.points), values, type(tiles)(*lists))


def _in_pages(array: np.ndarray) -> np.ndarray:
    """A copy outside of the heap, whose holes would stay in memory."""
    if array.nbytes < _PAGES:
        return array
    pages = np.frombuffer(mmap(-1, array.nbytes), array.dtype).reshape(array.shape)
    pages[:] = array
    return pages
