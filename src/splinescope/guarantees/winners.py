"""Tiles cut where the winning class changes, so that one class wins on every piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..tiling import kernels
from ..tiling.cells.lists import CornerLists, owners, reduced
from ..tiling.cells.polytopes import Polytopes
from ..tiling.cells.solids import Solids
from ..tiling.cells.tiles import Tiles
from ..tiling.measures.maps import output_count, vertex_values
from ..tiling.tiling import Tiling
from .rounding import least_share

_NUMBERS_TOGETHER = 1 << 22  # outputs at corners that are looked at in one go
_TRIES = 8  # of pairs of classes per cut

Measure = Callable[[CornerLists, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Of tiles whose corners are numbers of points `[V, d]`, `[n]` each: weights, bounds of their rounding, and what a
share of the tile weighs per share, at most."""


def class_weights(tiling: Tiling, measure: Measure, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`[C]` the weight of the places where each class wins, and how far rounding may have moved it.

    `error` `[C]` bounds the rounding of outputs: what is won by less is in doubt.
    """
    size = max(2, output_count(tiling))
    if len(error) == 1:
        error = np.append(0.0, error)
    total, doubts = np.zeros((2, size))
    for won, tiles, points, values in _pieces(tiling):
        weights, off, most = measure(tiles, points)
        total += np.bincount(won, weights, size)
        at = values[tiles.corners]
        winner = won[owners(tiles.offsets)]
        gap = at[np.arange(len(at)), winner][:, None] - at
        low, high = (reduced(extreme, gap, tiles.offsets) for extreme in (np.minimum, np.maximum))
        lost = least_share(low, high, error[won][:, None] + error, tiling.dimension) * most[:, None]
        lost = np.minimum(lost, (weights + off)[:, None])
        lost[np.arange(len(won)), won] = 0.0
        doubts += lost.sum(0) + np.bincount(won, lost.sum(1) + off, size)
    return total, doubts


Pieces = tuple[np.ndarray, Tiles, np.ndarray, np.ndarray]
"""Winners `[n]`, the pieces themselves, their points and the outputs there."""


def _pieces(tiling: Tiling) -> Iterator[Pieces]:
    """Pieces that make up all tiles, and on each of which one class wins, some at a time.

    The places where a class wins are convex on a tile: a class that wins at every corner wins on the whole tile. Any
    other tile is cut where two classes tie that win at different corners, and its parts are looked at again; a class
    that wins inside alone wins at a corner of one of them. One output counts as two classes: not positive, and
    positive. Outputs closer than the tiling's `rtol` times the largest are tied, and the first one has the piece.
    """
    until = np.append(0, np.cumsum(np.diff(tiling.tiles.offsets) * max(1, output_count(tiling))))
    start = 0
    while start < tiling.count:
        stop = max(start + 1, int(np.searchsorted(until[1:], until[start] + _NUMBERS_TOGETHER, side="right")))
        yield from _of_block(tiling, start, stop)
        start = stop


def _of_block(tiling: Tiling, start: int, stop: int) -> Iterator[Pieces]:
    cells = tiling.tiles
    if isinstance(cells, Polytopes):
        offsets, corners, masks, facet_offsets = cells.lists
        tiles: Tiles = Solids(offsets, corners, tiling.corner_labels, masks, facet_offsets).part(start, stop)
    else:
        tiles = Tiles(cells.offsets, cells.corners, tiling.corner_labels).part(start, stop)
    used = tiles.corners
    tiles = _own_corners(tiles)
    points, values = tiling.vertices[used], vertex_values(tiling, used)
    if values.shape[1] == 1:
        values = np.concatenate([np.zeros_like(values), values], 1)
    tolerance = tiling.rtol * float(np.abs(values).max(initial=0.0))
    while len(tiles):
        won, pairs = _winners(tiles, values, tolerance)
        decided = won >= 0
        finished = tiles.chosen(decided)
        if len(finished):
            yield won[decided], finished, points, values
        tiles = tiles.chosen(~decided)
        if not len(tiles):
            break
        corners = tiles.corners
        tiles = _own_corners(tiles)
        points, values = points[corners], values[corners]
        first, second = pairs[~decided].T
        owner = owners(tiles.offsets)
        rows = np.arange(len(values))
        apart = values[rows, first[owner]] - values[rows, second[owner]]
        tiles, points, values = _cut(tiles, points, values, apart, tolerance)


def _winners(tiles: Tiles, values: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """`[n]` the class that wins on a whole tile or -1, and `[n, 2]` for the latter two classes that share it."""
    at = values[tiles.corners]
    lacks = at.max(1, keepdims=True) - at
    worst = reduced(np.maximum, lacks, tiles.offsets)
    within = worst <= tolerance
    won = np.where(within.any(1), within.argmax(1), -1)
    pairs = np.zeros((len(tiles), 2), np.int64)
    open_ = np.flatnonzero(won < 0)
    mine = worst[open_].argmin(1)
    for _ in range(_TRIES):  # a class, and one that beats it at a corner but is beaten at another
        if not len(open_):
            return won, pairs
        some = tiles.taken(open_)
        owner = owners(some.offsets)
        inner = values[some.corners]
        rows = np.arange(len(inner))
        gap = inner.max(1) - inner[rows, mine[owner]]
        most = reduced(np.maximum, gap, some.offsets)
        corner = np.flatnonzero(gap == most[owner])
        corner = corner[np.unique(owner[corner], return_index=True)[1]]
        other = inner[corner].argmax(1)
        apart = inner[rows, mine[owner]] - inner[rows, other[owner]]
        good = reduced(np.maximum, apart, some.offsets) > tolerance
        pairs[open_[good]] = np.stack([mine[good], other[good]], 1)
        open_, mine = open_[~good], other[~good]  # the other is better everywhere: go on with it
    won[open_] = mine  # by rounding alone
    return won, pairs


def _cut(
    tiles: Tiles, points: np.ndarray, values: np.ndarray, apart: np.ndarray, tolerance: float
) -> tuple[Tiles, np.ndarray, np.ndarray]:
    """Tiles, none of which share a corner, cut where `apart`, affine on each, is zero."""
    n = len(points)
    cuts, limits = apart[:, None].copy(), np.array([tolerance])
    room = tiles.room(n, 1, 2 * len(tiles))
    names = np.arange(1, n + 1, dtype=np.uint64)
    while True:
        more = room.vertices
        vertices = kernels.Vertices(
            _grown(names, more), _grown(points, more), np.empty((more, 2), np.int32), np.empty((more, 2)),
            np.zeros((more, 1), np.uint64), np.zeros((more, 1), np.uint64), cuts, np.empty((more - n, 1)),
            np.zeros((more - n, 1), np.bool_),
        )  # fmt: skip
        kernels.sign_bits(cuts, limits, 0, n, vertices.pos, vertices.neg)
        status, total, parts = room.cut(vertices, n, 0, 1, np.zeros(1, np.int32), limits)
        if parts is not None:
            break
        room.enlarge(status)
    values = _grown(values, total)
    kernels.carry(n, total, vertices.parents, vertices.weights, values)
    return parts, vertices.points[:total].copy(), values


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    grown = np.empty((size, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def _own_corners(tiles: Tiles) -> Tiles:
    """The same tiles with corners of their own, numbered as they are listed."""
    corners = np.arange(len(tiles.corners), dtype=np.int32)
    if isinstance(tiles, Solids):
        return Solids(tiles.offsets, corners, tiles.labels, tiles.masks, tiles.facet_offsets)
    return Tiles(tiles.offsets, corners, tiles.labels)
