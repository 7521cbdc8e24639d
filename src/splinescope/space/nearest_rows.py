"""The hyperplanes nearest to an input, for networks whose halfspaces do not fit into memory together.

The pattern of the tile is read once. Then the input directions go through the network in blocks, twice: the first time
only the steepness of every unit adds up, which gives all distances; the second time the rows of the nearest are kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ..network.program import Program, walked
from ..support.threads import one_torch_thread
from .affine_rows import Choose, Coordinates, Cuts, LocalRows, RowReader, at_origin

_BLOCK = 1 << 23  # numbers of the widest site in a block of directions: 64 MB

Units = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Site, unit and rival of each row."""


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
    pattern = Coordinates(program, origin, direction[None]).rows(at_origin(np.ones(1), on)).pattern

    def known(cuts: Cuts) -> np.ndarray:
        return pattern[cuts.site]

    sizes = _Sizes(program, known, space.zeros)
    _blocks(program, origin, sizes, lambda share: tell(share / 2))
    (values, steep, zero), units = sizes.all(), sizes.units()
    moves = steep > sizes.flat[units[0]]
    flat = ~moves & (np.abs(values) <= zero)
    distances = np.where(moves, values / np.where(moves, steep, 1.0), np.inf)
    order = np.argsort(distances, kind="stable")[: min(count + 1, int(moves.sum()))]
    kept, reach = np.sort(order[:count]), float(distances[order[count]]) if len(order) > count else np.inf
    rows = _Chosen(program, known, space.zeros, kept, origin.size)
    slopes, outputs = _blocks(program, origin, rows, lambda share: tell((1 + share) / 2))
    sites, numbers, rivals = units
    found = LocalRows(
        pattern, distances[kept], rows.normals / steep[kept, None], sites[kept], numbers[kept], rivals[kept],
        np.stack([part[flat] for part in units], 1), outputs, slopes,
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
        part = np.eye(min(together, size - start), size, start)
        with one_torch_thread(), torch.no_grad():
            values = {program.input: torch.from_numpy(reader.block(origin, part))}
            reader.begin(start)
            out = walked(program.steps, values, {program.output}, reader.step)[program.output]
        flat = out.reshape(len(out), -1).numpy()
        slopes.append(reader.unscaled(flat[1:]).T)
    return np.hstack(slopes), flat[0].copy()


class _Blocked(RowReader):
    """Reads the rows of a block of directions."""

    def begin(self, start: int) -> None:
        """A new block, from this input on."""
        self._start, self._place = start, 0


class _Sizes(_Blocked):
    """Adds up the squares of all rows."""

    def __init__(self, program: Program, choose: Choose, zeros: dict[str, np.ndarray]) -> None:
        super().__init__(program, choose, zeros)
        self._sums: list[np.ndarray] = []
        self._values: list[tuple[np.ndarray, np.ndarray]] = []
        self._units: list[Units] = []
        self.flat = np.zeros(len(program.sites))
        """Per site, how large a slope is that is only rounding."""

    def keep(self, cuts: Cuts, rows: np.ndarray, units: np.ndarray, rival: int) -> None:
        self.flat[cuts.site] = max(self.flat[cuts.site], self.unscaled(np.array(cuts.flat)))
        squares = (self.unscaled(rows[1:]) ** 2).sum(0)
        if self._start:
            self._sums[self._place] += squares
        else:
            self._sums.append(squares)
            self._values.append((rows[0].copy(), cuts.zero[units]))
            self._units.append((np.full(len(units), cuts.site), units, np.full(len(units), rival)))
        self._place += 1

    def all(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values at the origin, steepness, and how large a zero may be, of every row."""
        values, zeros = (np.concatenate([*part, np.zeros(0)]) for part in zip(*self._values, strict=True))
        return values, np.sqrt(np.concatenate([*self._sums, np.zeros(0)])), zeros

    def units(self) -> Units:
        site, unit, rival = (np.concatenate([*part, np.zeros(0, np.int64)]) for part in zip(*self._units, strict=True))
        return site, unit, rival


class _Chosen(_Blocked):
    """Keeps some rows, by their numbers in the order of reading."""

    def __init__(
        self, program: Program, choose: Choose, zeros: dict[str, np.ndarray], chosen: np.ndarray, size: int
    ) -> None:
        super().__init__(program, choose, zeros)
        self._chosen = chosen
        self.normals = np.zeros((len(chosen), size))

    def keep(self, cuts: Cuts, rows: np.ndarray, units: np.ndarray, rival: int) -> None:
        first, last = np.searchsorted(self._chosen, [self._place, self._place + len(units)])
        own = self.unscaled(rows[1:, self._chosen[first:last] - self._place])
        self.normals[first:last, self._start : self._start + len(own)] = own.T
        self._place += len(units)
