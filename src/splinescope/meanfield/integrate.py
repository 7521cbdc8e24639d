"""Two integrators for autonomous flows of one tensor, with a projection after every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..support.errors import InputError, LimitReached

Field = Callable[[Tensor], Tensor]
Projection = Callable[[Tensor], Tensor]

# Dormand and Prince, "A family of embedded Runge-Kutta formulae", 1980
_STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def _combine(start: Tensor, step: float, weights: tuple[float, ...], slopes: list[Tensor]) -> Tensor:
    out = start.clone()
    for weight, slope in zip(weights, slopes, strict=False):
        if weight:
            out.add_(slope, alpha=step * weight)
    return out


def dormand_prince(
    field: Field, state: Tensor, times: list[float], *, rtol: float, atol: float, project: Projection, max_steps: int
) -> Iterator[tuple[Tensor, int]]:
    """Yield (state, steps so far) at each of the increasing `times`, the first being the start.

    A step is accepted when the root mean square of `error / (atol + rtol |state|)` is at most 1.
    """
    time, steps = times[0], 0
    slopes = [_finite(field(state), time)]
    step = _first_step(field, state, slopes[0], times[-1] - times[0], rtol, atol)
    yield state, 0
    for goal in times[1:]:
        while time < goal:
            if steps >= max_steps:
                raise LimitReached(
                    f"the flow needs more than max_steps = {max_steps} steps: it stands at time {time:.6g} of "
                    f"{times[-1]:.6g}. Loosen rtol, raise max_steps, or give step= for equal steps (ReLU).",
                    partial=(time, state),
                )
            trial = min(step, goal - time)
            if time + trial == time:
                raise LimitReached(
                    f"the flow needs steps too small for float64: it grows without bound near time {time:.6g} of "
                    f"{times[-1]:.6g}.",
                    partial=(time, state),
                )
            slopes = slopes[:1]
            for weights in _STAGES:
                proposal = _combine(state, trial, weights, slopes)
                slopes.append(field(proposal))
            error = _combine(torch.zeros_like(state), trial, _ERROR, slopes)
            scale = atol + rtol * torch.maximum(state.abs(), proposal.abs())
            ratio = (error / scale).square().mean().sqrt().item()
            steps += 1
            if ratio <= 1:
                time = goal if trial == goal - time else time + trial
                state = project(proposal)
                slopes = [_finite(field(state), time)]
            factor = min(5.0, max(0.2, 0.9 * max(ratio, 1e-10) ** -0.2))
            # a step cut short by a goal says nothing against the longer one
            step = max(step, trial * factor) if ratio <= 1 and trial < step else trial * factor
        yield state, steps


def _finite(velocity: Tensor, time: float) -> Tensor:
    if not bool(torch.isfinite(velocity).all()):
        raise InputError(
            f"the velocity must be finite, got NaN or infinity at time {time:.6g}: loss or activation overflow there, "
            "or are not differentiable."
        )
    return velocity


def _first_step(field: Field, state: Tensor, slope: Tensor, span: float, rtol: float, atol: float) -> float:
    """Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I", section II.4."""
    scale = atol + rtol * state.abs()
    size = (state / scale).square().mean().sqrt().item()
    speed = (slope / scale).square().mean().sqrt().item()
    guess = 0.01 * size / speed if min(size, speed) > 1e-5 else 1e-6
    guess = min(guess, span)
    bend = ((field(state + guess * slope) - slope) / scale).square().mean().sqrt().item() / guess
    most = max(speed, bend)
    better = (0.01 / most) ** 0.2 if most > 1e-15 else max(1e-6, guess * 1e-3)
    return min(100 * guess, better, span)


def runge_kutta(
    field: Field, state: Tensor, times: list[float], *, step: float, project: Projection
) -> Iterator[tuple[Tensor, int]]:
    """Yield (state, steps so far) at each of `times`, by RK4 with equal steps of at most `step` in each interval."""
    steps = 0
    yield state, 0
    for start, goal in itertools.pairwise(times):
        count = max(1, int(-(-(goal - start) // step)))
        size = (goal - start) / count
        for number in range(count):
            k1 = field(state)
            k2 = field(state + size / 2 * k1)
            k3 = field(state + size / 2 * k2)
            k4 = field(state + size * k3)
            change = _finite(k1 + 2 * k2 + 2 * k3 + k4, start + number * size)
            state = project(state + size / 6 * change)
        steps += count
        yield state, steps
