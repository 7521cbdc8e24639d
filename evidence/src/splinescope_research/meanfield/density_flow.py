r"""The mean-field limit in two dimensions: the continuity equation for the density of neurons, on a grid.

With `phi` the angle of a neuron of length 1 the manifold is the unit circle, and

.. math:: \partial_t\rho = \partial_\phi(\rho\, a\, h'(\phi)) + \partial_a(\rho\, h(\phi)),
          \qquad h(\phi) = E[l'\,\sigma(n(\phi)\cdot x)].

Finite volumes: mass moves through cell faces only, so it is conserved to rounding; van Leer's limiter keeps
the density non-negative and the scheme of second order where it is smooth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from splinescope.meanfield.data import Data
from splinescope.meanfield.functions import ActivationLike, LossLike, as_activation, as_loss, check_labels
from splinescope.meanfield.manifold import Manifold
from splinescope.support.checks import as_float64_array, check_positive
from splinescope.support.display import Result
from splinescope.support.errors import InputError

from ..drawings import plot_density

_CFL = 0.4  # largest fraction of a cell crossed in one step: up to 0.5 the density stays non-negative


@dataclass(frozen=True, repr=False)
class DensityPath(Result):
    """The density of neurons over time.

    Attributes:
        times: Shape (T,).
        angles: Cell centers, shape (P,), of `phi` in [0, 2 pi).
        amplitudes: Cell centers, shape (Q,), of `a` in [-reach, reach].
        values: Density, shape (T, P, Q); its sum times the cell area is 1.
        outputs: `f(x)` at the data, shape (T, N).
        risks: Shape (T,).
        edge_mass: Largest mass ever found in the outermost cells in `a`: if it is not tiny, `reach` is too small.
    """

    times: np.ndarray
    angles: np.ndarray
    amplitudes: np.ndarray
    values: np.ndarray
    outputs: np.ndarray
    risks: np.ndarray
    edge_mass: float
    certainty = "estimate"
    plot = plot_density

    @property
    def cell_area(self) -> float:
        return float((self.angles[1] - self.angles[0]) * (self.amplitudes[1] - self.amplitudes[0]))

    def mean(self, function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """`int function(phi, a) drho_t`, shape (T,), by the midpoint rule."""
        grid = function(self.angles[:, None], self.amplitudes[None, :])
        return np.asarray((self.values * grid).sum(axis=(1, 2)) * self.cell_area)


def density_flow(
    data: Data,
    initial: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    activation: ActivationLike = "tanh",
    loss: LossLike = "squared",
    times: Any,
    angles: int = 128,
    amplitudes: int = 96,
    reach: float = 3.0,
) -> DensityPath:
    """Solve the mean-field equation for infinitely many neurons of length 1 on the circle times [-reach, reach].

    Args:
        data: Two-dimensional, of any precision and device; computed in float64 on the CPU.
        initial: `(phi, a) -> density`, broadcast over arrays (P, 1) and (1, Q); scaled to mass 1.
        activation, loss: As for `flow`.
        times: Increasing, in mean-field time, starting with that of `initial`.
        angles, amplitudes: Cells in each direction.
        reach: Half-width of the window in `a`; no mass passes its ends.

    Returns:
        The path. Error O(cell^2) for smooth densities; a step costs O(P Q + P N).
    """
    if data.dimension != 2:
        raise InputError(f"data must be two-dimensional for a density on the circle, got d = {data.dimension}.")
    moments = as_float64_array(times, "times")
    if moments.ndim != 1 or len(moments) < 2 or bool((np.diff(moments) <= 0).any()):
        raise InputError(f"times must be at least two increasing numbers, got shape {moments.shape}.")
    x, y, weights, sigma = (t.to("cpu", torch.float64) for t in (data.x, data.y, data.weights, data.covariance))
    data = Data(x, y, weights, sigma)
    grid = _Grid(data, as_activation(activation), angles, amplitudes, check_positive(reach, "reach"))
    rho = torch.as_tensor(initial(grid.phi.numpy()[:, None], grid.a.numpy()[None, :])).double()
    try:
        rho = rho.expand(angles, amplitudes).clone()
    except RuntimeError as error:
        shape = f"({angles}, {amplitudes})"
        raise InputError(f"initial must give an array that broadcasts to {shape}, got {tuple(rho.shape)}.") from error
    if bool((rho < 0).any()) or not bool(rho.sum() > 0):
        raise InputError("initial must be non-negative with positive mass on the grid.")
    rho /= rho.sum() * grid.d_phi * grid.d_a

    the_loss = as_loss(loss)
    check_labels(the_loss, data.y)
    edge = 0.0
    states = [rho]
    time = moments[0]
    for goal in moments[1:]:
        while time < goal:
            turn, drift = grid.velocities(rho, the_loss.slope)
            rate = turn.abs().max() / grid.d_phi + drift.abs().max() / grid.d_a
            step = min(_CFL / max(rate.item(), 1e-12), goal - time)
            half = rho + step * grid.divergence(rho, turn, drift)
            change = grid.divergence(half, *grid.velocities(half, the_loss.slope))
            rho = (rho + half + step * change) / 2  # Heun: convex combinations of Euler steps stay non-negative
            time = goal if step == goal - time else time + step
            edge = max(edge, (rho[:, 0].sum() + rho[:, -1].sum()).item() * grid.d_phi * grid.d_a)
        states.append(rho)
    f = torch.stack([grid.output(state) for state in states])
    risks = np.array([(data.weights @ the_loss.value(row, data.y)).item() for row in f])
    values = torch.stack(states).numpy()
    return DensityPath(moments, grid.phi.numpy(), grid.a.numpy(), values, f.numpy(), risks, edge)


class _Grid:
    """Cells, and the tables `sigma(n(phi) . x)` at centers and its `phi`-derivative at faces."""

    def __init__(self, data: Data, activation: Any, angles: int, amplitudes: int, reach: float) -> None:
        if angles < 8 or amplitudes < 8:
            raise InputError(f"angles and amplitudes must be at least 8 cells, got {angles} and {amplitudes}.")
        self.data = data
        self.d_phi, self.d_a = 2 * np.pi / angles, 2 * reach / amplitudes
        self.phi = (torch.arange(angles, dtype=torch.float64) + 0.5) * self.d_phi
        self.a = (torch.arange(amplitudes, dtype=torch.float64) + 0.5) * self.d_a - reach
        manifold, x = Manifold(data.covariance), data.x
        self.table = activation.value(manifold.normalize(_circle(self.phi)) @ x.T)
        faces = self.phi + self.d_phi / 2
        slope = activation.evaluate(manifold.normalize(_circle(faces)) @ x.T)()
        turn = manifold.differential(_circle(faces), _circle(faces + np.pi / 2))
        self.face_table = slope * (turn @ x.T)

    def output(self, rho: Tensor) -> Tensor:
        """`f(x) = int a sigma(n(phi) . x) drho`, shape (N,)."""
        return (rho @ self.a * self.d_phi * self.d_a) @ self.table

    def velocities(self, rho: Tensor, slope: Callable[[Tensor, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """`-a h'(phi)` at the faces after each cell in phi, shape (P, Q); `-h(phi)` per cell in phi, shape (P, 1)."""
        pull = self.data.weights * slope(self.output(rho), self.data.y)
        return -(self.face_table @ pull)[:, None] * self.a, -(self.table @ pull)[:, None]

    def divergence(self, rho: Tensor, turn: Tensor, drift: Tensor) -> Tensor:
        """Rate of change of the density from fluxes through the faces."""
        rise = _limited(rho - rho.roll(1, 0), rho.roll(-1, 0) - rho)
        after = rho.roll(-1, 0)
        flux = turn.clamp_min(0) * (rho + rise / 2) + turn.clamp_max(0) * (after - rise.roll(-1, 0) / 2)
        change = -(flux - flux.roll(1, 0)) / self.d_phi
        step = rho[:, 1:] - rho[:, :-1]
        zero = torch.zeros_like(rho[:, :1])
        rise = torch.cat([zero, _limited(step[:, :-1], step[:, 1:]), zero], dim=1)
        inner = drift.clamp_min(0) * (rho + rise / 2)[:, :-1] + drift.clamp_max(0) * (rho - rise / 2)[:, 1:]
        flux = torch.cat([zero, inner, zero], dim=1)
        return change - (flux[:, 1:] - flux[:, :-1]) / self.d_a


def _circle(phi: Tensor) -> Tensor:
    return torch.stack([phi.cos(), phi.sin()], dim=1)


def _limited(back: Tensor, ahead: Tensor) -> Tensor:
    """Van Leer's limited slope: the harmonic mean of the two differences, zero at extrema."""
    product = back * ahead
    return torch.where(product > 0, 2 * product / (back + ahead + (product <= 0)), torch.zeros_like(product))
