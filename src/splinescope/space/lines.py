"""Exact crossings of many line segments with the folds of a network, tiled all at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from ..network.program import Program, Tournament
from ..support.threads import one_torch_thread
from ..tiling.cells.tiles import OUTSIDE, Tiles
from ..tiling.engine.advance import Engine
from ..tiling.engine.assemble import assemble
from ..tiling.engine.limits import Clock
from ..tiling.engine.lines import LineEngine
from ..tiling.engine.options import CHUNK_BYTES
from ..tiling.engine.plan import make_plan
from ..tiling.engine.schedule import Work

_BATCH_BYTES = 64 << 20  # ends of lines that are tiled together
_UNIT = np.array([[0.0], [1.0]])
PROBE_LINES = 32


class LineCounter:
    """Counts the crossings of segments with the folds of one network.

    Args:
        program: The network in float64.
        starts, ends: `[n, *input_shape]` lines of the region of interest: they set the scale below which a
            pre-activation is zero, as in `tessellate`.
        rtol: That scale's factor.
    """

    def __init__(self, program: Program, starts: np.ndarray, ends: np.ndarray, rtol: float = 1e-12) -> None:
        self._program = program
        probes = np.concatenate([starts[:PROBE_LINES], ends[:PROBE_LINES]])
        probes = np.concatenate([probes, (starts[:PROBE_LINES] + ends[:PROBE_LINES]) / 2])
        with one_torch_thread(), torch.no_grad():
            self._plan = make_plan(program, torch.from_numpy(probes), rtol, "plain")
        plan = self._plan
        widest = max(
            (f.site.units * size for f, size in zip(plan.folds, plan.layout.row_bytes, strict=False)), default=0
        )
        # A max has spurious walls, and one interval of a very wide network may not fit into memory.
        self._general = widest > 4 * CHUNK_BYTES or any(isinstance(step, Tournament) for step in program.steps)
        self._site_starts = np.cumsum([0, *(site.cuts for site in program.sites)])

    def count(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """`[n, sites]` crossings inside each segment; where folds coincide, only the first in execution order."""
        size = max(16, _BATCH_BYTES // (16 * max(int(np.prod(starts.shape[1:])), 1)))
        parts = [self._batch(starts[i : i + size], ends[i : i + size]) for i in range(0, len(starts), size)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self._site_starts) - 1), np.int64)

    def _batch(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        inputs = np.stack([starts, ends], 1).reshape(2 * len(starts), -1)
        with one_torch_thread(), torch.no_grad():
            labels, line = self._intervals(inputs) if self._general else self._crossings(inputs)
        inner = labels != OUTSIDE
        site = np.searchsorted(self._site_starts, labels[inner], side="right") - 1
        counts = np.zeros((len(starts), len(self._site_starts) - 1), np.int64)
        np.add.at(counts, (line[inner], site), 1)
        return counts

    def _crossings(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What made each vertex but the first of every stretch, and the line it lies on."""
        n, program = len(inputs) // 2, self._program
        tolerances = [np.repeat(each[None], n, 0) for each in self._plan.tolerances]
        engine = LineEngine(replace(self._plan, tolerances=tolerances), CHUNK_BYTES)
        work = Work(engine, engine.start(inputs, program.input, program.input_shape, np.tile(_UNIT, (n, 1, 1))),
                    float(n), None, Clock(), None)  # fmt: skip
        work.run(1)
        labels, lines = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for chunk in work.leaves:
            later = np.ones(len(chunk.order), bool)
            later[chunk.starts[:-1]] = False  # the end of the line, or the last vertex of the stretch before
            labels.append(chunk.labels[chunk.order[later]])
            lines.append(np.repeat(chunk.lines, np.diff(chunk.starts))[later])
        return np.concatenate(labels), np.concatenate(lines)

    def _intervals(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What made the left end of each interval, and its line: by the engine of all dimensions."""
        n, program = len(inputs) // 2, self._program
        coordinates = np.tile(_UNIT, (n, 1))
        segments = Tiles(
            np.arange(0, 2 * n + 1, 2), np.arange(2 * n, dtype=np.int32), np.full(2 * n, OUTSIDE, np.int32)
        )
        engine = Engine(self._plan, program.output, CHUNK_BYTES)
        first = engine.start(inputs, program.input, program.input_shape, coordinates, segments)
        work = Work(engine, first, float(n), None, Clock(), None)
        work.run(1)
        labels = assemble(work.leaves, coordinates[:2]).tiles.labels[::2]
        return labels, np.cumsum(labels == OUTSIDE) - 1
