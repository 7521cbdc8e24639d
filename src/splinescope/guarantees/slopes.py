"""Slopes with proven bounds: of every tile, and of slivers so thin that float64 cannot tell whether they exist.

Tangents are carried through the steps beside values: middles C and radii R, so that a slope is C to within R. A unit
whose pre-activation is nearer to zero than its own rounding is open: its share of slope is 0, 1 or anything between.

Every point of a tile has a corner that weighs 1 / (d + 1) or more in it. Units open at the point have (d + 1) times
their rounding at that corner, or less. So the patterns that really occur are those of tiles, and at a corner with n
open units the 2^n patterns of these. Where 2^n different tiles meet there, as folds in general position do, they are
those. At other corners each pattern is looked at; not where all open units are zero without any rounding, as at the
origin without biases: patterns next to such a corner are those on rays from there, up to other corners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..network.program import Affine, Fold, Program, walked
from ..tiling.measures.differentiate import block_rows, blocks, cuts, pattern_codes, recording
from ..tiling.measures.maps import inner_points
from ..tiling.measures.tile_shapes import UNIT
from ..tiling.tiling import Tiling
from .rounding import Carried, carried, cut_errors
from .sets import outline

_FAR = 2.0**500  # beside numbers of that size no constant of a step counts
_MOST_COMPARED = 1024  # units of a fold that are looked at for multiples of each other
_NEAR = 1e-6  # of a set's size
_EACH = 8  # open units of which each pattern is looked at; the others have shares of slope from 0 to 1

Measure = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From slopes `[n, C, d]`, middles and radii, to the number that is asked for `[n]` and how far it may be off."""


@dataclass(frozen=True)
class Largest:
    """The largest measure of any slope."""

    value: float  # on the tile of which most is proven
    tile: int
    low: float  # proven: some slope has this much,
    high: float  # and none has more


def largest(tiling: Tiling, program: Program, directions: np.ndarray, measure: Measure) -> Largest:
    """The largest measure of slopes along `directions` `[d, *input_shape]`, over all tiles of plain rows."""
    errors = cut_errors(program, tiling.view, tiling.rtol)
    folds = [_Units(torch.from_numpy(error), *of) for error, of in zip(errors, _multiples(program), strict=True)]
    wide = tiling.dimension + 4.0
    centers = tiling.view.inputs(inner_points(tiling))
    values, off = np.empty((2, tiling.count))
    size = max(1, block_rows(program) // len(directions))
    for block in blocks(tiling.count, size):
        found = _tangents(program, centers[block], directions, folds, 2.0, None)
        values[block], off[block] = measure(*found)
    # Near a center is a slope within its radius, whatever its open units do: those that are zero on a whole tile bend
    # nothing there, and the radius of a sliver that may not exist is as large as what its units bend.
    tile = int((values - off).argmax())
    low, high = float((values - off)[tile]), float((values + off).max())
    # corners where fewer tiles that surely exist meet than there may be patterns
    unsure, codes = _signs(program, centers, folds, 2.0)
    sure = (unsure == 0) & np.isin(np.arange(tiling.count), np.unique(codes, return_index=True)[1])
    lists = tiling.tiles.some(np.flatnonzero(sure))
    meeting = np.bincount(lists.corners, minlength=len(tiling.vertices))
    at = tiling.view.inputs(tiling.vertices)
    count, _ = _signs(program, at, folds, wide)
    lacking = np.flatnonzero(meeting < 2.0**count)
    inexact, _ = _signs(program, at[lacking], folds, wide, inexact=True)
    normals, offsets = outline(tiling.view)
    gaps = offsets - tiling.vertices.reshape(-1, tiling.dimension) @ normals.T
    near = (gaps != 0) & (gaps < _NEAR * gaps.max(0))  # rays from there may leave the set at once
    lacking = lacking[(inexact > 0) | (count[lacking] == 0) | near[lacking].any(1)]
    for number in np.unique(np.minimum(count[lacking], _EACH)):
        some = lacking[np.minimum(count[lacking], _EACH) == number]
        choices = np.arange(2**number)
        for block in blocks(len(some) * len(choices), size):
            which, code = np.divmod(np.arange(block.start, block.stop), len(choices))
            worst, more = measure(*_tangents(program, at[some[which]], directions, folds, wide, torch.from_numpy(code)))
            high = max(high, float((worst + more).max()))
    return Largest(float(values[tile]), tile, low, high)


def through_zero(fold: Fold, inputs: list[Tensor]) -> bool:
    """Whether a fold bends through zero alone: scaled inputs, however large or small, have the output scaled."""
    if fold.at is not None and np.any(fold.at):
        return False
    output = fold.run(*inputs)
    return all(torch.equal(fold.run(*(k * value for value in inputs)), k * output) for k in (2.0**-40, 2.0, 2.0**40))


@dataclass(frozen=True)
class _Units:
    """Of one fold, `[U]` each: bounds of the rounding of pre-activations, and which units are multiples of which."""

    error: Tensor
    first: Tensor  # the first unit that each is a multiple of
    sign: Tensor  # of the factor; 0 where a unit is zero for all inputs

    def signed(self, z: Tensor, times: float) -> tuple[Tensor, Tensor, Tensor]:
        """`[N, U]` each: numbers with the signs of pre-activations, which are open, and these without multiples."""
        z = z[:, self.first] * self.sign
        open_ = (z.abs() <= times * self.error[self.first]) & (self.sign != 0)
        return z, open_, open_ & (self.first == torch.arange(len(self.first)))


def _multiples(program: Program) -> Iterator[tuple[Tensor, Tensor]]:
    """Per fold, of which first unit each is a multiple, and the factor's sign: exactly, by powers of two."""
    made: dict[str, tuple[Affine, list[Tensor]]] = {}
    for step, given, _ in program.walk(torch.zeros(1, *program.input_shape, dtype=torch.float64)):
        if isinstance(step, Affine):
            made[step.output] = step, given
            continue
        units = step.site.units
        if len(step.inputs) > 1 or units > _MOST_COMPARED:
            yield torch.arange(units), torch.ones(units)
            continue
        before, given = made.get(step.inputs[0], (None, given))
        with recording():  # row by row the constants of the affine step before the fold
            x = [torch.zeros(units, *v.shape[1:], dtype=torch.float64, requires_grad=True) for v in given]
            z = step.cuts(*(x if before is None else [before.run(*x)]))
            slopes = torch.autograd.grad(z.diagonal().sum(), x, materialize_grads=True)
        rows = torch.cat([*(v.flatten(1) for v in slopes), z[:1].detach().T], 1).numpy()
        sign = np.sign(rows[np.arange(units), (rows != 0).argmax(1)])
        rows = np.ldexp(rows * sign[:, None], -np.frexp(np.abs(rows).max(1, keepdims=True))[1]) + 0.0  # no -0
        _, at, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        first = at[which.reshape(-1)]
        yield torch.from_numpy(first), torch.from_numpy(sign * sign[first])


def _signs(
    program: Program, x: np.ndarray, folds: list[_Units], times: float, inexact: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """`[n]` each: how many units are open at inputs (if `inexact`, of those whose zero is rounded), and hashes of the
    signs of all."""
    count, codes = np.zeros(len(x), int), np.empty(len(x), np.uint64)
    for block in blocks(len(x), block_rows(program)):
        rows, signs = torch.from_numpy(x[block]), []
        off = carried(program, Carried(rows, 0 * rows, 0 * rows))[1] if inexact else [torch.ones(())] * len(folds)
        for units, error, (_, value) in zip(folds, off, cuts(program, rows), strict=True):
            z, _, alone = units.signed(value, times)
            count[block] += (alone & (error > 0)).sum(1).numpy()
            signs.append((z > 0).numpy())
        codes[block] = pattern_codes(signs, len(rows))
    return count, codes


@dataclass(frozen=True)
class _Tangents:
    """Values `[n, *shape]`, and slopes along every direction `[n * d, *shape]`: middles and radii."""

    value: Tensor
    middle: Tensor
    radius: Tensor


def _tangents(
    program: Program, x: np.ndarray, directions: np.ndarray, folds: list[_Units], times: float, code: Tensor | None
) -> tuple[np.ndarray, np.ndarray]:
    """`[n, C, d]` each: slopes at inputs, and how far they may be off.

    Bit i of a row's code is the share of the i-th open unit, as far as there are codes.
    """
    d, units_of = len(directions), dict(zip((fold.output for fold in program.folds), folds, strict=True))
    seen = torch.zeros(len(x), 1, dtype=torch.int64)

    def evaluate(step: Affine | Fold, given: list[_Tangents]) -> _Tangents:
        middles, sizes = [v.middle for v in given], [v.middle.abs() for v in given]
        radii, value = [v.radius for v in given], step.run(*(v.value for v in given))
        if isinstance(step, Affine):
            terms = sum(v.value[0].numel() for v in given)
            own = 2 * (terms + 4) * UNIT * _linear(step.magnitude, sizes)
            radius = (_linear(step.magnitude, radii) + own) * (1 + 4 * (terms + 4) * UNIT)
            return _Tangents(value, _linear(step.run, middles), radius)
        units = units_of[step.output]
        z, open_, alone = units.signed(step.cuts(*(v.value for v in given)), times)
        share, loose = (z > 0).to(torch.float64), 0.0 * z
        if bool(open_.any()):
            place = (seen + alone.cumsum(1) - 1)[:, units.first]
            seen.add_(alone.sum(1, keepdim=True))
            chosen = open_ & (place < _EACH) if code is not None else torch.zeros_like(open_)
            bits = ((0 if code is None else code[:, None]) >> place.clamp(0, _EACH)) & 1
            bits = torch.where(units.sign < 0, 1 - bits, bits)
            share = torch.where(chosen, bits.to(torch.float64), torch.where(open_, 0.5, share))
            loose = torch.where(open_ & ~chosen, 0.5, 0.0)
        share, loose = share.repeat_interleave(d, 0), loose.repeat_interleave(d, 0)
        gains, elements = torch.from_numpy(step.gains), torch.from_numpy(step.elements)

        def bent(amounts: Tensor) -> Tensor:
            flat = torch.zeros(len(amounts), value[0].numel(), dtype=torch.float64).index_add_(1, elements, amounts)
            return flat.reshape(-1, *value.shape[1:])

        along = _linear(step.cuts, middles)
        slack = _linear(step.cut_magnitude, radii) + 4 * UNIT * _linear(step.cut_magnitude, sizes)
        middle = bent(gains * share * along)
        most = gains.abs() * (share * slack + loose * (along.abs() + slack))
        terms = 4 + int(np.bincount(step.elements).max(initial=0))
        radius = bent(most + 2 * terms * UNIT * gains.abs() * share * along.abs())
        if step.site.op != "relu":  # what is left of the fold without its hinges is affine

            def rest(*inputs: Tensor) -> Tensor:
                return step.run(*inputs) - bent(gains * step.cuts(*inputs).clamp_min(0))

            def rest_size(*inputs: Tensor) -> Tensor:
                return step.run(*inputs).abs() + bent(gains.abs() * step.cut_magnitude(*inputs))

            middle = middle + _linear(rest, middles)
            radius = radius + _linear(rest_size, radii) + 4 * terms * UNIT * _linear(rest_size, sizes)
        return _Tangents(value, middle, radius * (1 + 2 * terms * UNIT))

    with torch.no_grad():
        start = torch.from_numpy(directions).repeat(len(x), *(1,) * (directions.ndim - 1))
        first = _Tangents(torch.from_numpy(x), start, torch.zeros_like(start))
        last = walked(program.steps, {program.input: first}, {program.output}, evaluate)[program.output]
    return tuple(  # type: ignore[return-value]
        rows.reshape(len(x), d, -1).transpose(1, 2).numpy() for rows in (last.middle, last.radius)
    )


def _linear(run: Callable[..., Tensor], rows: list[Tensor]) -> Tensor:
    """An affine function without its constants."""
    return (run(*(_FAR * row for row in rows)) - run(*(torch.zeros_like(row[:1]) for row in rows))) / _FAR
