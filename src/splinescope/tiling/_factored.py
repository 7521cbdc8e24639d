"""Rows in factored form: within a chunk, every row of a layer is a combination of a few basis rows.

    row of vertex v = coefficients[v] @ basis,      coefficients = (1, t - centre, a_1, a_2, ...)

where t are the vertex's slice coordinates and a_j the positive parts of the units that cut the chunk so far: all
else is linear on the chunk. So the torch ops run on the basis rows only, the first with constants and the others
without, and pre-activations are worked out for those units alone that may change sign on the chunk. This pays where
rows are wide; rows of the kind in `_rows` are better for narrow ones.

Sums of r terms are rounded: a pre-activation is known to r eps |coefficients| |basis|, and counts as zero below that
bound or the plan's tolerance, whichever is larger. The last bits depend on what a chunk holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..network._program import Fold
from . import kernels
from ._plan import Plan
from ._segments import CUTS, Segment

_SCALE = 2.0**40  # linear parts are (f(scale x) - f(0)) / scale: the constants of f cost no digits
_UNITS_TOGETHER = 1 << 15
_ROWS_TOGETHER = 32
_MOST_COLUMNS = 768  # beyond, combinations cost more than the basis rows that larger chunks save
_FEWEST_NEW = 16  # units that a chunk may always be cut by


@dataclass(frozen=True)
class FactoredRows:
    """What the vertices of a chunk carry.

    Attributes:
        coefficients: `[V, r]`; column 0 is 1, columns 1 to d are slice coordinates about `centre`, the others positive
            parts of units.
        basis: Key (names, or CUTS) to `[r, size]`.
        bends: `[r, r]`: column j is the positive part of `coefficients @ bends[j]` (zero for the first 1 + d).
        below: `[V, words]` bits, one per column: where that pre-activation is negative.
        centre: `[d]`.
        positive: `[U]`: the sign on the whole chunk of the next fold's units, those in `units` excepted.
        units: `[m]` units of the next fold that take both signs on the chunk, ascending; their pre-activations are
            `cuts` `[V, m]`, what they are called `labels`, and `tolerances` tells zero.
    """

    coefficients: np.ndarray
    basis: Mapping[str, np.ndarray]
    bends: np.ndarray
    below: np.ndarray
    centre: np.ndarray
    positive: np.ndarray
    units: np.ndarray
    cuts: np.ndarray
    labels: np.ndarray
    tolerances: np.ndarray

    def __len__(self) -> int:
        return len(self.coefficients)

    def of(self, chosen: np.ndarray) -> FactoredRows:
        """The rows of some vertices; the basis stays as it is until `settled`."""
        return replace(
            self, coefficients=self.coefficients[chosen], below=self.below[chosen], cuts=self.cuts[chosen]
        )  # fmt: skip

    def basis_of(self, segment: Segment, name: str) -> np.ndarray:
        """`[r, size]` of a value that the segment keeps."""
        return self.basis[CUTS if name in segment.aliases else name]

    def columns(self, segment: Segment, name: str, chosen: np.ndarray) -> np.ndarray:
        """`[V, n]`: some elements of a value that the segment keeps."""
        return self.coefficients @ self.basis_of(segment, name)[:, chosen]

    def expanded(self) -> dict[str, np.ndarray]:
        """The rows themselves: key to `[V, size]`."""
        return {key: self.coefficients @ rows for key, rows in self.basis.items()}

    def most_new_units(self, row_bytes: int, basis_bytes: int) -> int:
        """How many units may cut the chunk before its basis is more than fits."""
        r = self.coefficients.shape[1]
        return max(_FEWEST_NEW, min(basis_bytes // row_bytes, _MOST_COLUMNS) - r)

    def with_new(self, vertices: kernels.Vertices, total: int) -> FactoredRows:
        """Rows of all vertices, those that the fold has made included: the combinations of their parents'."""
        old, d = len(self), len(self.centre)
        coefficients = np.empty((total, self.coefficients.shape[1]))
        coefficients[:old] = self.coefficients
        kernels.carry(old, total, vertices.parents, vertices.weights, coefficients)
        coefficients[old:, 0] = 1.0
        coefficients[old:, 1 : 1 + d] = vertices.points[old:total] - self.centre
        cuts = np.empty((total, len(self.units)))
        cuts[:old] = self.cuts
        kernels.carry(old, total, vertices.parents, vertices.weights, cuts)
        signs = as_booleans(vertices.pos[old:total] | vertices.neg[old:total], len(self.units))
        cuts[old:][~signs] = 0.0
        below = np.empty((total, self.below.shape[1]), np.uint64)
        below[:old] = self.below
        kernels.carry_bits(old, total, vertices.parents, below)
        return replace(self, coefficients=coefficients, below=below, cuts=cuts)

    def settled(self) -> FactoredRows:
        """The same rows by fewer basis rows: for a part of a chunk, on which fewer units bend.

        A column that is zero on the part goes. One whose unit is positive throughout is a linear function of earlier
        columns: its basis row is added to theirs. Coordinates are taken about the part's own centre.
        """
        d, r = len(self.centre), self.coefficients.shape[1]
        bends = np.arange(r) > d
        zero = bends & (self.coefficients.max(0) == 0.0)
        linear = bends & ~zero & ~as_booleans(np.bitwise_or.reduce(self.below, 0)[None], r)[0]
        t = self.coefficients[:, 1 : 1 + d]
        shift = 0.5 * (t.max(0) + t.min(0))
        off_centre = (np.abs(shift) > 0.25 * (t.max(0) - t.min(0))).any()
        if not (zero.any() or linear.any() or off_centre):
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
            self, coefficients=coefficients, basis={key: through @ rows for key, rows in self.basis.items()},
            bends=self.bends[kept] @ through.T, below=as_words(as_booleans(self.below, r)[:, kept]),
            centre=self.centre + shift,
        )  # fmt: skip


def first_factored(plan: Plan, centre: np.ndarray, points: np.ndarray, rows: np.ndarray, name: str,
                   shape: tuple[int, ...]) -> FactoredRows:  # fmt: skip
    """Rows at the first fold of vertices at `points` `[V, d]`.

    `rows` `[1 + d, D]` are the network's input at `centre` and the directions of the slice.
    """
    segment = plan.segments[0]
    n = len(rows)
    out = {key: np.empty((n, segment.width(key))) for key in segment.keys}
    constant: dict[str, np.ndarray] = {}
    for start, stop in _blocks(n + 1, plan.rows_per_block[0]):
        block = _scaled_block(rows, start, stop)
        results = segment.run({name: block.reshape(len(block), *shape)})
        _store(results, start, stop, constant, out)
    coefficients = np.concatenate([np.ones((len(points), 1)), points - centre], 1)
    return _standing(plan, 0, coefficients, out, np.zeros((n, n)), np.zeros((len(points), 1), np.uint64), centre)


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
    bends[r:, :r] = rows.basis[CUTS][:, mixed].T
    basis = _next_basis(plan, stage, rows.basis, positive, mixed)
    return _standing(plan, stage + 1, coefficients, basis, bends, below, rows.centre)


def _standing(
    plan: Plan, stage: int, coefficients: np.ndarray, basis: dict[str, np.ndarray],
    bends: np.ndarray, below: np.ndarray, centre: np.ndarray,
) -> FactoredRows:  # fmt: skip
    """Rows before fold `stage`: finds the units that take both signs on the chunk."""
    empty = (np.zeros(0, bool), np.zeros(0, np.int64), np.empty((len(coefficients), 0)), np.zeros(0, np.int32))
    if plan.segments[stage].next_fold is None:
        return FactoredRows(coefficients, basis, bends, below, centre, *empty, np.zeros(0))
    touching, positive, tolerances = touching_units(coefficients, basis[CUTS], plan.tolerances[stage])
    chosen, cuts = [np.zeros(0, np.int64)], [np.empty((len(coefficients), 0))]
    for start in range(0, len(touching), _UNITS_TOGETHER):
        block = touching[start : start + _UNITS_TOGETHER]
        z = coefficients @ basis[CUTS][:, block]
        tol = tolerances[start : start + _UNITS_TOGETHER]
        positive[block] = z.max(0) > tol
        both = positive[block] & (z.min(0) < -tol)
        chosen.append(np.flatnonzero(both) + start)
        cuts.append(z[:, both])
    local = np.concatenate(chosen)
    units = touching[local]
    return FactoredRows(
        coefficients, basis, bends, below, centre, positive, units, np.ascontiguousarray(np.concatenate(cuts, 1)),
        plan.labels[stage][units], tolerances[local],
    )  # fmt: skip


def touching_units(
    coefficients: np.ndarray, basis: np.ndarray, tolerances: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Units that may be zero somewhere, by the box around the coefficients: |mid B| <= rad |B| + tolerance.

    Returns their numbers, the sign `[U]` of all others, and what counts as zero for those found: the given tolerance
    or the rounding error of the sum, whichever is larger.
    """
    low, high = coefficients.min(0), coefficients.max(0)
    mid, rad = 0.5 * (low + high), 0.5 * (high - low)
    size = np.maximum(np.abs(low), np.abs(high)) * (len(mid) * np.finfo(float).eps)
    positive = np.empty(basis.shape[1], bool)
    found, limits = [np.zeros(0, np.int64)], [np.zeros(0)]
    for start in range(0, basis.shape[1], _UNITS_TOGETHER):
        block = basis[:, start : start + _UNITS_TOGETHER]
        centre, (reach, error) = mid @ block, np.stack([rad, size]) @ np.abs(block)
        tol = np.maximum(tolerances[start : start + _UNITS_TOGETHER], error)
        positive[start : start + _UNITS_TOGETHER] = centre > 0
        touching = np.flatnonzero(np.abs(centre) <= reach + tol)
        found.append(touching + start)
        limits.append(tol[touching])
    return np.concatenate(found), positive, np.concatenate(limits)


def _next_basis(
    plan: Plan, stage: int, basis: Mapping[str, np.ndarray], positive: np.ndarray, mixed: np.ndarray
) -> dict[str, np.ndarray]:
    """The basis behind fold `stage`: the old rows carried over it, and one row for each unit that bends."""
    before, segment = plan.segments[stage], plan.segments[stage + 1]
    fold = segment.fold
    assert fold is not None
    r, k = len(basis[CUTS]), len(mixed)
    out = {key: np.empty((r + k, segment.width(key))) for key in segment.keys}
    slopes = positive.astype(np.float64)
    gains, elements = torch.from_numpy(fold.gains), torch.from_numpy(fold.elements)
    constant: dict[str, np.ndarray] = {}
    still: Tensor | None = None
    for start, stop in _blocks(r + 1, plan.rows_per_block[stage + 1]):
        live = {}
        for name in before.kept:
            rows = _scaled_block(basis[CUTS if name in before.aliases else name], start, stop)
            live[name] = rows.reshape(len(rows), *before.shapes[name])
        bent = _linearised(fold, [live[name] for name in fold.inputs], slopes)
        if still is None:
            still = bent[1:2].clone()
        live[fold.output] = bent.reshape(len(bent), *fold.site.shape)
        _store(segment.affine_part(live), start, stop, constant, out)
    assert still is not None
    for start, stop in _blocks(k, plan.rows_per_block[stage + 1]):
        chosen = torch.from_numpy(mixed[start:stop])
        bent = still.repeat(stop - start, 1)
        bent[torch.arange(stop - start), elements[chosen]] += _SCALE * gains[chosen]
        live = {name: torch.zeros(stop - start, *before.shapes[name], dtype=torch.float64) for name in before.kept}
        live[fold.output] = bent.reshape(stop - start, *fold.site.shape)
        _store(segment.affine_part(live), r + 1 + start, r + 1 + stop, constant, out)
    return out


def linear_parts(function: Callable[..., Tensor], basis: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The basis `[r, n]` of an affine function of one value, from the value's basis `[r, size]`."""
    out: dict[str, np.ndarray] = {}
    constant: dict[str, np.ndarray] = {}
    for start, stop in _blocks(len(basis) + 1, _ROWS_TOGETHER):
        block = _scaled_block(basis, start, stop)
        result = function(block.reshape(len(block), *shape))
        if not out:
            out[CUTS] = np.empty((len(basis), result.shape[1]))
        _store({CUTS: result}, start, stop, constant, out)
    return out[CUTS]


def _linearised(fold: Fold, inputs: list[Tensor], slopes: np.ndarray) -> Tensor:
    """`[N, size]`: the affine map that a fold is where its units have the given slopes (1: positive side, 0: other)."""
    z = fold.cuts(*inputs)
    out = fold.run(*inputs).reshape(len(z), -1).contiguous()
    kernels.straighten(z.contiguous().numpy(), slopes, fold.gains, fold.elements, out.numpy())
    return out


def _blocks(count: int, size: int) -> list[tuple[int, int]]:
    """Ranges of at least two rows, so that the first one holds the constant and the zero row."""
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def _scaled_block(rows: np.ndarray, start: int, stop: int) -> Tensor:
    """Rows start..stop of: the first row, a row of zeros, the other rows times a large scale."""
    block = torch.empty(stop - start, rows.shape[1], dtype=torch.float64)
    for i in range(start, min(stop, 2)):
        block[i - start] = torch.from_numpy(rows[0]) if i == 0 else 0.0
    low = max(start, 2)
    if stop > low:
        torch.mul(torch.from_numpy(rows[low - 1 : stop - 1]), _SCALE, out=block[low - start :])
    return block


def _store(
    results: Mapping[str, Tensor], start: int, stop: int, constant: dict[str, np.ndarray], out: dict[str, np.ndarray]
) -> None:
    """Undo `_scaled_block` on results: the first row as it is, of the others the linear part."""
    for key, tensor in results.items():
        rows = tensor.numpy()
        if start == 0:
            constant[key] = rows[1].copy()
            out[key][0] = rows[0]
        low = max(start, 2)
        part = out[key][low - 1 : stop - 1]
        np.subtract(rows[low - start : stop - start], constant[key], out=part)
        part *= 1.0 / _SCALE


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
