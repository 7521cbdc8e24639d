"""Two integrators for autonomous flows of one tensor, with a projection after every step."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import torch
from scipy.integrate import RK45
from torch import Tensor

from ..support.errors import InputError, LimitReached

Field = Callable[[Tensor], Tensor]
Projection = Callable[[Tensor], Tensor]


def dormand_prince(
    field: Field, state: Tensor, times: list[float], *, rtol: float, atol: float, project: Projection, max_steps: int
) -> Iterator[tuple[Tensor, int]]:
    """Yield (state, steps so far) at each of the increasing `times`, the first being the start.

    Steps are those of scipy's `RK45`: accepted when the root mean square of `error / (atol + rtol |state|)` is at most
    1. After each the state is projected, and the velocity taken there.
    """

    def slope(time: float, flat: np.ndarray) -> np.ndarray:
        return _flat(field(torch.from_numpy(flat.reshape(state.shape)).to(state)))

    _finite(field(state), times[0])
    solver = RK45(slope, times[0], _flat(state), times[-1], rtol=rtol, atol=atol)
    steps = 0
    yield state, 0
    for goal in times[1:]:
        solver.t_bound, solver.status = goal, "running"
        while solver.t < goal:
            if steps >= max_steps:
                raise LimitReached(
                    f"the flow needs more than max_steps = {max_steps} steps: it stands at time {solver.t:.6g} of "
                    f"{times[-1]:.6g}. Loosen rtol, raise max_steps, or give step= for equal steps (ReLU).",
                    partial=(solver.t, state),
                )
            solver.step()
            if solver.status == "failed":
                raise LimitReached(
                    f"the flow needs steps too small for float64: it grows without bound near time {solver.t:.6g} of "
                    f"{times[-1]:.6g}.",
                    partial=(solver.t, state),
                )
            steps += 1
            state = project(torch.from_numpy(solver.y.reshape(state.shape)).to(state))
            solver.y = _flat(state)
            solver.f = _flat(_finite(field(state), solver.t))
        yield state, steps


def _flat(state: Tensor) -> np.ndarray:
    return np.asarray(state.cpu().double().numpy().reshape(-1))


def _finite(velocity: Tensor, time: float) -> Tensor:
    if not bool(torch.isfinite(velocity).all()):
        raise InputError(
            f"the velocity must be finite, got NaN or infinity at time {time:.6g}: loss or activation overflow there, "
            "or are not differentiable."
        )
    return velocity


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
