"""Theorem 3: the particles solve the continuity equation weakly; its solution on a grid agrees with them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.integrate import simpson
from torch import Tensor

from splinescope.meanfield import GaussianInputs, TwoLayerBN, flow
from splinescope.meanfield.flow import Trajectory, vector_field
from splinescope.meanfield.functions import as_loss
from splinescope.meanfield.velocity import outputs
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.meanfield import EXACT
from splinescope_research import density_flow

TESTS = {
    "a^2 (1 + b1^2)": lambda a, b: a**2 * (1 + b[:, 0] ** 2),
    "a b1": lambda a, b: a * b[:, 0],
    "sin(a) b2": lambda a, b: a.sin() * b[:, 1],
    "exp(-a^2) b1 b2": lambda a, b: (-(a**2)).exp() * b[:, 0] * b[:, 1],
}
"""Test functions on R x Omega."""


def quantiles(values: np.ndarray, cumulative: np.ndarray, count: int) -> Tensor:
    return torch.from_numpy(np.interp((np.arange(count) + 0.5) / count, cumulative, values))


def smooth(phi: np.ndarray, a: np.ndarray) -> np.ndarray:
    """A density with known quantiles: (1 + cos(pi a)) (1 + cos(phi) / 2) on |a| < 1."""
    return np.asarray((np.abs(a) < 1) * (1 + np.cos(np.pi * a)) * (1 + 0.5 * np.cos(phi)))


def particles(angles: int, amplitudes: int) -> TwoLayerBN:
    """Neurons at products of quantiles of `smooth`."""
    phi, a = np.linspace(0, 2 * np.pi, 20_001), np.linspace(-1, 1, 20_001)
    grid = torch.meshgrid(
        quantiles(phi, (phi + 0.5 * np.sin(phi)) / (2 * np.pi), angles),
        quantiles(a, (a + 1 + np.sin(np.pi * a) / np.pi) / 2, amplitudes),
        indexing="ij",
    )
    angle, amplitude = (t.flatten() for t in grid)
    return TwoLayerBN(amplitude, torch.stack([angle.cos(), angle.sin()], 1), "tanh")


def weak_residual(run: Trajectory, velocities: Tensor, test: Any) -> float:
    """`|int test drho_T - int test drho_0 - int_0^T int d test (velocity) drho dt|`, relative to the
    change.
    """
    values, rates = [], []
    for a, b, v in zip(run.a, run.b, velocities, strict=True):
        a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
        value = test(a, b).mean()
        da, db = torch.autograd.grad(value, [a, b])
        values.append(value.item())
        rates.append(((da * v[:, 0]).sum() + (db * v[:, 1:]).sum()).item())
    change = values[-1] - values[0]
    return abs(change - float(simpson(rates, x=run.times))) / (abs(change) + 1e-3)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    sigma = torch.diag(torch.tensor([2.0, 1.0], dtype=torch.float64))
    data = GaussianInputs(sigma).quadrature(lambda x: torch.sin(x[:, 0]) + 0.06 * x[:, 1] ** 3, order=10)
    net = particles(96, 24) if size == "quick" else particles(192, 48)
    if progress:
        progress(0.0, "particles")
    path = flow(net, data, times=np.linspace(0, 3, 61), rtol=1e-8)
    field = vector_field(net, data, as_loss("squared"), "manifold")
    velocities = torch.stack([field(torch.column_stack([a, b])) for a, b in zip(path.a, path.b, strict=True)])
    residuals = {name: weak_residual(path, velocities, test) for name, test in TESTS.items()}

    cells = [24, 48, 96] if size == "quick" else [24, 48, 96, 192, 384]
    f = outputs(path.a[-1], path.b[-1], data, net.activation).numpy()
    gaps, grids = [], []
    for number, count in enumerate(cells):
        if progress:
            progress(0.5 + number / (2 * len(cells)), f"density on {count} x {count} cells")
        grids.append(density_flow(data, smooth, times=[0, 3], angles=count, amplitudes=count))
        gaps.append(float(np.abs(grids[-1].outputs[-1] - f).max()))
    mass = max(float(np.abs(g.values.sum(axis=(1, 2)) * g.cell_area - 1).max()) for g in grids)
    changes = [float(np.abs(fine.outputs[-1] - rough.outputs[-1]).max()) for rough, fine in itertools.pairwise(grids)]
    order = float(np.log2(changes[-2] / changes[-1]))
    worst = max(residuals.values())
    coarse = grids[1]
    numbers = {
        "residuals": residuals,
        "cells": cells,
        "gaps": gaps,
        "changes": changes,
        "mass_error": mass,
        "density": coarse.values[-1].round(5).tolist(),
        "angles": coarse.angles.tolist(),
        "amplitudes": coarse.amplitudes.tolist(),
        "particle_angles": torch.atan2(path.b[-1, ::7, 1], path.b[-1, ::7, 0]).remainder(2 * torch.pi).tolist(),
        "particle_amplitudes": path.a[-1, ::7].tolist(),
    }
    return Outcome(
        numbers,
        (
            judged(
                "The empirical measure of the neurons solves the mean-field equation in the weak sense (Theorem 3; in "
                "mean-field time, that is m times the time of the parameters).",
                f"largest residual {worst:.1e} over {len(TESTS)} test functions, relative; one start of {net.width} "
                "neurons and one target",
                holds=[Check("largest residual", worst, "<", 1e-5, "the error of Simpson's rule over 60 intervals")],
            ),
            judged(
                "The equation for the density itself (Theorem 3), solved on a grid, gives the same network.",
                f"the same start: largest output difference to the particles {gaps[0]:.1e} to {gaps[-1]:.1e} for "
                f"{cells[0]} to {cells[-1]} cells; order of the grid {order:.1f}; mass kept to {mass:.1e}",
                holds=[
                    Check("difference on the finest grid", gaps[-1], "<", 2e-3, "the quantile error of the particles"),
                    Check("difference, finest over coarsest grid", gaps[-1] / gaps[0], "<", 1.0, "it must converge"),
                    Check("order of the grid", order, ">", 1.3, "second order with a limiter, less at extrema"),
                    Check("mass lost", mass, "<", 1e-12, EXACT),
                ],
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Figure:
    figure, (left, right) = subplots(2)
    half = (numbers["amplitudes"][1] - numbers["amplitudes"][0]) / 2
    extent = (0.0, 360.0, numbers["amplitudes"][0] - half, numbers["amplitudes"][-1] + half)
    image = left.imshow(np.array(numbers["density"]).T, origin="lower", extent=extent, aspect="auto")
    left.plot(np.degrees(numbers["particle_angles"]), numbers["particle_amplitudes"], ".", ms=2, color="#D55E00")
    figure.colorbar(image, ax=left, label="density (grid)")
    left.set(xlabel="angle, degrees", ylabel="amplitude a", title="grid and particles at t = 3", ylim=(-2, 2))
    right.loglog(numbers["cells"], numbers["gaps"], "o-", color="#0072B2", label="grid to particles")
    right.loglog(numbers["cells"][1:], numbers["changes"], "s--", color="#D55E00", label="grid to half as fine")
    right.legend(frameon=False)
    right.set_xticks(numbers["cells"], [str(c) for c in numbers["cells"]])
    right.minorticks_off()
    right.set(xlabel="cells per direction", ylabel="largest output difference", title="convergence of the grid")
    return figure


EXPERIMENT = Experiment("Theorem 3: neurons as a flowing density", run, draw, place="Theorem 3")
