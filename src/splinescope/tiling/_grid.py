"""Parts of a plane on a fixed grid, kept once tiled: a window that moves needs only those that it has not seen.

Their corners are named by where they are and their sides are marked as no real walls, as in `_parts`, each side by a
mark of its own: on the outline of what is shown they become the boundary.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import replace
from itertools import product

import numpy as np
import torch

from ..network.program import Program
from ._chunk import Leaf
from ._engine import Engine
from ._mesh import Mesh, assemble
from ._plan import make_plan, probe_points
from ._splits import names_of
from ._tiles import OUTSIDE, Tiles
from ._work import Work
from .slice import Slice

_CELLS = 4  # of the grid on the longer side of a window, at least; at most twice as many
_OFF = 0.0718281828  # of a cell: folds of symmetric networks often lie at simple fractions
_MOST_VERTICES = 4_000_000  # that are kept

Cell = tuple[int, int, int]
"""Level (the side is 2^level times that at level 0), column and row."""


class Grid:
    """The tiles of one program on cells of a grid over a plane.

    Args:
        program: The network.
        view: The plane; its domain sets the grid and the scale below which a pre-activation is zero.
        rtol, chunk_bytes: As in `tessellate`.
    """

    def __init__(self, program: Program, view: Slice, rtol: float, chunk_bytes: int) -> None:
        self.program = program
        self._view = view
        self._low = view.domain.min(0)
        self._side = float(np.ptp(view.domain, axis=0).max()) / _CELLS
        probes = torch.from_numpy(view.inputs(probe_points(program, view.domain)))
        self._engine = Engine(make_plan(program, probes, rtol), program.output, chunk_bytes)
        self._seam = -2 - sum(fold.site.units for fold in program.folds)
        self._known: OrderedDict[Cell, list[Leaf]] = OrderedDict()
        self.made = 0

    def over(
        self, window: np.ndarray, max_tiles: int | None = None, time_limit: float | None = None
    ) -> tuple[Mesh, np.ndarray, str | None]:
        """The tiles of all cells that meet the window (corners `[n, 2]`) as one mesh, and its outline.

        And which limit stopped the work, if one did: cells are missing then.
        """
        deadline = None if time_limit is None else time.monotonic() + time_limit
        level = int(np.floor(np.log2(np.ptp(window, axis=0).max() / (_CELLS * self._side)) + 1e-9))
        side = self._side * 2.0**level
        first = np.floor((window.min(0) - self._low) / side - _OFF).astype(int)
        last = np.ceil((window.max(0) - self._low) / side - _OFF).astype(int) - 1
        leaves: list[Leaf] = []
        halves, stopped = 0, None  # twice the tiles, at least: one across a seam comes as two with a wall there each
        for i, j in product(range(first[0], last[0] + 1), range(first[1], last[1] + 1)):
            found, stopped = self._leaves((level, i, j), max_tiles, deadline)
            outer = (j == first[1], i == last[0], j == last[1], i == first[0])  # as the sides of a cell go round
            placed = [self._placed(leaf, (i - first[0], j - first[1]), outer) for leaf in found]
            leaves += placed
            halves += sum(2 * leaf.count - int((leaf.tiles.labels <= self._seam).sum()) for leaf in placed)
            if stopped is None and max_tiles is not None and halves > 2 * max_tiles:
                stopped = f"max_tiles={max_tiles} reached: the window has at least {-(-halves // 2)} tiles"
            if stopped is not None:
                break
        self._forget()
        outline = self._corners(level, first, last + 1)
        return assemble(leaves, outline), outline, stopped

    def _corners(self, level: int, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """`[4, 2]` corners of a rectangle of the grid: the same numbers in all cells that meet there."""
        (x0, y0), (x1, y1) = (self._low + (lines + _OFF) * (self._side * 2.0**level) for lines in (first, last))
        return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])

    def _leaves(self, cell: Cell, max_tiles: int | None, deadline: float | None) -> tuple[list[Leaf], str | None]:
        """The leaves of a cell, kept unless a limit stopped the work on it: then also which one."""
        if cell not in self._known:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            leaves, stopped = self._tiled(cell, max_tiles, left)
            if stopped is not None:
                return leaves, stopped
            self._known[cell] = leaves
            self.made += 1
        self._known.move_to_end(cell)
        return self._known[cell], None

    def _tiled(self, cell: Cell, max_tiles: int | None, time_limit: float | None) -> tuple[list[Leaf], str | None]:
        level, *place = cell
        corners = self._corners(level, np.array(place), np.array(place) + 1)
        labels = (self._seam - np.arange(4)).astype(np.int32)
        tiles = Tiles(np.array([0, 4], np.int64), np.arange(4, dtype=np.int32), labels)
        first = self._engine.start_on(self._view, self.program.input, corners, tiles, names_of(corners))
        work = Work(self._engine, first, 1.0, max_tiles, time_limit, None)
        work.run(1)
        return sorted(work.leaves, key=lambda leaf: leaf.path), work.stopped

    def _placed(self, leaf: Leaf, place: tuple[int, int], outer: tuple[bool, ...]) -> Leaf:
        """A leaf in the order of the cells, with the sides that lie on the outline as boundary."""
        labels = leaf.tiles.labels
        for side, is_outer in enumerate(outer):
            if is_outer:
                labels = np.where(labels == self._seam - side, np.int32(OUTSIDE), labels)
        return replace(leaf, path=(*place, *leaf.path), tiles=replace(leaf.tiles, labels=labels))

    def _forget(self) -> None:
        """Drop what was not used for longest."""
        kept = sum(len(leaf.names) for leaves in self._known.values() for leaf in leaves)
        while kept > _MOST_VERTICES and len(self._known) > 1:
            _, leaves = self._known.popitem(last=False)
            kept -= sum(len(leaf.names) for leaf in leaves)
