"""What the metric does to training (section 4): speed by direction and length, first step, learning rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from splinescope.meanfield.data import Data
from splinescope.meanfield.flow import descend
from splinescope.meanfield.functions import LossLike, as_loss
from splinescope.meanfield.manifold import Manifold
from splinescope.meanfield.networks import TwoLayer, TwoLayerBN, check_pair
from splinescope.meanfield.velocity import Forces, euclidean_velocity
from splinescope.support.checks import as_float64_array, check_positive
from splinescope.support.display import Result
from splinescope.support.errors import InputError

from ..drawings import plot_first_step, plot_learning_rates, plot_speed_by_direction
from .optimality import field_at


@dataclass(frozen=True, repr=False)
class SpeedByDirection(Result):
    """Angular speed of a neuron of length 1 and amplitude 1 against its angle, for one state of training.

    Attributes:
        angles: Shape (K,), in [0, 2 pi).
        batch_norm: Angular speed with batch norm, shape (K,).
        plain: The same without: the component of the velocity across the neuron.
        axis: Angle of the direction in which the data varies least.
    """

    angles: np.ndarray
    batch_norm: np.ndarray
    plain: np.ndarray
    axis: float
    certainty = "exact"
    plot = plot_speed_by_direction

    def anisotropy(self) -> tuple[float, float]:
        """(batch norm, plain): mean speed within 25 degrees of the low-variance axis over that of the other axis."""
        within = np.radians(25)
        off = np.abs(np.angle(np.exp(2j * (self.angles - self.axis)))) / 2
        low, high = off < within, off > np.pi / 2 - within
        return tuple(float(s[low].mean() / s[high].mean()) for s in (self.batch_norm, self.plain))  # type: ignore[return-value]


def speed_by_direction(data: Data, *, angles: int = 360) -> SpeedByDirection:
    """How fast a ReLU neuron of the plane turns, with and without batch norm, where both networks give zero.

    That is the start of training with amplitudes that cancel, by the squared error.

    Reference: section 4.1, where the claim is that batch norm is faster where `E (b . x)^2` is small.
    """
    if data.dimension != 2:
        raise InputError(f"data must be two-dimensional, got d = {data.dimension}.")
    phi = torch.arange(angles, dtype=torch.float64) * (2 * torch.pi / angles)
    u = torch.stack([phi.cos(), phi.sin()], dim=1).to(data.x)
    net = TwoLayerBN(torch.ones(angles), u)
    pull = -data.y  # the slope of half the square
    h, g = field_at(Manifold(data.covariance).normalize(u), pull, data, net.activation)
    turning = euclidean_velocity(net.a, u, Forces(h, g, 0.0), data.covariance)[1]
    _, g_plain = field_at(u, pull, data, net.activation)
    across = g_plain - u * (u * g_plain).sum(1, keepdim=True)
    least = torch.linalg.eigh(data.covariance)[1][:, 0]
    axis = torch.atan2(least[1], least[0]).item()
    return SpeedByDirection(phi.numpy(), turning.norm(dim=1).numpy(), across.norm(dim=1).numpy(), axis)


@dataclass(frozen=True, repr=False)
class SpeedByLength(Result):
    """Speeds of neurons lengthened by `factors`, relative to the unchanged neuron.

    Attributes:
        factors: `c`, shape (C,).
        batch_norm: Ratio of speeds `||b'||`, shape (C, m): `1/c` exactly, whatever the activation.
        plain: The same without batch norm: 1 if `sigma'(c z) = sigma'(z)` (ReLU), otherwise not.

    Angular speeds carry another `1/c`: `1/c^2` with batch norm, `1/c` without.
    """

    factors: np.ndarray
    batch_norm: np.ndarray
    plain: np.ndarray
    certainty = "exact"


def speed_by_length(net: TwoLayerBN, data: Data, *, factors: ArrayLike, loss: LossLike = "squared") -> SpeedByLength:
    """The 1/c law (section 4.2): the velocity of each neuron when it alone is lengthened by c."""
    scales = np.atleast_1d(as_float64_array(factors, "factors"))
    check_pair(net, data)
    manifold = Manifold(data.covariance)
    twin = net.twin(manifold.covariance)
    pull = as_loss(loss).slope(twin(data.x), data.y)
    force = Forces(*field_at(twin.b, pull, data, net.activation), 0.0)
    pull_plain = as_loss(loss).slope(TwoLayer(net.a, net.b, net.activation)(data.x), data.y)

    def speeds(c: float) -> tuple[Tensor, Tensor]:
        with_bn = euclidean_velocity(net.a, c * net.b, force, manifold.covariance)[1]
        _, g = field_at(c * net.b, pull_plain, data, net.activation)
        return with_bn.norm(dim=1), (net.a[:, None] * g).norm(dim=1)

    base = speeds(1.0)
    rows = [speeds(float(check_positive(c, "factors"))) for c in scales]
    batch_norm, plain = (torch.stack([row[i] / base[i] for row in rows]).numpy() for i in (0, 1))
    return SpeedByLength(scales, batch_norm, plain)


@dataclass(frozen=True, repr=False)
class FirstStep(Result):
    """Lengths before and after one step of gradient descent.

    Attributes:
        before: Starting lengths, shape (C,).
        after: Shape (C, m).
        push: Gradient norm of each neuron at unit length times the rate, shape (m,).
    """

    before: np.ndarray
    after: np.ndarray
    push: np.ndarray
    certainty = "exact"
    plot = plot_first_step

    @property
    def predicted(self) -> np.ndarray:
        """`sqrt(n0^2 + (push / n0)^2)` by Pythagoras, shape (C, m); never below `sqrt(2 push)`."""
        return np.asarray(np.hypot(self.before[:, None], self.push[None, :] / self.before[:, None]))


def first_step(net: TwoLayerBN, data: Data, *, lengths: ArrayLike, rate: float) -> FirstStep:
    """One step from neurons of each of `lengths` (section 4.3): shorter than `sqrt(push)` means longer afterwards."""
    before = np.atleast_1d(as_float64_array(lengths, "lengths"))
    unit = net.b / net.lengths[:, None]

    def step(length: float) -> Tensor:
        start = TwoLayerBN(net.a, length * unit, net.activation)
        return descend(start, data, rate=rate, iterations=1).b[1]

    push = (step(1.0) - unit).norm(dim=1).numpy()
    after = np.stack([step(float(check_positive(n, "lengths"))).norm(dim=1).numpy() for n in before])
    return FirstStep(before, after, push)


@dataclass(frozen=True, repr=False)
class LearningRateStudy(Result):
    """Final losses of gradient descent against the learning rate.

    Attributes:
        rates: Shape (R,), increasing.
        batch_norm: Loss at the end, shape (R,); infinite where descent diverged.
        plain: The same without batch norm, from the same function.
        start: Loss at the beginning.
    """

    rates: np.ndarray
    batch_norm: np.ndarray
    plain: np.ndarray
    start: float
    certainty = "exact"
    plot = plot_learning_rates

    def workable_decades(self) -> tuple[float, float]:
        """(batch norm, plain): decades of learning rate that end below the starting loss.

        An estimate for rates evenly spaced on a logarithmic scale: each counts for one spacing.
        """
        per_rate = np.log10(self.rates[-1] / self.rates[0]) / (len(self.rates) - 1)
        return tuple(  # type: ignore[return-value]
            float((risks < self.start).sum() * per_rate) for risks in (self.batch_norm, self.plain)
        )


def learning_rate_study(
    net: TwoLayerBN, data: Data, *, rates: ArrayLike, iterations: int, train_amplitudes: bool = True
) -> LearningRateStudy:
    """Gradient descent at each rate, on `net` and on its plain twin: the same function at the start.

    Batch norm tames the step of the inner weights only; the amplitudes bound the rates of both networks alike
    (`rate < 2 / curvature`), unless `train_amplitudes` is False.
    """
    steps = np.atleast_1d(as_float64_array(rates, "rates"))
    if steps.ndim > 1 or len(steps) < 2 or bool((np.diff(steps) <= 0).any()):
        raise InputError(f"rates must be at least two increasing numbers, got {steps.tolist()}.")
    check_pair(net, data)
    twin = net.twin(data.covariance)
    ends: dict[str, list[float]] = {"euclidean": [], "plain": []}
    start = 0.0
    for rate in steps:
        for dynamics, begin in (("euclidean", net), ("plain", twin)):
            run = descend(
                begin, data, rate=float(rate), iterations=iterations, dynamics=dynamics,  # type: ignore[arg-type]
                train_amplitudes=train_amplitudes, record_every=iterations,
            )  # fmt: skip
            start = float(run.risks[0])
            ends[dynamics].append(float(run.risks[-1]))
    return LearningRateStudy(steps, np.array(ends["euclidean"]), np.array(ends["plain"]), start)
