"""The search through a set for the place where a property is nearest to being violated.

Tiles are cut fold by fold as in a tiling, but a tile is dropped as soon as bounds decide it, no mesh is kept, and
finished tiles stream by: their corners are all that is looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from ..support.progress import Progress
from ..support.threads import one_torch_thread
from ..tiling.cells.tiles import Tiles
from ..tiling.engine.advance import Engine
from ..tiling.engine.chunk import Chunk, Leaf
from ..tiling.engine.output_bounds import value_range
from ..tiling.engine.plan import Plan, make_plan, probe_points, segments_of
from ..tiling.engine.rows_plain import PlainRows
from ..tiling.engine.time_limit import Clock
from ..tiling.slice import Slice
from .forms import FORMS, Formed
from .relaxation import Relaxation, relaxation_of
from .rounding import error_over

_CHUNK_BYTES = 4 << 20  # small chunks: the most promising tiles are finished early
RTOL = 1e-13  # half of the bound of rounding or more is what this leaves open; rows are good to some 1e-14
_TRIED = 64  # tiles of a chunk in whose middles the network is run


@dataclass
class Search:
    """One search on one slice."""

    formed: Formed
    view: Slice
    clock: Clock
    max_tiles: int | None = None
    prune: bool = True
    exact: bool = True  # whether the least value itself is wanted, not only its sign
    each: bool = False  # whether that of every clause is, not only the least of all
    take: Callable[[Leaf], None] | None = None
    stop_below: bool = True  # whether a corner that is surely unsafe ends it
    bar: float = np.inf  # a value that counts as found already, from another search
    plan: Plan = field(init=False)
    error: np.ndarray = field(init=False)  # [clauses] a proven bound of rounding of all values and bounds
    lowest: np.ndarray = field(init=False)  # [clauses] the least value found so far at a corner
    where: np.ndarray = field(init=False)  # [clauses, d] where that is, in the slice's coordinates
    tiles: int = 0  # that were looked at
    cells: int = 0  # that were finished
    stopped: str | None = None  # which limit ended it, if one did
    violated: bool = False
    # middles of tiles that were nearest to a violation, of late
    promising: deque[np.ndarray] = field(default_factory=lambda: deque(maxlen=512))
    _engine: Engine | None = None
    _relaxed: Relaxation | None = None
    _stack: list[tuple[Chunk | Leaf, float]] = field(default_factory=list)
    _done: float = 0.0

    def __post_init__(self) -> None:
        program, view = self.formed.program, self.view
        with torch.no_grad():
            probes = torch.from_numpy(view.inputs(probe_points(program, view.domain)))
            segments_of(program, keep_output=True)  # the forms, which bounds and verdicts are read from
            self.plan = make_plan(program, probes, RTOL, "plain", view.dimension)
        corners = torch.from_numpy(view.inputs(view.domain))
        self.error = error_over(program, corners, self.plan.tolerances)
        self.lowest = np.full(program.output_shape[0], np.inf)
        self.where = np.zeros((program.output_shape[0], view.dimension))

    def see(self, points: np.ndarray, values: np.ndarray) -> None:
        """Take note of the clauses' values `[n, clauses]` at points of the slice."""
        best = values.argmin(0)
        low = values[best, np.arange(values.shape[1])]
        better = low < self.lowest
        self.lowest[better] = low[better]
        self.where[better] = points[best[better]]

    def run(self, report: Progress | None = None, until: int | None = None) -> bool:
        """To the end, a limit or a violation; False where it pauses, after about `until` tiles, to be called again."""
        with one_torch_thread(), torch.no_grad():
            if self._engine is None:
                self._relaxed = relaxation_of(self.plan, self.formed) if self.prune else None
                self._engine = Engine(
                    self.plan, self.formed.program.output, _CHUNK_BYTES, self._keep, midway=self.prune
                )
                first = self._engine.start_on(self.view, self.formed.program.input)
                self._stack = [] if first is None else [(first, 1.0)]
            engine, stack = self._engine, self._stack
            while stack and not self.violated:
                if until is not None and self.tiles >= until:
                    return False
                work, share = stack.pop()
                if isinstance(work, Leaf):
                    self._take(work)
                    results: list[Chunk | Leaf] = []
                else:
                    results = engine.advance(work)
                if not results:
                    self._done += share
                    if report is not None:
                        report(min(self._done, 1.0), f"{self.tiles:,} tiles")
                total = sum(result.count for result in results)
                stack += [(result, share * result.count / total) for result in reversed(results)]
                if self.clock.is_over:
                    self.stopped = self.clock.reached
                elif self.max_tiles is not None and self.tiles > self.max_tiles:
                    self.stopped = f"max_tiles={self.max_tiles} reached"
                if self.stopped is not None and stack:
                    return True
            self.stopped = None
            return True

    def _take(self, leaf: Leaf) -> None:
        assert leaf.values is not None
        self.cells += leaf.count
        used = leaf.tiles.used(len(leaf.points))
        self.see(leaf.points[used], leaf.values[used])
        if self.take is not None:
            self.take(leaf)
        self.violated = self.stop_below and bool((self.lowest < -self.error).any())

    def _keep(self, stage: int, rows: PlainRows, tiles: Tiles, points: np.ndarray) -> np.ndarray | None:
        """Tiles on which some clause may still be met (or, for the exact margin, be nearer to it), nearest first."""
        self.tiles += len(tiles)
        if not self.prune:
            return None
        lows = self._clause_lows(stage, rows, tiles, points)
        if lows is None:
            return None
        found = self.lowest if self.each else self.lowest.min()
        limit = self.error + (np.minimum(found, self.bar) if self.exact else 0.0)
        gap = (lows - limit).min(1)
        wanted = np.flatnonzero(gap <= 0)
        order = wanted[np.argsort(gap[wanted], kind="stable")]
        if len(order) and stage:
            best = tiles.corners[tiles.offsets[order[0]] : tiles.offsets[order[0] + 1]]
            self.promising.append(points[best].mean(0))
            if self.stop_below and stage < self.formed.folds:
                self._try(tiles.taken(order[:_TRIED]), points)
        return order

    def _try(self, tiles: Tiles, points: np.ndarray) -> None:
        """Look at the network itself in the middle of tiles that are near to a violation: it may be one."""
        starts, counts = tiles.offsets[:-1], np.diff(tiles.offsets)
        middles = np.add.reduceat(points[tiles.corners], starts, axis=0) / counts[:, None]
        self.see(middles, self.formed.program.forward(torch.from_numpy(self.view.inputs(middles))).numpy())
        self.violated = bool((self.lowest < -self.error).any())

    def _clause_lows(self, stage: int, rows: PlainRows, tiles: Tiles, points: np.ndarray) -> np.ndarray | None:
        """`[K, clauses]` lower bounds of the clauses' values on tiles before fold number `stage`."""
        if stage >= self.formed.folds:  # the forms, or what is left of them, are known at the corners
            name, owner = self.formed.rounds[stage - self.formed.folds]
            found = rows.value(self.plan.segments[stage], name)[tiles.corners]
            lows = np.minimum.reduceat(found, tiles.offsets[:-1], axis=0)
        else:
            name, owner = self.formed.rounds[0]
            if self._relaxed is not None:
                lows = self._relaxed.lows(self.plan, stage, rows, tiles, points)
            else:
                bounds = value_range(self.plan, stage, rows, tiles, FORMS, self.formed.folds)
                if bounds is None:
                    return None
                lows = bounds[0]
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        return np.asarray(np.maximum.reduceat(lows, starts, axis=1))
