"""Cuts tiles fold by fold, depth first, in chunks that bound the memory.

Advancing a chunk cuts its tiles along the fold it stands before (`tiles`) and carries its rows to the next one
(`rows_plain`, or `rows_factored` where rows are wide). What a chunk holds never changes which tiles there are (see
`kernels`), so chunks may be split at will: to bound the memory, or to give an idle thread something to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from .. import kernels
from ..cells.solids import kind_of
from ..cells.tiles import Tiles, expected_pieces, most_folds
from ..slice import Slice, placed
from .chunk import PER_VERTEX, Chunk, Leaf
from .plan import Plan
from .rows_factored import FactoredRows, bending_units, crossed_factored, first_factored
from .rows_plain import PlainRows, crossed, first_rows, plain
from .spurious_walls import keep_used, mark_spurious

_FEWEST_ROWS = 64  # what a chunk holds at least, however wide its rows
_ENOUGH_ROWS = 1024  # smaller chunks repeat the vertices on their outlines too often: worth four times the memory
_WORTH_DROPPING = 0.8  # a smaller share of vertices in use: wide rows are expensive to move
_FACTORED_TIMES = 4  # coefficients count this many times: combinations cost more in large chunks than these save
_CUTS_BETWEEN = 3  # units that cut a tile, about, before it is looked at again: each may double the tiles to look at
_BASIS_SHARE = 8  # a basis may take this many times the bytes of a chunk's rows: it serves all of the chunk


Keep = Callable[[int, PlainRows, Tiles, np.ndarray], np.ndarray | None]
"""From the fold that tiles stand before, what their corners carry, the tiles and the points `[V, d]`: which are wanted.

As booleans, or as numbers in the order in which to go on with them; None: all.

Called for plain rows only; in the middle of a fold too, if that is asked for.
"""


class Engine:
    """Advances chunks of one plan; holds nothing that a thread could disturb."""

    def __init__(
        self, plan: Plan, output: str, chunk_bytes: int, keep: Keep | None = None, midway: bool = False
    ) -> None:
        self._plan = plan
        self._keep = keep
        self._midway = midway  # whether tiles are dropped in the middle of a fold too
        self._output = output
        self._chunk_bytes = chunk_bytes

    def start(
        self, inputs: np.ndarray, input_name: str, input_shape: tuple[int, ...], domain: np.ndarray,
        tiles: Tiles | None = None,
    ) -> Chunk | Leaf | None:  # fmt: skip
        """The whole domain (corners `[n, d]`, network inputs `[n, D]`) as one tile before the first fold.

        Or `tiles` with those corners: they need not have anything to do with each other.
        """
        rows = first_rows(self._plan, inputs, input_name, input_shape)
        tiles = kind_of(domain).whole(domain) if tiles is None else tiles
        return self._next_chunk((), 0, first_names(len(domain)), domain.copy(), rows, tiles)

    def start_on(
        self, view: Slice, input_name: str, corners: np.ndarray | None = None, tiles: Tiles | None = None,
        names: np.ndarray | None = None,
    ) -> Chunk | Leaf | None:  # fmt: skip
        """The domain of a slice as one tile before the first fold, with the kind of rows that the plan says.

        Or a part of the domain: one tile with those corners `[n, d]`, called by those names.
        """
        corners = view.domain if corners is None else corners
        tiles = kind_of(corners).whole(corners) if tiles is None else tiles
        names = first_names(len(corners)) if names is None else names
        rows: PlainRows | FactoredRows
        if self._plan.factored:
            # about the middle coefficients are small, and so is what sums of them are rounded by
            center = corners.mean(0)
            first = np.concatenate([placed(view, center[None]), view.basis.reshape(-1, *view.input_shape)])
            rows = first_factored(self._plan, center, corners, first, input_name)
        else:
            rows = first_rows(self._plan, placed(view, corners).reshape(len(corners), -1), input_name, view.input_shape)
        return self._next_chunk((), 0, names, corners.copy(), rows, tiles)

    def is_finished(self, chunk: Chunk | Leaf) -> bool:
        """Whether a chunk has met all folds."""
        return isinstance(chunk, Leaf)

    def advance(self, chunk: Chunk, split_in: int = 1, most: int | None = None) -> list[Chunk | Leaf]:
        """Cut a chunk along its fold, or split it into smaller chunks if it is too much at once.

        Too much is what memory does not hold, and more than about `most` pieces. The tiles of the results, in order,
        stand in the place of the chunk's tiles.
        """
        units = chunk.rows.cuts.shape[1]
        most_units = units  # that a chunk may be cut by before its rows grow too many columns
        row_bytes = self._plan.layout.row_bytes[chunk.stage]
        crowded = False
        if isinstance(chunk.rows, FactoredRows):
            reduced = chunk.rows.reduced()
            chunk = replace(chunk, rows=reduced)
            row_bytes = 8 * _FACTORED_TIMES * sum(reduced.coefficients.shape[1:] + reduced.cuts.shape[1:])
            most_units, heavy = reduced.room(self._plan, chunk.stage, _BASIS_SHARE * self._chunk_bytes)
            crowded = bending_units(chunk.pos, chunk.neg, units).sum() > most_units
            split_in = max(split_in, 1 + heavy)
        dimension = chunk.points.shape[1]
        cutting = chunk.tiles.cutting(chunk.pos, chunk.neg, chunk.first)
        pieces = expected_pieces(cutting, dimension)
        rows = self._chunk_bytes // row_bytes
        limit = max(_FEWEST_ROWS, rows, min(4 * rows, _ENOUGH_ROWS))
        if most is not None:
            limit = min(limit, most)
        total = int(pieces.sum())
        split_in = max(split_in, 1 + crowded)
        if chunk.count > 1 and (total > limit or split_in > 1):
            share = min(limit, -(-total // split_in))
            group = np.minimum(np.cumsum(pieces) - pieces, total - 1) // share
            starts = np.flatnonzero(np.diff(group, prepend=-1))
            if len(starts) > 1:
                ends = [*starts[1:], chunk.count]
                return [chunk.part(int(a), int(b), i) for i, (a, b) in enumerate(zip(starts, ends, strict=True))]
        last = units
        if total > limit or crowded:  # one tile, more pieces than fit: only as many units as fit
            nth = min(most_folds(limit, dimension), most_units)
            last = min(units, chunk.tiles.unit_after(nth, chunk.pos, chunk.neg, chunk.first))
            total = chunk.count + int(expected_pieces(np.array([nth]), dimension).sum())
        crossing = float(cutting.mean()) if self._midway else 0.0
        if crossing > 2 * _CUTS_BETWEEN:
            last = min(last, chunk.first + int(np.ceil((units - chunk.first) * _CUTS_BETWEEN / crossing)))
        after, vertices = self._cut(chunk, last, total)
        if self._midway and last < units:
            return self._kept_midway(after)
        result = after if last < units or crowded else self._cross(after, vertices)
        return [] if result is None else [result]

    def _kept_midway(self, chunk: Chunk) -> list[Chunk | Leaf]:
        """A chunk in the middle of its fold, with those of its tiles that are wanted.

        Before the fold is crossed all values are affine on every tile: those of new vertices are combinations.
        """
        if self._keep is None or not isinstance(chunk.rows, PlainRows):
            return [chunk]
        rows = chunk.rows

        def carried(old: np.ndarray) -> np.ndarray:
            all_rows = grown(old, len(chunk.names))
            kernels.carry(len(old), len(all_rows), chunk.parents, chunk.weights, all_rows)
            return all_rows

        whole = replace(rows, cuts=carried(rows.cuts), values={key: carried(row) for key, row in rows.values.items()})
        kept = self._keep(chunk.stage, whole, chunk.tiles, chunk.points)
        if kept is None:
            return [chunk]
        tiles = chunk.tiles.chosen(kept) if kept.dtype == bool else chunk.tiles.taken(kept)
        return [replace(chunk, tiles=tiles).part(0, len(tiles), 0)] if len(tiles) else []

    def _cut(self, chunk: Chunk, last: int, pieces: int) -> tuple[Chunk, kernels.Vertices]:
        """The chunk with its tiles cut along units first <= k < last, and what the kernels know of its vertices."""
        rows = chunk.rows
        room = chunk.tiles.room(len(chunk.names), rows.cuts.shape[1], pieces)
        # kernels cannot grow arrays: they say what was too small, and the cut begins anew
        while True:
            vertices = self._with_room(chunk, room.vertices)
            status, total, tiles = room.cut(vertices, len(chunk.names), chunk.first, last, rows.labels, rows.tolerances)
            if tiles is not None:
                break
            room.enlarge(status)
        per_vertex = {name: getattr(vertices, name)[:total] for name in PER_VERTEX}
        if isinstance(rows, FactoredRows):  # no vertex needs its parents any more
            used = tiles.used(total)
            rows = rows.with_new(vertices, total)
            if not used.all():
                ids = np.cumsum(used, dtype=np.int32) - np.int32(1)
                per_vertex = {name: array[used] for name, array in per_vertex.items()}
                rows, tiles = rows.some(used), tiles.renumbered(ids)
        return replace(chunk, first=last, **per_vertex, rows=rows, old=len(rows), tiles=tiles), vertices

    def _with_room(self, chunk: Chunk, most: int) -> kernels.Vertices:
        """A chunk's vertices with room for more, and for the pre-activations of those that the fold makes."""
        count, width = most - chunk.old, chunk.rows.cuts.shape[1]
        return kernels.Vertices(
            **{name: grown(getattr(chunk, name), most) for name in PER_VERTEX},
            cuts=chunk.rows.cuts,
            new_cuts=self._plan.buffers.scratch(count, width),
            filled=np.zeros((count, chunk.pos.shape[1]), np.bool_),
        )

    def _cross(self, chunk: Chunk, vertices: kernels.Vertices) -> Chunk | Leaf | None:
        """Carry all vertices of a fully cut chunk over the fold to the end of the next segment."""
        rows: PlainRows | FactoredRows
        if isinstance(chunk.rows, FactoredRows):
            rows = crossed_factored(self._plan, chunk.stage, chunk.rows, chunk.pos, chunk.neg)
        else:
            rows = crossed(self._plan, chunk.stage, chunk.rows, vertices, len(chunk.names))
        return self._next_chunk(chunk.path, chunk.stage + 1, chunk.names, chunk.points, rows, chunk.tiles)

    def _next_chunk(
        self, path: tuple[int, ...], stage: int, names: np.ndarray, points: np.ndarray,
        rows: PlainRows | FactoredRows, tiles: Tiles,
    ) -> Chunk | Leaf | None:  # fmt: skip
        """What is left to do with tiles that stand at the end of a segment; None if no tile is kept."""
        segment = self._plan.segments[stage]
        asked = self._keep is not None and isinstance(rows, PlainRows)
        kept = self._keep(stage, rows, tiles, points) if asked else None  # type: ignore[misc, arg-type]
        if kept is not None:
            tiles = tiles.chosen(kept) if kept.dtype == bool else tiles.taken(kept)
            if not len(tiles):
                return None
        for tournament, tol in zip(segment.tournaments, self._plan.tie_tolerances[stage], strict=True):
            mark_spurious(self._plan, stage, tournament, tol, tiles, rows)
        if isinstance(rows, FactoredRows) and stage >= self._plan.factored:  # narrow from here on
            rows = plain(self._plan, stage, rows.expanded(segment), len(rows))
        if segment.next_fold is None:
            assert isinstance(rows, PlainRows)
            return Leaf(path, names, points, rows.values.get(self._output), tiles)
        used = tiles.used(len(names))
        if np.count_nonzero(used) < _WORTH_DROPPING * len(used):  # ancestors that were only needed to carry others
            ids = np.cumsum(used, dtype=np.int32) - np.int32(1)
            names, points, rows, tiles = names[used], points[used], rows.some(used), tiles.renumbered(ids)
        n, words = len(names), (rows.cuts.shape[1] + 63) // 64
        pos, neg = np.empty((n, words), np.uint64), np.empty((n, words), np.uint64)
        kernels.sign_bits(rows.cuts, rows.tolerances, 0, n, pos, neg)
        keep_used(self._plan, stage, tiles, rows, pos, neg)
        if isinstance(rows, FactoredRows):
            rows = replace(rows, grazing=None)
        parents, weights = np.empty((n, 2), np.int32), np.empty((n, 2))
        return Chunk(path, stage, 0, names, points, n, parents, weights, rows, pos, neg, tiles)


def first_names(count: int) -> np.ndarray:
    """Names of the domain's corners."""
    return np.array(_numbered_names(count), np.uint64)


@cache
def _numbered_names(count: int) -> list[int]:
    return [kernels.mix_in_python(i + 1, i + 2**33, 0) for i in range(count)]


def grown(array: np.ndarray, size: int) -> np.ndarray:
    """A longer array with the same beginning."""
    grown = np.empty((size, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown
