"""The hyperplanes nearest to an input, for networks whose halfspaces do not fit into memory together.

The pattern of the tile is read once. Then the input directions go through the network in blocks, twice: the first time
only the steepness of every unit adds up, which gives all distances; the second time the rows of the nearest are kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..network.program import Program
from .affine_rows import Choose, Coordinates, Cuts, LocalRows, RowReader, at_origin, owners

_BLOCK = 1 << 23  # numbers of the widest site in a block of directions: 64 MB


def nearest_rows(
    space: Coordinates, count: int, direction: np.ndarray, tell: Callable[[float], None]
) -> tuple[LocalRows, tuple[tuple[int, int], ...], float]:
    """The rows of the nearest units on the tile of the origin, the folds through it, and how far they reach.

    Args:
        space: All input directions.
        count: How many rows to keep.
        direction: `[D]` of length 1: units that are zero at the origin take its side.
        tell: Told the share done.

    Returns:
        Rows; (site, unit) on folds; the distance of the nearest hyperplane that was left out (inf if none was).
    """
    program, origin = space.program, space.origin
    on: list[tuple[int, int]] = []
    patterns = Coordinates(program, origin, direction[None]).rows(at_origin(np.ones(1), on)).patterns

    def known(cuts: Cuts) -> np.ndarray:
        return patterns[cuts.site]

    sizes = _Sizes(program, known, space.zeros)
    _blocks(program, origin, sizes, lambda share: tell(share / 2))
    values, steep, zero, owner = sizes.all()
    moves = steep > sizes.flat[owner[:, 0]]
    flat = ~moves & (np.abs(values) <= zero)
    distances = np.where(moves, values / np.where(moves, steep, 1.0), np.inf)
    order = np.argsort(distances, kind="stable")[: min(count + 1, int(moves.sum()))]
    kept, reach = np.sort(order[:count]), float(distances[order[count]]) if len(order) > count else np.inf
    rows = _Chosen(program, known, space.zeros, kept, origin.size)
    slopes, outputs = _blocks(program, origin, rows, lambda share: tell((1 + share) / 2))
    found = LocalRows(
        tuple(part[0] for part in patterns), distances[kept], rows.normals / steep[kept, None], owner[kept],
        owner[flat], outputs, slopes,
    )  # fmt: skip
    return found, tuple(on), reach


def _blocks(
    program: Program, origin: np.ndarray, reader: _Blocked, tell: Callable[[float], None]
) -> tuple[np.ndarray, np.ndarray]:
    """Send all directions through the network; slopes `[C, D]` and values `[C]` of its outputs."""
    size = origin.size
    widest = max((fold.site.units for fold in program.folds), default=1)
    together = max(1, min(size, _BLOCK // max(widest, size)))
    slopes = []
    for start in range(0, size, together):
        tell(start / size)
        reader.begin(start)
        out = reader.outputs(origin, np.eye(min(together, size - start), size, start))[0]
        slopes.append(out[1:].T)
    return np.hstack(slopes), out[0].copy()


class _Blocked(RowReader):
    """Reads the rows of a block of directions, on one tile."""

    def begin(self, start: int) -> None:
        """A new block, from this input on."""
        self._start, self._place = start, 0


class _Sizes(_Blocked):
    """Adds up the squares of all rows."""

    def __init__(self, program: Program, choose: Choose, zeros: dict[str, np.ndarray]) -> None:
        super().__init__(program, choose, zeros)
        self._sums: list[np.ndarray] = []
        self._values = [(np.zeros(0), np.zeros(0))]
        self.flat = np.zeros(len(program.sites))
        """Per site, how large a slope is that is only rounding."""

    def _keep(self, cuts: Cuts, rows: np.ndarray, valid: np.ndarray, rival: int) -> None:
        self.flat[cuts.site] = max(self.flat[cuts.site], self.unscaled(cuts.flat)[0])
        rows, valid = rows[0][:, valid[0]], valid[0]
        squares = (self.unscaled(rows[1:]) ** 2).sum(0)
        if self._start:
            self._sums[self._place] += squares
        else:
            self._sums.append(squares)
            self._values.append((rows[0].copy(), cuts.zero[valid]))
            self._owners.append(owners(cuts.site, len(valid), rival)[valid])
        self._place += 1

    def all(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Values at the origin, steepness, how large a zero may be, and site, unit and rival of every row."""
        values, zeros = (np.concatenate(part) for part in zip(*self._values, strict=True))
        return values, np.sqrt(np.concatenate([*self._sums, np.zeros(0)])), zeros, np.concatenate(self._owners)


class _Chosen(_Blocked):
    """Keeps some rows, by their numbers in the order of reading."""

    def __init__(
        self, program: Program, choose: Choose, zeros: dict[str, np.ndarray], chosen: np.ndarray, size: int
    ) -> None:
        super().__init__(program, choose, zeros)
        self._chosen = chosen
        self.normals = np.zeros((len(chosen), size))

    def _keep(self, cuts: Cuts, rows: np.ndarray, valid: np.ndarray, rival: int) -> None:
        rows = rows[0][:, valid[0]]
        first, last = np.searchsorted(self._chosen, [self._place, self._place + rows.shape[1]])
        own = self.unscaled(rows[1:, self._chosen[first:last] - self._place])
        self.normals[first:last, self._start : self._start + len(own)] = own.T
        self._place += rows.shape[1]
