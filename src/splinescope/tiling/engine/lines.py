"""Tiles many lines at once: the vertices of all of them go through each layer together.

On a line a tile is what lies between two neighboring vertices, so vertices from left to right are all there is to
keep. A chunk is a set of stretches of lines that stand before one fold. Stretches share every matrix product, and a
line may be cut into several: no bit of a row depends on the rows beside it (see `rows_plain`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from ...network.program import Program, Tournament
from ...support.progress import Progress
from .. import kernels
from ..cells.tiles import OUTSIDE, Tiles
from ..slice import Slice
from .advance import first_names, grown
from .buffers import Buffers
from .mesh import Mesh
from .plan import Plan, always_factored_on_lines, make_plan, probe_weights, run_in_blocks
from .rows_plain import empty_rows, fill_new
from .schedule import Work
from .segments import CUTS
from .time_limit import Clock

_TOGETHER_BYTES = 4 << 20  # of the rows of stretches that are cut together: what caches hold
_BENDS_EACH = 12  # room for units that bend between the parents of a new vertex; doubled where it is too little
_LONG_TIMES = 4  # a stretch of one interval may take so many times the bytes of a chunk


@dataclass(frozen=True)
class Stretches:
    """Stretches of lines before fold number `stage`.

    Attributes:
        path: Its place in the order of stretches; parts append their number.
        lines: `[n]` the line that each stretch is a part of.
        starts: `[n + 1]`: stretch i has the vertices `order[starts[i]:starts[i + 1]]`, from left to right.
        names, points, labels: `[V]`, `[V, 1]`, `[V]` of the vertices; a label names the unit that made one.
        rows: Key to `[V, size]`: what the vertices carry at the end of segment `stage`.
    """

    path: tuple[int, ...]
    stage: int
    lines: np.ndarray
    starts: np.ndarray
    order: np.ndarray
    names: np.ndarray
    points: np.ndarray
    labels: np.ndarray
    rows: dict[str, np.ndarray]

    @property
    def count(self) -> int:
        """How many tiles they have."""
        return len(self.order) - len(self.lines)

    @property
    def size(self) -> float:
        """Their length."""
        ends = self.points[self.order, 0]
        return float((ends[self.starts[1:] - 1] - ends[self.starts[:-1]]).sum())

    def split(self, weights: np.ndarray, parts: int) -> list[Stretches]:
        """Parts of about equal weight, that of each vertex being given: some stretches each, or some of one stretch."""
        shares = np.cumsum(weights) * (parts / max(weights.sum(), 1))
        if len(self.lines) > 1:
            group = np.minimum(shares[self.starts[1:] - 1].astype(np.int64), parts - 1)
            firsts = np.flatnonzero(np.diff(group, prepend=-1))
            if len(firsts) == 1:
                firsts = np.array([0, len(self.lines) // 2])
            ends = [*firsts.tolist(), len(self.lines)]
            return [self._some(range(a, b), i) for i, (a, b) in enumerate(pairwise(ends))]
        last = len(self.order) - 1
        ends = [0, *np.unique(np.clip(np.searchsorted(shares, np.arange(1, parts)), 1, last - 1)).tolist(), last]
        return [
            # both parts keep the vertex between them
            self._with(self.lines, np.array([0, b - a + 1]), self.order[a : b + 1], i)
            for i, (a, b) in enumerate(pairwise(ends))
        ]

    def _some(self, lines: range, number: int) -> Stretches:
        starts = self.starts[lines.start : lines.stop + 1]
        return self._with(
            self.lines[lines.start : lines.stop], starts - starts[0], self.order[starts[0] : starts[-1]], number
        )

    def _with(self, lines: np.ndarray, starts: np.ndarray, order: np.ndarray, number: int) -> Stretches:
        rows = {
            key: row.take(order, 0, Buffers().rows(len(order), row.shape[1]), "clip") for key, row in self.rows.items()
        }
        return Stretches(
            (*self.path, number), self.stage, lines, starts, np.arange(len(order)),
            self.names[order], self.points[order], self.labels[order], rows,
        )  # fmt: skip


class LineEngine:
    """Advances stretches of lines of one plan; holds nothing that a thread could disturb."""

    def __init__(self, plan: Plan, chunk_bytes: int) -> None:
        self._plan = plan
        self._bytes = min(chunk_bytes, _TOGETHER_BYTES)
        self._chunk_bytes = chunk_bytes
        self._scratch = threading.local()

    def start(self, views: Sequence[Slice], program: Program, ends: np.ndarray) -> Stretches:
        """Lines with those ends `[n, 2, 1]`, before the first fold."""
        n, layout = len(ends), self._plan.layout
        segment = layout.segments[0]
        rows = empty_rows(self._plan, segment, 2 * n)
        if self._plan.first is None:
            name, inputs = program.input, _inputs(views, ends).reshape(2 * n, -1)
            run_in_blocks(segment, {name: inputs}, {name: program.input_shape}, layout.rows_per_block[0], rows, 2 * n)
        else:  # ends are the first probes of a line
            first = self._plan.first.reshape(n, -1, self._plan.first.shape[1])[:, :2]
            rows[CUTS].reshape(n, 2, -1)[:] = first
        return Stretches(
            (), 0, np.arange(n), np.arange(0, 2 * n + 1, 2), np.arange(2 * n), np.tile(first_names(2), n),
            ends.reshape(-1, 1).copy(), np.full(2 * n, OUTSIDE, np.int32), rows,
        )  # fmt: skip

    def advance(self, chunk: Stretches, split_in: int = 1, most: int | None = None) -> list[Stretches]:
        """Cut stretches along their fold and carry them to the next, or split them if they are too much at once."""
        plan, stage = self._plan, chunk.stage
        before, segment = plan.segments[stage], plan.segments[stage + 1]
        fold = segment.fold
        assert fold is not None
        cuts, tol = chunk.rows[CUTS], plan.tolerances[stage]
        n, old, units = len(chunk.lines), len(cuts), cuts.shape[1]
        words = np.empty((len(chunk.order), (units + 63) // 64), np.uint64)
        counts, signs = np.empty(len(words), np.int64), np.empty((2, 2, words.shape[1]), np.uint64)
        crossing = kernels.opposite_signs(
            chunk.starts, chunk.order, chunk.lines, cuts, tol, signs[0], signs[1], words, counts
        )
        most_bytes = self._bytes if n > 1 else self._chunk_bytes
        parts = max(split_in, -(-(old + crossing) * plan.layout.row_bytes[stage] // most_bytes))
        if parts > 1 and chunk.count > 1:
            return chunk.split(1 + counts, parts)

        names, points, labels = (grown(array, old + crossing) for array in (chunk.names, chunk.points, chunk.labels))
        parents, weights = np.empty((old + crossing, 2), np.int32), np.empty((old + crossing, 2))
        found, stack = np.zeros(words.shape[1], np.uint64), self._stack(units)
        starts, order = np.empty(n + 1, np.int64), np.empty(len(words) + crossing, np.int64)
        room, total = _BENDS_EACH, -1
        while total < 0:
            bends = np.empty(crossing + 1, np.int64), np.empty(room * crossing, np.int64), np.empty(room * crossing)
            total = kernels.cut_stretches(
                chunk.starts, chunk.order, chunk.lines, words, cuts, tol, plan.layout.labels[stage], fold.gains,
                names, points, labels, parents, weights, found, starts, order, *bends, *stack,
            )  # fmt: skip
            room *= 4
        rows = empty_rows(plan, segment, total)
        live = {name: chunk.rows[CUTS if name in before.aliases else name] for name in before.kept}
        run_in_blocks(segment, live, before.shapes, plan.layout.rows_per_block[stage + 1], rows, old)
        fill_new(segment, before, old, parents, weights, found, bends, rows)
        order, names, points, labels = order[: starts[-1]], names[:total], points[:total], labels[:total]
        return [Stretches(chunk.path, stage + 1, chunk.lines, starts, order, names, points, labels, rows)]

    def _stack(self, units: int) -> tuple[np.ndarray, ...]:
        """This thread's room for the units and intervals that are being cut."""
        stack = getattr(self._scratch, "stack", None)
        if stack is None or len(stack[0]) < 2 * units:
            size = 2 * units
            stack = self._scratch.stack = (
                np.empty(size, np.int64), np.empty(size), np.empty(size), np.empty(size, np.int64),
                np.empty(size, np.int64),
            )  # fmt: skip
        return stack

    def is_finished(self, chunk: Stretches) -> bool:
        """Whether a chunk has met all folds."""
        return chunk.stage == len(self._plan.folds)


def line_meshes(
    program: Program, views: Sequence[Slice], rtol: float, rows: str, chunk_bytes: int, threads: int,
    report: Progress | None,
) -> list[Mesh] | None:  # fmt: skip
    """The tiles of a program on each of several lines; None if it is not one for this engine.

    That is one with a max, whose spurious walls are told apart by its rows, and one whose rows are better in factored
    form or so wide that the pieces of one interval do not fit into the memory.
    """
    if any(isinstance(step, Tournament) for step in program.steps) or always_factored_on_lines(program, rows):
        return None
    ends = np.concatenate([view.domain for view in views]).reshape(len(views), 2, 1)
    probes = np.concatenate([ends, np.matmul(probe_weights(program, 2, 1), ends)], 1)
    plan = make_plan(program, torch.from_numpy(_inputs(views, probes)), rtol, rows, 1, len(views))
    needed = [fold.site.units * size for fold, size in zip(plan.folds, plan.layout.row_bytes, strict=False)]
    if plan.factored or max(needed, default=0) > _LONG_TIMES * chunk_bytes:
        return None
    engine = LineEngine(plan, chunk_bytes)
    first = engine.start(views, program, ends)
    work = Work(engine, first, first.size, None, Clock(), report)
    work.run(threads)
    return _meshes(work.leaves, len(views), program.output)


def _inputs(views: Sequence[Slice], places: np.ndarray) -> np.ndarray:
    """Network inputs at places `[lines, n, 1]`, one line after the other: what `Slice.inputs` gives, bit for bit."""
    origins = np.stack([view.origin.reshape(1, -1) for view in views])
    found = origins + places * np.stack([view.basis.reshape(1, -1) for view in views])
    return found.reshape(-1, *views[0].input_shape)


def _meshes(found: list[Stretches], count: int, output: str) -> list[Mesh]:
    """The mesh of each line, from all of its stretches."""
    parts: list[list[tuple[np.ndarray, np.ndarray | None, np.ndarray]]] = [[] for _ in range(count)]
    for chunk in sorted(found, key=lambda chunk: chunk.path):
        points, labels = chunk.points[chunk.order], chunk.labels[chunk.order]
        values = chunk.rows[output][chunk.order] if output in chunk.rows else None
        starts = chunk.starts.tolist()
        for line, a, b in zip(chunk.lines.tolist(), starts[:-1], starts[1:], strict=True):
            a += bool(parts[line])  # the left end is the right one of the stretch before
            parts[line].append((points[a:b], None if values is None else values[a:b], labels[a:b]))
    return [_mesh(stretches) for stretches in parts]


def _mesh(stretches: list[tuple[np.ndarray, np.ndarray | None, np.ndarray]]) -> Mesh:
    points, values, labels = stretches[0]
    if len(stretches) > 1:  # few lines are split: copies of all would take a twentieth of the time
        points, labels = (np.concatenate([part[i] for part in stretches]) for i in (0, 2))
        values = None if values is None else np.concatenate([part[1] for part in stretches])
    sides = np.arange(len(points), dtype=np.int32).repeat(2)[1:-1]
    return Mesh(points, values, Tiles(np.arange(0, len(sides) + 1, 2), sides, labels.repeat(2)[1:-1]))
