"""Ranges and errors carried through a network by its steps: what a slice can reach, how far two networks differ, and
how large the terms are that cancel in the outputs.

Bounds of outputs while tiles are cut are in `tiling.engine.output_bounds`, those of a property in
`guarantees.relaxation`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .interpolants import Curve
from .program import Affine, Fold, Program, Smooth, Tournament, walked

_FAR = 2.0**40
_STEP = 2.0**-40  # above float64's own roundings, small enough to be linear
_TRIALS = 4


@dataclass(frozen=True)
class Reach:
    """What one value can be: at corners while it is affine, an interval; `error` bounds how two networks differ."""

    corners: Tensor | None
    middle: Tensor
    radius: Tensor
    error: Tensor

    @property
    def low(self) -> np.ndarray:
        """`[size]` least value in either network."""
        return (self.middle - self.radius - self.error).reshape(-1).numpy()

    @property
    def high(self) -> np.ndarray:
        """`[size]` largest value in either network."""
        return (self.middle + self.radius + self.error).reshape(-1).numpy()


def reach(
    program: Program, curves: Mapping[str, Curve], errors: Mapping[str, float], corners: Tensor
) -> tuple[dict[str, Reach], float]:
    """Intervals of the inputs of all smooth steps on a slice, and a bound on the difference of outputs.

    The two networks are `program` and one whose smooth steps are replaced by functions within `errors` of them. Through
    an affine step, W x + b, errors grow by at most |W|; through a fold by its largest slope; through a smooth step by
    the largest slope that phi has on the interval, plus the step's own error. A bound, proven but for rounding.
    `curves`, `errors` and the returned intervals are by the outputs of smooth steps; `corners` are `[n, *input shape]`.
    """
    stages = {name for step in program.steps if isinstance(step, Tournament) for name, _ in step.stages}
    low, high = corners.amin(0, keepdim=True), corners.amax(0, keepdim=True)
    values = {program.input: Reach(corners, (low + high) / 2, (high - low) / 2, torch.zeros_like(low))}
    found: dict[str, Reach] = {}

    def evaluate(step: Affine | Fold, given: list[Reach]) -> Reach:
        if isinstance(step, Affine):
            return _affine(step, given)
        if isinstance(step, Smooth):
            found[step.output] = given[0]
            return _smooth(step, given[0], curves[step.output], errors[step.output])
        return _round(step, given) if step.output in stages else _fold(step, given)

    outputs = walked(program.steps, values, {program.output}, evaluate)
    return found, float(outputs[program.output].error.max())


def _affine(step: Affine, given: list[Reach]) -> Reach:
    rest = step.magnitude(*(torch.zeros_like(v.middle) for v in given))
    error = (step.magnitude(*(v.error for v in given)) - rest).clamp_min(0)
    if all(v.corners is not None for v in given):
        at = step.run(*(v.corners for v in given if v.corners is not None))
        low, high = at.amin(0, keepdim=True), at.amax(0, keepdim=True)
        return Reach(at, (low + high) / 2, (high - low) / 2, error)
    radius = (step.magnitude(*(v.radius for v in given)) - rest).clamp_min(0)
    return Reach(None, step.run(*(v.middle for v in given)), radius, error)


def _fold(step: Fold, given: list[Reach]) -> Reach:
    middle = step.run(*(v.middle for v in given))
    if len(given) == 1:
        steepest = fold_slopes(step, given[0].middle)
        return Reach(None, middle, given[0].radius * steepest, given[0].error * steepest)
    radius, error = given[0].radius, given[0].error
    for other in given[1:]:  # the maximum or minimum of values moves by no more than one of them
        radius, error = torch.maximum(radius, other.radius), torch.maximum(error, other.error)
    return Reach(None, middle, radius.expand_as(middle), error.expand_as(middle))


def _round(step: Fold, given: list[Reach]) -> Reach:
    """A stage of a tournament: the winner of a pair moves by no more than one of the two."""

    def largest(sizes: list[Tensor]) -> Tensor:
        return torch.maximum(step.run(*sizes), -step.run(*(-size for size in sizes)))

    middle = step.run(*(v.middle for v in given))
    return Reach(None, middle, largest([v.radius for v in given]), largest([v.error for v in given]))


def fold_slopes(step: Fold, like: Tensor) -> Tensor:
    """`[1, *shape]` bound on the slopes of an elementwise fold: of its leftmost piece and all sums of its gains."""
    far = torch.full_like(like, -_FAR)
    first = (step.run(far) - step.run(2 * far)) / _FAR
    gains = torch.from_numpy(step.gains)
    elements = torch.from_numpy(step.elements)
    up = torch.zeros(first.numel(), dtype=torch.float64).scatter_add_(0, elements, gains.clamp_min(0))
    down = torch.zeros(first.numel(), dtype=torch.float64).scatter_add_(0, elements, gains.clamp_max(0))
    first = first.reshape(-1)
    return torch.maximum((first + up).abs(), (first + down).abs()).maximum(first.abs()).reshape(1, *step.site.shape)


def _smooth(step: Smooth, given: Reach, curve: Curve, own: float) -> Reach:
    slopes = torch.from_numpy(curve.steepest(given.low, given.high)).reshape(given.middle.shape)
    return Reach(None, step.run(given.middle), given.radius * slopes + curve.jump, given.error * slopes + own)


def cancelling_terms(program: Program, x: Tensor, finish: Callable[[Tensor], Tensor | None] = lambda y: y) -> float:
    """Size of the terms that cancel in the outputs at `x`, behind `finish`, by what roundings do to them.

    Each affine step is moved by `_STEP` of its own terms, at random signs. Sums of absolute weights over all layers
    would bound it too, but by far too much in a deep network.
    """
    generator = torch.Generator().manual_seed(0)

    def rounded(step: Affine | Fold, inputs: list[Tensor]) -> Tensor:
        result = step.run(*inputs)
        if isinstance(step, Fold):
            return result
        terms = step.magnitude(*(value.abs() for value in inputs))
        signs = torch.randint(0, 2, terms.shape, generator=generator, dtype=torch.float64) * 2 - 1
        return result + _STEP * signs * terms

    x = x.to(torch.float64)
    with torch.no_grad():
        exact, moved = finish(program.forward(x)), 0.0
        for _ in range(_TRIALS):
            found = finish(walked(program.steps, {program.input: x}, {program.output}, rounded)[program.output])
            if exact is not None and found is not None and exact.numel():
                moved = max(moved, float((found - exact).abs().nan_to_num(0.0, 0.0, 0.0).amax()))
    return moved / _STEP
