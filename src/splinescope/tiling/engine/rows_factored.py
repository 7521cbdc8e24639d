"""Rows in factored form: within a chunk, every row of a layer is a combination of a few basis rows.

    row of vertex v = coefficients[v] @ basis,      coefficients = (1, t - center, a_1, a_2, ...)

where t are the vertex's slice coordinates and a_j the positive parts of the units that cut the chunk so far: all
else is linear on the chunk. So the torch ops run on the basis rows only (`crossing`), the first with constants and the
others without, and pre-activations are worked out for those units alone that may change sign on the chunk. This pays
where rows are wide; rows of the kind in `rows_plain` are better for narrow ones.

Sums of r terms are rounded: a pre-activation is known to r eps |coefficients| |basis|, and counts as zero below that
bound or the plan's tolerance, whichever is larger. The last bits depend on what a chunk holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from .. import kernels
from .basis import Basis
from .crossing import crossed_basis, first_basis
from .plan import Plan
from .segments import CUTS, Segment

_UNITS_TOGETHER = 1 << 15
_MOST_COLUMNS = 768  # beyond, combinations cost more than the basis rows that larger chunks save
_BORN_SMALLER = 16  # a row that starts at one unit of an image is so many times smaller than the image, or more
_FEWEST_NEW = 16  # units that a chunk may always be cut by


@dataclass(frozen=True)
class FactoredRows:
    """What the vertices of a chunk carry.

    Attributes:
        coefficients: `[V, r]`; column 0 is 1, columns 1 to d are slice coordinates about `center`, the others positive
            parts of units.
        basis: The rows that they combine.
        bends: `[r, r]`: column j is the positive part of `coefficients @ bends[j]` (zero for the first 1 + d).
        below: `[V, words]` bits, one per column: where that pre-activation is negative.
        center: `[d]`.
        positive: `[U]`: the sign on the whole chunk of the next fold's units, those in `units` excepted.
        units: `[m]` units of the next fold that take both signs on the chunk, ascending; their pre-activations are
            `cuts` `[V, m]`, what they are called `labels`, and `tolerances` tells zero.
        grazing: The same three for units that take one sign on the chunk and are zero on its outline somewhere; None if
            no wall can be spurious (see `spurious_walls`).
    """

    coefficients: np.ndarray
    basis: Basis
    bends: np.ndarray
    below: np.ndarray
    center: np.ndarray
    positive: np.ndarray
    units: np.ndarray
    cuts: np.ndarray
    labels: np.ndarray
    tolerances: np.ndarray
    grazing: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.coefficients)

    def some(self, chosen: np.ndarray) -> FactoredRows:
        """The rows of some vertices; the basis stays as it is until `reduced`."""
        grazing = None if self.grazing is None else (self.grazing[0], self.grazing[1][chosen], self.grazing[2])
        return replace(
            self, coefficients=self.coefficients[chosen], below=self.below[chosen], cuts=self.cuts[chosen],
            grazing=grazing,
        )  # fmt: skip

    def expanded(self, segment: Segment) -> dict[str, np.ndarray]:
        """The rows themselves, at the end of a segment: key to `[V, size]`."""
        fold, out = segment.next_fold, {}
        for key in segment.keys:
            if key != CUTS or fold is None or fold.at is None:
                out[key] = product(self.coefficients, self.basis.rows(key))
            else:  # `take`, as an index would leave columns side by side, which kernels and matrix products read slowly
                values = product(self.coefficients, self.basis.rows(fold.inputs[0]))
                out[key] = values.take(fold.elements, axis=1) - fold.at
        return out

    def room(self, plan: Plan, stage: int, most_bytes: int) -> tuple[int, bool]:
        """How many units may cut the chunk before its basis is more than fits; whether it is by itself."""
        row = plan.layout.basis_bytes[stage + 1]
        fold = plan.folds[stage]
        born = row // _BORN_SMALLER if len(fold.site.shape) == 3 else row
        used = self.basis.bytes + self.basis.bytes_next(row)
        left = min((most_bytes - used) // max(born, 1), _MOST_COLUMNS - len(self.basis))
        return max(_FEWEST_NEW, left), used > most_bytes

    def with_new(self, vertices: kernels.Vertices, total: int) -> FactoredRows:
        """Rows of all vertices, those that the fold has made included: the combinations of their parents'."""
        old, d = len(self), len(self.center)
        coefficients = np.empty((total, self.coefficients.shape[1]))
        coefficients[:old] = self.coefficients
        kernels.carry(old, total, vertices.parents, vertices.weights, coefficients)
        coefficients[old:, 0] = 1.0
        coefficients[old:, 1 : 1 + d] = vertices.points[old:total] - self.center
        cuts = np.empty((total, len(self.units)))
        cuts[:old] = self.cuts
        kernels.carry(old, total, vertices.parents, vertices.weights, cuts)
        signs = as_booleans(vertices.pos[old:total] | vertices.neg[old:total], len(self.units))
        cuts[old:][~signs] = 0.0
        below = np.empty((total, self.below.shape[1]), np.uint64)
        below[:old] = self.below
        kernels.carry_bits(old, total, vertices.parents, below)
        return replace(self, coefficients=coefficients, below=below, cuts=cuts)

    def reduced(self) -> FactoredRows:
        """The same rows by fewer basis rows: for a part of a chunk, on which fewer units bend.

        A column that is zero on the part goes. One whose unit is positive throughout is a linear function of earlier
        columns: its basis row is added to theirs. Coordinates are taken about the part's own center.
        """
        d, r = len(self.center), self.coefficients.shape[1]
        bends = np.arange(r) > d
        # columns are positive parts: at most zero means zero everywhere
        low, high = _ranges(self.coefficients)
        zero = bends & (high == 0.0)
        linear = bends & ~zero & ~as_booleans(np.bitwise_or.reduce(self.below, 0)[None], r)[0]
        low, high = low[1 : 1 + d], high[1 : 1 + d]
        shift = 0.5 * (high + low)
        # away from the middle the box around the coefficients is larger, and more units seem to bend
        off_center = (np.abs(shift) > 0.25 * (high - low)).any()
        if not (zero.any() or linear.any() or off_center):
            return self
        kept = np.flatnonzero(~(zero | linear))
        through = np.zeros((len(kept), r))  # every column, as a combination of those that are kept
        through[np.arange(len(kept)), kept] = 1.0
        through[0, 1 : 1 + d] = shift
        for j in np.flatnonzero(linear):
            through[:, j] = through @ self.bends[j]
        coefficients = self.coefficients[:, kept]
        coefficients[:, 1 : 1 + d] -= shift
        return replace(
            self, coefficients=coefficients, basis=self.basis.merged(through, kept),
            bends=product(self.bends[kept], through.T), below=as_words(as_booleans(self.below, r)[:, kept]),
            center=self.center + shift,
        )  # fmt: skip


def first_factored(plan: Plan, center: np.ndarray, points: np.ndarray, rows: np.ndarray, name: str) -> FactoredRows:
    """Rows at the first fold of vertices at `points` `[V, d]`.

    `rows` `[1 + d, *input_shape]` are the network's input at `center` and the directions of the slice.
    """
    n = len(rows)
    coefficients = np.concatenate([np.ones((len(points), 1)), points - center], 1)
    basis = first_basis(plan.segments[0], rows, name, plan.buffers)
    return _standing(plan, 0, coefficients, basis, np.zeros((n, n)), np.zeros((len(points), 1), np.uint64), center)


def crossed_factored(plan: Plan, stage: int, rows: FactoredRows, pos: np.ndarray, neg: np.ndarray) -> FactoredRows:
    """Rows at the end of the segment behind fold `stage`, from those of the same vertices before it."""
    units = len(rows.units)
    bending = bending_units(pos, neg, units)
    positive = rows.positive.copy()
    positive[rows.units] = as_booleans(np.bitwise_or.reduce(pos, 0)[None], units)[0] & ~bending
    local = np.flatnonzero(bending)
    mixed = rows.units[local]
    r, k = rows.coefficients.shape[1], len(mixed)
    coefficients = np.empty((len(rows), r + k))
    coefficients[:, :r] = rows.coefficients
    np.maximum(rows.cuts if k == units else rows.cuts[:, local], 0.0, out=coefficients[:, r:])
    below = as_words(np.concatenate([as_booleans(rows.below, r), as_booleans(neg, units)[:, local]], 1))
    bends = np.zeros((r + k, r + k))
    bends[:r, :r] = rows.bends
    bends[r:, :r] = rows.basis.cuts(plan.folds[stage], mixed).T
    basis = crossed_basis(plan.segments[stage], plan.segments[stage + 1], rows.basis, positive, mixed, plan.buffers)
    return _standing(plan, stage + 1, coefficients, basis, bends, below, rows.center)


def _standing(
    plan: Plan, stage: int, coefficients: np.ndarray, basis: Basis,
    bends: np.ndarray, below: np.ndarray, center: np.ndarray,
) -> FactoredRows:  # fmt: skip
    """Rows before fold `stage`: finds the units that take both signs on the chunk."""
    empty = (np.zeros(0, bool), np.zeros(0, np.int64), np.empty((len(coefficients), 0)), np.zeros(0, np.int32))
    fold = plan.segments[stage].next_fold
    if fold is None:
        return FactoredRows(coefficients, basis, bends, below, center, *empty, np.zeros(0))
    mid, rad, size = box(coefficients)
    centers, reach, error = basis.cut_ranges(fold, mid, rad, size)
    found, positive, tolerances = touching(centers, reach, error, plan.tolerances[stage])
    chosen, cuts = [np.zeros(0, np.int64)], [np.empty((len(coefficients), 0))]
    spurious = not plan.layout.is_stage[stage] and any(segment.tournaments for segment in plan.segments[: stage + 1])
    grazing: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for start in range(0, len(found), _UNITS_TOGETHER):
        block = found[start : start + _UNITS_TOGETHER]
        z = product(coefficients, basis.cuts(fold, block))
        tol = tolerances[start : start + _UNITS_TOGETHER]
        positive[block] = z.max(0) > tol
        low = z.min(0)
        both = positive[block] & (low < -tol)
        chosen.append(np.flatnonzero(both) + start)
        cuts.append(z[:, both])
        if spurious:
            graze = np.where(positive[block], np.abs(low) <= tol, (low < -tol) & (z.max(0) >= -tol))
            grazing.append((plan.layout.labels[stage][block[graze]], z[:, graze], tol[graze]))
    local = np.concatenate(chosen)
    units = found[local]
    joined = None
    if grazing:
        labels, columns, limits = zip(*grazing, strict=True)
        joined = np.concatenate(labels), np.ascontiguousarray(np.concatenate(columns, 1)), np.concatenate(limits)
    return FactoredRows(
        coefficients, basis, bends, below, center, positive, units, np.ascontiguousarray(np.concatenate(cuts, 1)),
        plan.layout.labels[stage][units], tolerances[local], joined,
    )  # fmt: skip


def touching_units(
    coefficients: np.ndarray, basis: np.ndarray, tolerances: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Units that may be zero somewhere, by the box around the coefficients: |mid B| <= rad |B| + tolerance.

    Returns their numbers, the sign `[U]` of all others, and what counts as zero for those found: the given tolerance
    or the rounding error of the sum, whichever is larger.
    """
    mid, rad, size = box(coefficients)
    center, reach, error = np.zeros((3, basis.shape[1]))
    kernels.add_rows(basis, mid, rad, size, center, reach, error)
    return touching(center, reach, error, tolerances)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`a @ b` by torch, which keeps to the threads it is given here; numpy's own would take all cores."""
    return torch.mm(torch.from_numpy(a), torch.from_numpy(b)).numpy()


def _ranges(rows: np.ndarray) -> np.ndarray:
    """`[2, r]` least and largest number of each column."""
    found = np.repeat(rows[:1], 2, 0)
    kernels.column_ranges(rows[1:], *found)
    return found


def box(coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Middle and half extent of each coefficient, and what its terms may be rounded by in a sum of all."""
    low, high = _ranges(coefficients)
    size = np.maximum(np.abs(low), np.abs(high)) * (len(low) * np.finfo(float).eps)
    return 0.5 * (low + high), 0.5 * (high - low), size


def touching(
    center: np.ndarray, reach: np.ndarray, error: np.ndarray, tolerances: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`touching_units` from mid B, rad |B| and the rounding error."""
    limits = np.maximum(tolerances, error)
    found = np.flatnonzero(np.abs(center) <= reach + limits)
    return found, center > 0, limits[found]


def as_booleans(words: np.ndarray, count: int) -> np.ndarray:
    """`[V, count]` from bit-planes `[V, words]`."""
    if count == 0:
        return np.zeros((len(words), 0), bool)
    return np.unpackbits(words.view(np.uint8), axis=1, count=count, bitorder="little").view(bool)


def as_words(bits: np.ndarray) -> np.ndarray:
    """Bit-planes `[V, words]` from `[V, count]` booleans."""
    missing = -bits.shape[1] % 64
    packed = np.packbits(np.pad(bits, ((0, 0), (0, missing))), axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view(np.uint64)


def bending_units(pos: np.ndarray, neg: np.ndarray, count: int) -> np.ndarray:
    """`[count]`: the units that take both signs on the vertices with these bit-planes."""
    both = np.bitwise_or.reduce(pos, 0) & np.bitwise_or.reduce(neg, 0)
    return as_booleans(both[None], count)[0]
