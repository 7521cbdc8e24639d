"""Drawings of the mean field part: neurons on the circle or ellipse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..meanfield.flow import Trajectory
from ..support.errors import InputError
from ._axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCH_NORM, PLAIN = "#0072B2", "#D55E00"
"""Blue and vermilion of the Okabe-Ito palette: told apart by every reader."""


def _ring(trajectory: Trajectory) -> np.ndarray:
    """The curve the neurons live on, shape (2, 400): `Omega`, or the unit circle for unnormalized neurons."""
    angle = np.linspace(0, 2 * np.pi, 400)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    if trajectory.dynamics in ("euclidean", "plain"):
        return circle
    sigma = trajectory.covariance.cpu().numpy()
    return np.asarray(circle / np.sqrt(np.einsum("ik,ij,jk->k", circle, sigma, circle)))


def plot_neurons(trajectory: Trajectory, *, index: int = -1, ax: Axes | None = None) -> Axes:
    """Neurons of a two-dimensional network at one recorded time, colored by amplitude, with their paths so far.

    Batch-norm weights keep their length, so each stays on its own circle; normalized neurons stay on the
    ellipse `b^T Sigma b = 1`.
    """
    if trajectory.b.shape[2] != 2:
        raise InputError(f"neurons must be two-dimensional to be drawn, got d = {trajectory.b.shape[2]}.")
    points, a = trajectory.b.cpu().numpy(), trajectory.a.cpu().numpy()
    ax = new_axes(ax)
    ax.plot(*_ring(trajectory), color="0.8", lw=1, zorder=0)
    last = index % len(points)
    ax.plot(points[: last + 1, :, 0], points[: last + 1, :, 1], color="0.6", lw=0.6, zorder=1)
    (x, y), reach = points[last].T, float(np.abs(a).max()) or 1.0
    dots = ax.scatter(x, y, c=a[last], cmap="PuOr", vmin=-reach, vmax=reach, s=24, lw=0.4, ec="0.2")
    ax.figure.colorbar(dots, ax=ax, label="amplitude a", shrink=0.8)
    ax.set(aspect="equal", xlabel="$b_1$", ylabel="$b_2$")
    ax.locator_params(axis="x", nbins=3)
    ax.set_title(f"t = {trajectory.times[last]:.3g}, loss {trajectory.risks[last]:.3g}", fontsize="medium")
    return ax
