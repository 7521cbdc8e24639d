"""Proven bounds of rounding: how far the numbers at corners of tiles, and what is between, are from the real network.

Real arithmetic on the network's own float64 weights is what is meant by "real". Errors are carried through the steps
by absolute weights. Each step adds: for an affine step of n terms, (n + 2) u times the sum of the absolute terms
(u = 2^-53, Higham's bound for any order of summation); for a fold, the tolerance below which a pre-activation counts
as zero, since a tile's corners may be that far on the wrong side, and the rounding of the points and rows of new
corners, one combination for each unit that can have cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..network.program import Affine, Fold, Program, walked
from ..network.ranges import fold_slopes
from ..tiling.engine.plan import make_plan, probe_points
from ..tiling.measures.tile_shapes import UNIT
from ..tiling.slice import Slice

_SAFETY = 2.0  # the bounds are computed in float64 themselves, some as differences of rounded numbers


@dataclass(frozen=True)
class Carried:
    """`[N, *shape]` each: values, what they may be apart from the middle, and how far off they are."""

    middle: Tensor
    radius: Tensor
    error: Tensor

    @property
    def size(self) -> Tensor:
        return self.middle.abs() + self.radius


def error_at(program: Program, x: Tensor, radius: Tensor | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The output at inputs `[N, *input_shape]` and a bound of its rounding error there, `[N, size]` each.

    With a radius, of the same shape: how far outputs of inputs that close may be from the first, rounding included.
    """
    x = x.to(torch.float64)
    zero = torch.zeros_like(x)
    found, _ = carried(program, Carried(x, zero if radius is None else radius, zero))
    return found.middle.reshape(len(x), -1).numpy(), (found.error + found.radius).reshape(len(x), -1).numpy()


def error_on(program: Program, view: Slice, rtol: float) -> np.ndarray:
    """`[size]`: `error_over` a slice, of tiles with plain rows."""
    return error_over(program, torch.from_numpy(view.inputs(view.domain)), _tolerances(program, view, rtol))


def cut_errors(program: Program, view: Slice, rtol: float) -> list[np.ndarray]:
    """Per fold `[U]`: how far pre-activations may be off on a slice, by rounding or as they count as zero."""
    tolerances = _tolerances(program, view, rtol)
    _, found = carried(program, _on_box(program, torch.from_numpy(view.inputs(view.domain))), tolerances, 4)
    return [error[0].numpy() + tolerance for error, tolerance in zip(found, tolerances, strict=True)]


def error_over(program: Program, corners: Tensor, tolerances: list[np.ndarray]) -> np.ndarray:
    """`[size]`: a bound, over the hull of corners `[n, *input_shape]`, of how far tiles' affine maps are off.

    `tolerances` are those of the plan, per fold: pre-activations of that size count as zero.
    """
    return carried(program, _on_box(program, corners), tolerances, 4)[0].error.reshape(-1).numpy()


def _tolerances(program: Program, view: Slice, rtol: float) -> list[np.ndarray]:
    with torch.no_grad():
        probes = torch.from_numpy(view.inputs(probe_points(program, view.domain)))
        return make_plan(program, probes, rtol, "plain", view.dimension).tolerances


def _on_box(program: Program, corners: Tensor) -> Carried:
    cuts = sum(fold.site.units for fold in program.folds)
    low, high = corners.amin(0, keepdim=True), corners.amax(0, keepdim=True)
    middle, radius = (low + high) / 2, (high - low) / 2
    # each new corner is rounded, and so is the slice's map
    return Carried(middle, radius, 4 * (cuts + 4) * UNIT * (middle.abs() + radius))


def least_share(low: np.ndarray, high: np.ndarray, level: np.ndarray | float, dimension: int) -> np.ndarray:
    """The largest share of any convex body on which an affine function is below a level, if it is from low to high.

    By Brunn and Minkowski no body has more of its volume near the low end than a cone that stands on it, which has
    1 - (1 - t)^d below the share t of its height.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(high > low, (level - low) / (high - low), (low <= level).astype(float))
        return np.asarray(-np.expm1(dimension * np.log1p(-np.clip(share, 0.0, 1.0))))


def carried(
    program: Program, first: Carried, tolerances: list[np.ndarray] | None = None, rows: int = 0
) -> tuple[Carried, list[Tensor]]:
    """The output, and per fold `[N, U]` the errors of its pre-activations."""
    places = {fold.output: i for i, fold in enumerate(program.folds)}
    off: list[Tensor] = []

    def evaluate(step: Affine | Fold, given: list[Carried]) -> Carried:
        if isinstance(step, Affine):
            return _affine(step, given)
        rest, errors, sizes = (
            step.cut_magnitude(*some) for some in zip(*((0 * v.error, v.error, v.size) for v in given), strict=True)
        )
        off.append(errors - rest + (4 + rows * (step.site.units + 4)) * UNIT * sizes)
        tolerance = None if tolerances is None else tolerances[places[step.output]]
        return _fold(step, given, tolerance, rows)

    with torch.no_grad():
        return walked(program.steps, {program.input: first}, {program.output}, evaluate)[program.output], off


def _affine(step: Affine, given: list[Carried]) -> Carried:
    rest = step.magnitude(*(torch.zeros_like(v.middle[:1]) for v in given))
    terms = sum(int(np.prod(v.middle.shape[1:], dtype=int)) for v in given)
    sizes = step.magnitude(*(v.size for v in given))
    error = (step.magnitude(*(v.error for v in given)) - rest).clamp_min(0)
    radius = (step.magnitude(*(v.radius for v in given)) - rest).clamp_min(0)
    own = _SAFETY * (terms + 2) * UNIT * sizes
    return Carried(step.run(*(v.middle for v in given)), radius, (error + own) * (1 + 8 * UNIT))


def _fold(step: Fold, given: list[Carried], tolerance: np.ndarray | None, rows: int) -> Carried:
    middle = step.run(*(v.middle for v in given))
    count = middle[:1].numel()
    if len(given) == 1 and given[0].middle.shape == middle.shape:
        steepest = fold_slopes(step, given[0].middle[:1])
        radius, error, size = given[0].radius * steepest, given[0].error * steepest, given[0].size * steepest
        # behind a relu only what is positive is left: values below zero have no error, those above their own size
        if step.site.op == "relu":
            high = given[0].middle + given[0].radius + given[0].error
            alive = (high > 0).to(torch.float64)
            low = (given[0].middle - given[0].radius).clamp_min(0)
            top = (given[0].middle + given[0].radius).clamp_min(0)
            middle, radius = (low + top) / 2, (top - low) / 2
            error, size = error * alive, top
    else:  # a maximum or minimum moves by no more than one of the values that meet
        radius = _largest(step, [v.radius for v in given])
        error = _largest(step, [v.error for v in given])
        size = _largest(step, [v.size for v in given])
    if tolerance is not None:
        zero = torch.zeros(count, dtype=torch.float64)
        amount = torch.from_numpy(tolerance * np.abs(step.gains))
        zero = zero.scatter_add_(0, torch.from_numpy(step.elements), amount).reshape(middle[:1].shape)
        error = error + zero + rows * (step.site.units + 4) * UNIT * size
    else:
        error = error + 4 * UNIT * size
    return Carried(middle, radius, error)


def _largest(step: Fold, sizes: list[Tensor]) -> Tensor:
    return torch.maximum(step.run(*sizes), -step.run(*(-size for size in sizes)))
