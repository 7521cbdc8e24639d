"""Training as a flow: gradient flow in any of the equivalent dynamics, and gradient descent with a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..support.checks import as_float64_array, check_choice, check_positive, check_whole
from ..support.display import Result
from ..support.drawing import drawn
from ..support.errors import InputError
from .data import Data
from .functions import Activation, Loss, LossLike, as_loss, check_labels
from .integrate import dormand_prince, runge_kutta
from .manifold import Manifold
from .networks import TwoLayer, TwoLayerBN, check_pair
from .velocity import euclidean_velocity, forces, manifold_velocity, normalized_velocity, outputs, plain_velocity

Dynamics = Literal["euclidean", "normalized", "manifold", "plain"]
DYNAMICS: tuple[Dynamics, ...] = ("euclidean", "normalized", "manifold", "plain")


@dataclass(frozen=True, repr=False)
class Trajectory(Result):
    """A recorded flow or descent.

    Attributes:
        dynamics: Which vector field moved the neurons.
        times: Shape (T,), in mean-field time (for descent: step size times iteration).
        a: Amplitudes, shape (T, m).
        b: Inner weights, shape (T, m, d); for "normalized" and "manifold" the normalized neurons.
        risks: Loss over the data at each time, shape (T,).
        steps: Integration steps taken.
        activation: Of the network.
        covariance: The Sigma that normalized, shape (d, d).
    """

    dynamics: Dynamics
    times: np.ndarray
    a: Tensor
    b: Tensor
    risks: np.ndarray
    steps: int
    activation: Activation
    covariance: Tensor
    certainty = "estimate"
    plot = drawn("meanfield.plot_neurons")

    @property
    def directions(self) -> Tensor:
        """`b_k / ||b_k||_Sigma`, the neurons as the network sees them, shape (T, m, d); for "plain" `b` itself."""
        if self.dynamics != "euclidean":
            return self.b
        return Manifold(self.covariance).normalize(self.b)

    def network(self, index: int = -1) -> TwoLayer:
        """The network at one recorded time: `TwoLayerBN` for "euclidean", otherwise the plain twin."""
        kind = TwoLayerBN if self.dynamics == "euclidean" else TwoLayer
        return kind(self.a[index], self.b[index], self.activation)


class _System(NamedTuple):
    """A vector field on packed states (m, 1 + d), columns a | b, with its start and its constraint."""

    start: Tensor
    field: Callable[[Tensor], Tensor]
    project: Callable[[Tensor], Tensor]
    risk: Callable[[Tensor], float]


def vector_field(
    net: TwoLayer, data: Data, loss: Loss, dynamics: Dynamics, lengths: Tensor | None = None
) -> Callable[[Tensor], Tensor]:
    """The velocity, in mean-field time, as a function of the packed state (m, 1 + d), columns a | b.

    `lengths` are the `||b_k||` of the batch-norm network that "normalized" and "manifold" stand for: 1 by default.
    """
    manifold = Manifold(data.covariance.to(net.b))
    scale = torch.ones_like(net.a) if lengths is None else lengths

    def field(state: Tensor) -> Tensor:
        a, b = state[:, 0], state[:, 1:]
        n = manifold.normalize(b) if dynamics == "euclidean" else b
        force = forces(a, n, data, net.activation, loss)
        if dynamics == "plain":
            velocity = plain_velocity(a, force)
        elif dynamics == "euclidean":
            velocity = euclidean_velocity(a, b, force, manifold.covariance)
        elif dynamics == "normalized":
            velocity = normalized_velocity(a, n, force, manifold, scale)
        else:
            velocity = manifold_velocity(a, n, force, manifold, scale)
        return torch.column_stack(velocity)

    return field


def _system(net: TwoLayer, data: Data, loss: Loss, dynamics: Dynamics, unit_length: bool, project: bool) -> _System:
    check_choice(dynamics, "dynamics", DYNAMICS)
    check_pair(net, data)
    check_labels(loss, data.y)
    if dynamics != "plain" and not isinstance(net, TwoLayerBN):
        raise InputError(f'net must be a TwoLayerBN for dynamics "{dynamics}", got TwoLayer; "plain" takes both.')
    manifold = Manifold(data.covariance)
    lengths = net.b.norm(dim=1)
    if unit_length:
        lengths = torch.ones_like(lengths)
    b = manifold.normalize(net.b) if dynamics in ("normalized", "manifold") else net.b

    def constrain(state: Tensor) -> Tensor:
        a, b = state[:, :1], state[:, 1:]
        if dynamics == "euclidean":
            b = b * (lengths / b.norm(dim=1))[:, None]
        elif dynamics != "plain":
            b = manifold.normalize(b)
        return torch.cat([a, b], dim=1)

    def risk(state: Tensor) -> float:
        a, b = state[:, 0], state[:, 1:]
        n = manifold.normalize(b) if dynamics == "euclidean" else b
        return (data.weights @ loss.value(outputs(a, n, data, net.activation), data.y)).item()

    start = torch.column_stack([net.a, b])
    if dynamics == "euclidean" and unit_length:
        start = constrain(start)
    field = vector_field(net, data, loss, dynamics, lengths)
    return _System(start, field, constrain if project else lambda state: state, risk)


def flow(
    net: TwoLayer, data: Data, loss: LossLike = "squared", *, times: Any, dynamics: Dynamics = "manifold",
    unit_length: bool = False, rtol: float = 1e-8, atol: float = 1e-10, step: float | None = None,
    project: bool = True, max_steps: int = 100_000,
) -> Trajectory:  # fmt: skip
    """Gradient flow of the loss, recorded at `times`.

    The three batch-norm dynamics describe one motion (Theorem 2): "euclidean" moves the weights `b_k` themselves,
    "normalized" and "manifold" their images on the ellipsoid. "plain" is without batch norm.

    Args:
        net: Where it starts: `TwoLayerBN`, or `TwoLayer` for "plain".
        data: What the loss is averaged over.
        loss: "squared" (half the square), "mse", "logistic", "bce" or a twice differentiable function `(f, y) -> l`.
        times: Increasing, shape (T,), in mean-field time (`theta' = -dL/dtheta` is slower by m), starting with
            that of `net` (usually 0).
        dynamics: Which vector field.
        unit_length: Treat all neurons as if `||b_k|| = 1` (as the paper does): same function, other speeds.
        rtol, atol: Error control of the Dormand-Prince 5(4) integrator (local, root mean square over the state).
        step: If given, RK4 with this step instead: for kinked activations.
        project: Return to the constraint (`||b_k||` or `b^T Sigma b = 1`) after every step.
        max_steps: More raise `LimitReached`.

    Returns:
        The trajectory. Exact up to integration error; each step costs 6 (4) evaluations of O(m N d).

    Example:
        >>> data = Data.of([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], [1.0, -1.0, 0.0, 0.0])
        >>> net = TwoLayerBN([0.0, 0.0], [[2.0, 1.0], [1.0, -1.0]], "tanh")
        >>> bool(flow(net, data, times=[0, 10]).risks[-1] < 0.01)
        True
    """
    moments = as_float64_array(times, "times")
    if moments.ndim != 1 or len(moments) < 2 or bool((np.diff(moments) <= 0).any()):
        raise InputError(f"times must be at least two increasing numbers, got shape {moments.shape}.")
    system = _system(net, data, as_loss(loss), dynamics, unit_length, project)
    ticks = [float(t) for t in moments]
    if step is None:
        rtol, atol = check_positive(rtol, "rtol"), check_positive(atol, "atol")
        path = dormand_prince(
            system.field, system.start, ticks, rtol=rtol, atol=atol, project=system.project, max_steps=max_steps
        )
    else:
        path = runge_kutta(system.field, system.start, ticks, step=check_positive(step, "step"), project=system.project)
    return _record(path, system, moments, dynamics, net, data)


def descend(
    net: TwoLayer, data: Data, loss: LossLike = "squared", *, rate: float, iterations: int,
    dynamics: Literal["euclidean", "plain"] = "euclidean", batch_size: int | None = None,
    train_amplitudes: bool = True, record_every: int = 1, generator: torch.Generator | None = None,
) -> Trajectory:  # fmt: skip
    """Gradient descent on the weights, with or without batch norm, in full or mini-batches.

    `theta <- theta + rate * velocity`: the learning rate of the parameters themselves is `rate * m`. A step lengthens
    `b_k`: `||b||^2` grows by its square (section 4.3).

    Args:
        net, data, loss: As for `flow`.
        rate: Step in mean-field time.
        iterations: How many.
        dynamics: "euclidean" (batch norm) or "plain".
        batch_size: Draw so many points, without replacement, at each iteration, normalized by themselves; all if None.
        train_amplitudes: If False the `a_k` stay as they are.
        record_every: Record each so many iterations (and the first and last).
        generator: Of the mini-batches.

    Returns:
        The trajectory, with `times = rate * iteration`. Where descent overflows, neurons are NaN and the loss infinite.
    """
    check_choice(dynamics, "dynamics", ("euclidean", "plain"))
    rate = check_positive(rate, "rate")
    check_whole(iterations, "iterations")
    check_whole(record_every, "record_every")
    if batch_size is not None:
        check_whole(batch_size, "batch_size", least=2, most=len(data))
    the_loss = as_loss(loss)
    system = _system(net, data, the_loss, dynamics, unit_length=False, project=False)
    marks = sorted({*range(0, iterations, record_every), iterations})

    def move(state: Tensor) -> Tensor:
        if batch_size is None:
            return system.field(state)
        drawn = torch.randperm(len(data), generator=generator)[:batch_size].to(data.x.device)
        part = data.batch(drawn)
        a, b = state[:, 0], state[:, 1:]
        if dynamics == "plain":
            return torch.column_stack(plain_velocity(a, forces(a, b, part, net.activation, the_loss)))
        n = b / ((b @ part.covariance) * b).sum(1, keepdim=True).sqrt()
        force = forces(a, n, part, net.activation, the_loss)
        return torch.column_stack(euclidean_velocity(a, b, force, part.covariance))

    def path() -> Any:
        state = system.start
        for iteration in range(iterations + 1):
            if iteration in wanted:
                yield state, iteration
            if iteration < iterations and not torch.isnan(state[0, 0]):
                change = move(state)
                if not train_amplitudes:
                    change[:, 0] = 0
                state = state + rate * change
                if not bool((state.abs() < huge).all()):
                    state = torch.full_like(state, torch.nan)

    wanted = set(marks)
    huge = torch.finfo(net.b.dtype).max ** 0.25  # squares of squares still fit
    return _record(path(), system, rate * np.array(marks, dtype=np.float64), dynamics, net, data)


def _record(path: Any, system: _System, times: np.ndarray, dynamics: Dynamics, net: TwoLayer, data: Data) -> Trajectory:
    states, risks, steps = [], [], 0
    for state, steps in path:  # noqa: B007  the last count is the total
        states.append(state)
        risks.append(np.inf if torch.isnan(state[0, 0]) else system.risk(state))
    stack = torch.stack(states)
    covariance = data.covariance.to(net.b)
    return Trajectory(
        dynamics, times, stack[:, :, 0], stack[:, :, 1:], np.array(risks), steps, net.activation, covariance
    )
