"""Cuts tiles fold by fold, depth first, in chunks that bound the memory.

A chunk is a set of tiles with the vertices they need, standing before one fold. Advancing it cuts its tiles along
that fold and carries the rows to the next one: by the real torch ops for vertices that were there before, by
delta propagation for those that the fold made. What a chunk holds never changes a result (see `kernels`), so
chunks may be split at will: to bound the memory, or to give an idle thread something to do.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..network._program import Seal
from . import kernels
from ._plan import Plan, run_in_blocks
from ._segments import CUTS, Columns, Segment

_FEWEST_ROWS = 64  # what a chunk holds at least, however wide its rows
_ENOUGH_ROWS = 1024  # smaller chunks repeat the vertices on their outlines too often: worth four times the memory


_PER_VERTEX = ("names", "points", "parents", "weights", "pos", "neg")
_WORTH_DROPPING = 0.8  # a smaller share of vertices in use: wide rows are expensive to move


@dataclass(frozen=True)
class Chunk:
    """Tiles before fold number `stage`, of which units below `first` are already done.

    Attributes:
        path: Its place in the order of tiles; sub-chunks append their number.
        names, points: `[V]`, `[V, d]` of all vertices.
        old: How many vertices were there before this fold; the others have `parents` and `weights`.
        rows: Flat values of the old vertices (key to `[old, size]`), without the pre-activations.
        cuts: Pre-activations of the old vertices, `[old, U]`.
        pos, neg: Signs of the pre-activations of all vertices.
        offsets, corners, labels: The tiles as CSR.
    """

    path: tuple[int, ...]
    stage: int
    first: int
    names: np.ndarray
    points: np.ndarray
    old: int
    parents: np.ndarray
    weights: np.ndarray
    rows: dict[str, np.ndarray]
    cuts: np.ndarray
    pos: np.ndarray
    neg: np.ndarray
    offsets: np.ndarray
    corners: np.ndarray
    labels: np.ndarray

    @property
    def count(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class Leaf:
    """Finished tiles: the vertices' names, points and outputs (None if not kept), and the tiles as CSR."""

    path: tuple[int, ...]
    names: np.ndarray
    points: np.ndarray
    values: np.ndarray | None
    offsets: np.ndarray
    corners: np.ndarray
    labels: np.ndarray

    @property
    def count(self) -> int:
        return len(self.offsets) - 1


def _expected_pieces(lines: np.ndarray) -> np.ndarray:
    """About how many pieces a convex tile is cut into by that many lines.

    At most one more for each pair that crosses inside; about half of the pairs do. Only sizes depend on it.
    """
    return 1 + lines + lines * (lines - 1) // 4


class Engine:
    """Advances chunks of one plan; holds nothing that a thread could disturb."""

    def __init__(self, plan: Plan, output: str, chunk_bytes: int) -> None:
        self._plan = plan
        self._output = output
        self._chunk_bytes = chunk_bytes
        self._scratch = threading.local()

    def start(
        self, inputs: np.ndarray, input_name: str, input_shape: tuple[int, ...], domain: np.ndarray
    ) -> Chunk | Leaf:
        """The whole domain (corners `[n, d]`, network inputs `[n, D]`) as one tile before the first fold."""
        n = len(domain)
        segment = self._plan.segments[0]
        rows = _empty_rows(segment, n, self._width)
        run_in_blocks(segment, {input_name: inputs}, {input_name: input_shape}, self._plan.rows_per_block[0], rows, n)
        names = np.array([kernels.mix(i + 1, i + 2**33, 0) for i in range(n)], np.uint64)
        return self._next_chunk(
            (), 0, names, domain.copy(), rows,
            np.array([0, n], np.int64), np.arange(n, dtype=np.int32), np.full(n, -1, np.int32),
        )  # fmt: skip

    def advance(self, chunk: Chunk, split_in: int = 1) -> list[Chunk | Leaf]:
        """Cut a chunk along its fold, or split it into smaller chunks if it is too much at once.

        The tiles of the results, in order, stand in the place of the chunk's tiles.
        """
        units = self._units(chunk.stage)
        counts = np.empty(chunk.count, np.int64)
        kernels.count_cutting_units(chunk.offsets, chunk.corners, chunk.pos, chunk.neg, chunk.first, counts)
        pieces = _expected_pieces(counts)
        rows = self._chunk_bytes // self._plan.row_bytes[chunk.stage]
        limit = max(_FEWEST_ROWS, rows, min(4 * rows, _ENOUGH_ROWS))
        total = int(pieces.sum())
        if chunk.count > 1 and (total > limit or split_in > 1):
            share = min(limit, -(-total // split_in))
            group = np.minimum(np.cumsum(pieces) - pieces, total - 1) // share
            starts = np.flatnonzero(np.diff(group, prepend=-1))
            if len(starts) > 1:
                ends = [*starts[1:], chunk.count]
                return [_part(chunk, int(a), int(b), i) for i, (a, b) in enumerate(zip(starts, ends, strict=True))]
        last = units
        if total > limit:  # one tile, more pieces than fit: only as many units as fit
            nth = int(np.sqrt(2.0 * limit))
            tile = (chunk.offsets, chunk.corners, chunk.pos, chunk.neg)
            last = min(units, int(kernels.nth_cutting_unit(*tile, chunk.first, nth)))
            total = chunk.count + int(_expected_pieces(np.array([nth])).sum())
        cut, vertices = self._cut(chunk, last, total)
        return [cut] if last < units else [self._cross(cut, vertices)]

    def _cut(self, chunk: Chunk, last: int, pieces: int) -> tuple[Chunk, kernels.Vertices]:
        """The chunk with its tiles cut along units first <= k < last, and what the kernels know of its vertices."""
        base = self._plan.first_labels[chunk.stage]
        dimension = chunk.points.shape[1]
        split = kernels.split_polygons if dimension == 2 else kernels.split_intervals
        n = len(chunk.names)
        room = pieces - chunk.count
        vertex_room = stack_room = 1
        tile_room = 2
        while True:
            # A cut adds at most two vertices, one tile and four corners. If the guess was too small: once more.
            most = n + 2 * (room + 4) * vertex_room
            vertices = self._with_room(chunk, most)
            size = 1 << int(np.ceil(np.log2(2 * most + 16)))
            tiles = chunk.count + (room + 2) * tile_room
            corner_room = len(chunk.corners) + 4 * (room + 2) * tile_room
            offsets = np.empty(tiles + 1, np.int64)
            corners = np.empty(corner_room, np.int32)
            labels = np.empty(corner_room, np.int32)
            depth = (256 + chunk.cuts.shape[1]) * stack_room
            status, total, count = split(
                chunk.offsets, chunk.corners, chunk.labels, chunk.first, last, base, n,
                *vertices, self._plan.tolerances[chunk.stage],
                np.empty(size, np.uint64), np.full(size, -1, np.int32),
                offsets, corners, labels,
                np.empty(16 * depth, np.int32), np.empty(16 * depth, np.int32),
                np.empty(depth, np.int64), np.empty(depth, np.int64),
            )  # fmt: skip
            if status == kernels.DONE:
                break
            if status in (kernels.VERTICES_FULL, kernels.TABLE_FULL):
                vertex_room *= 2
            elif status == kernels.TILES_FULL:
                tile_room *= 2
            else:
                stack_room *= 2
        end = int(offsets[count])
        cut = replace(
            chunk, first=last, **{name: getattr(vertices, name)[:total] for name in _PER_VERTEX},
            offsets=offsets[: count + 1].copy(), corners=corners[:end].copy(), labels=labels[:end].copy(),
        )  # fmt: skip
        return cut, vertices

    def _with_room(self, chunk: Chunk, most: int) -> kernels.Vertices:
        """A chunk's vertices with room for more, and for the pre-activations of those that the fold makes.

        These lie in this thread's buffer, good until the next cut: wide rows in fresh memory cost more than they do.
        """
        count, width = most - chunk.old, chunk.cuts.shape[1]
        buffer = getattr(self._scratch, "buffer", None)
        if buffer is None or buffer.size < count * width:
            buffer = self._scratch.buffer = np.empty(count * width)
        return kernels.Vertices(
            **{name: _grown(getattr(chunk, name), most) for name in _PER_VERTEX},
            cuts=chunk.cuts,
            new_cuts=buffer[: count * width].reshape(count, width),
            filled=np.zeros((count, chunk.pos.shape[1]), np.bool_),
        )

    def _units(self, stage: int) -> int:
        fold = self._plan.segments[stage].next_fold
        assert fold is not None
        return fold.site.units

    def _cross(self, chunk: Chunk, vertices: kernels.Vertices) -> Chunk | Leaf:
        """Carry all vertices of a fully cut chunk over the fold to the end of the next segment."""
        stage = chunk.stage + 1
        before, segment = self._plan.segments[chunk.stage], self._plan.segments[stage]
        fold = segment.fold
        assert fold is not None
        total = len(chunk.names)
        rows = _empty_rows(segment, total, self._width)
        old = chunk.old
        live = {name: chunk.cuts if name in before.aliases else chunk.rows[name] for name in before.kept}
        run_in_blocks(segment, live, before.shapes, self._plan.rows_per_block[stage], rows, old)
        if total > old:
            found = np.zeros(chunk.pos.shape[1], np.uint64)
            kernels.conflicting_units(old, total, *vertices[2:], found)
            units = np.flatnonzero(np.unpackbits(found.view(np.uint8), bitorder="little"))
            columns = segment.columns(before.shapes, np.unique(fold.elements[units])) if segment.bent else {}
            for key in segment.keys:
                self._carry(chunk, vertices, rows[key], columns.get(key))
        return self._next_chunk(
            chunk.path, stage, chunk.names, chunk.points, rows, chunk.offsets, chunk.corners, chunk.labels
        )

    def _carry(self, chunk: Chunk, vertices: kernels.Vertices, rows: np.ndarray, columns: Columns | None) -> None:
        """Fill the rows of the vertices that the fold made."""
        fold = self._plan.segments[chunk.stage].next_fold
        assert fold is not None
        old, total = chunk.old, len(chunk.names)
        if columns is None or columns.count == 0:
            kernels.carry(old, total, chunk.parents, chunk.weights, rows)
            return
        bends = (*vertices[2:-1], rows, fold.gains, columns.slots[fold.elements])
        if columns.dense is not None:
            kernels.carry_dense(old, total, *bends, columns.dense)
        else:
            kernels.carry_sparse(old, total, *bends, columns.starts, columns.indices, columns.entries)

    def _next_chunk(
        self, path: tuple[int, ...], stage: int, names: np.ndarray, points: np.ndarray,
        rows: dict[str, np.ndarray], offsets: np.ndarray, corners: np.ndarray, labels: np.ndarray,
    ) -> Chunk | Leaf:  # fmt: skip
        segment = self._plan.segments[stage]
        for seal, tol in zip(segment.seals, self._plan.seal_tolerances[stage], strict=True):
            self._apply_seal(seal, tol, segment, rows, offsets, corners, labels)
        if segment.next_fold is None:
            return Leaf(path, names, points, rows.get(self._output), offsets, corners, labels)
        cuts = rows.pop(CUTS)
        used = np.zeros(len(names), bool)
        used[corners] = True
        if np.count_nonzero(used) < _WORTH_DROPPING * len(used):  # ancestors that were only needed to carry others
            ids = np.cumsum(used, dtype=np.int32) - np.int32(1)
            names, points, cuts, corners = names[used], points[used], cuts[used], ids[corners]
            rows = {key: row[used] for key, row in rows.items()}
        n, words = len(names), (segment.next_fold.site.units + 63) // 64
        pos, neg = np.empty((n, words), np.uint64), np.empty((n, words), np.uint64)
        kernels.sign_bits(cuts, self._plan.tolerances[stage], 0, n, pos, neg)
        return Chunk(
            path, stage, 0, names, points, n, np.empty((n, 2), np.int32), np.empty((n, 2)),
            rows, cuts, pos, neg,
            offsets, corners, labels,
        )  # fmt: skip

    def _apply_seal(
        self, seal: Seal, tol: np.ndarray, segment: Segment, rows: dict[str, np.ndarray],
        offsets: np.ndarray, corners: np.ndarray, labels: np.ndarray,
    ) -> None:  # fmt: skip
        """Mark the walls of a finished tournament that are none."""
        numbers = {
            fold.output: i for i, fold in enumerate(s.next_fold for s in self._plan.segments[:-1] if s.next_fold)
        }
        stages = [numbers[name] for name, _ in seal.stages]
        low = self._plan.first_labels[stages[0]]
        folds = [self._plan.segments[i].next_fold for i in stages]
        high = low + sum(fold.site.units for fold in folds if fold is not None)
        if not ((labels >= low) & (labels < high)).any():
            return

        def of(name: str) -> np.ndarray:
            return rows[CUTS] if name in segment.aliases else rows[name]

        final = of(seal.final)
        before = seal.competitors
        rounds = []
        for i, fold, (name, windows) in zip(stages, folds, seal.stages, strict=True):
            assert fold is not None
            rounds.append((i, fold, before, (of(name), final, fold.elements, windows, tol)))
            before = name
        for i, _, _, outcome in rounds:
            kernels.mark_lost_walls(offsets, corners, labels, self._plan.first_labels[i], *outcome)
        for i, fold, before, outcome in rounds:
            value = torch.from_numpy(of(before)).reshape(-1, *segment.shapes[before])
            cuts = fold.cuts(value).numpy()
            kernels.keep_shared_walls(
                offsets, corners, labels, low, high, cuts, self._plan.tolerances[i], *outcome
            )  # fmt: skip

    def _width(self, segment: Segment, key: str) -> int:
        if key == CUTS:
            assert segment.next_fold is not None
            return segment.next_fold.site.units
        return int(np.prod(segment.shapes[key]))


def _empty_rows(segment: Segment, count: int, width) -> dict[str, np.ndarray]:  # type: ignore[no-untyped-def]
    return {key: np.empty((count, width(segment, key))) for key in segment.keys}


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    """A longer array with the same beginning."""
    grown = np.empty((size, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def _part(chunk: Chunk, start: int, stop: int, number: int) -> Chunk:
    """The tiles start..stop of a chunk with the vertices they need (and those vertices' ancestors at this fold)."""
    low, high = chunk.offsets[start], chunk.offsets[stop]
    corners = chunk.corners[low:high]
    used = np.zeros(len(chunk.names), bool)
    used[corners] = True
    kernels.keep_ancestors(used, chunk.old, chunk.parents)
    ids = np.cumsum(used, dtype=np.int32) - np.int32(1)
    old = int(used[: chunk.old].sum())
    parents = chunk.parents[used]
    parents[old:] = ids[parents[old:]]
    return replace(
        chunk, path=(*chunk.path, number), names=chunk.names[used], points=chunk.points[used], old=old,
        parents=parents, weights=chunk.weights[used],
        rows={key: row[used[: chunk.old]] for key, row in chunk.rows.items()},
        cuts=chunk.cuts[used[: chunk.old]], pos=chunk.pos[used], neg=chunk.neg[used],
        offsets=chunk.offsets[start : stop + 1] - low, corners=ids[corners], labels=chunk.labels[low:high],
    )  # fmt: skip
