"""The continuity equation on a grid against particles, and its own invariants."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.meanfield.problems import problem

from splinescope import InputError
from splinescope.meanfield import Data, GaussianInputs, TwoLayerBN, flow
from splinescope.meanfield.flow import Trajectory
from splinescope.meanfield.velocity import outputs
from splinescope_research import density_flow
from splinescope_research.meanfield.density_flow import DensityPath


def smooth(phi: np.ndarray, a: np.ndarray) -> np.ndarray:
    """(1 + cos(pi a)) (1 + cos(phi) / 2) on |a| < 1: its quantiles are known."""
    return (np.abs(a) < 1) * (1 + np.cos(np.pi * a)) * (1 + 0.5 * np.cos(phi))


def quantiles(cdf: np.ndarray, grid: np.ndarray, count: int) -> torch.Tensor:
    return torch.from_numpy(np.interp((np.arange(count) + 0.5) / count, cdf, grid))


@pytest.fixture(scope="module")
def data() -> Data:
    sigma = torch.diag(torch.tensor([2.0, 1.0], dtype=torch.float64))
    return GaussianInputs(sigma).quadrature(lambda x: torch.sin(x[:, 0]) + 0.06 * x[:, 1] ** 3, order=8)


@pytest.fixture(scope="module")
def particles(data: Data) -> Trajectory:
    """A product of quantiles of `smooth`: 96 angles times 24 amplitudes."""
    phi, a = np.linspace(0, 2 * np.pi, 20_001), np.linspace(-1, 1, 20_001)
    angle = quantiles((phi + 0.5 * np.sin(phi)) / (2 * np.pi), phi, 96)
    amplitude = quantiles((a + 1 + np.sin(np.pi * a) / np.pi) / 2, a, 24)
    angle, amplitude = (t.flatten() for t in torch.meshgrid(angle, amplitude, indexing="ij"))
    net = TwoLayerBN(amplitude, torch.stack([angle.cos(), angle.sin()], 1), "tanh")
    return flow(net, data, times=[0, 1, 3], rtol=1e-6)


@pytest.fixture(scope="module")
def path(data: Data) -> DensityPath:
    return density_flow(data, smooth, times=[0, 1, 3], angles=96, amplitudes=96)


def test_density_agrees_with_particles(data: Data, particles: Trajectory, path: DensityPath) -> None:
    """Both are within 1e-3 of the limit: 1/96^2 cells and 1/24^2 quantiles."""
    assert np.allclose(path.risks, particles.risks, atol=1e-3)
    assert path.risks[0] - path.risks[-1] > 0.1
    f = outputs(particles.a[-1], particles.b[-1], data, particles.activation)
    assert np.abs(path.outputs[-1] - f.numpy()).max() < 5e-3
    angle = torch.atan2(particles.b[..., 1], particles.b[..., 0])
    for ours, theirs in (
        (path.mean(lambda phi, a: a**2 + 0 * phi), particles.a.square()),
        (path.mean(lambda phi, a: a * np.cos(phi)), particles.a * angle.cos()),
        (path.mean(lambda phi, a: np.cos(2 * phi) + 0 * a), (2 * angle).cos()),
    ):
        assert np.allclose(ours, theirs.mean(1).numpy(), atol=5e-3)


def test_density_keeps_its_mass_and_sign(path: DensityPath) -> None:
    assert np.allclose(path.values.sum(axis=(1, 2)) * path.cell_area, 1, rtol=1e-12)
    assert path.values.min() > -1e-12
    assert path.edge_mass < 1e-12


def test_density_converges_with_second_order(data: Data) -> None:
    """Halving the cells cuts the change by about 4 (limiters cost a little at extrema)."""
    runs = [density_flow(data, smooth, times=[0, 1], angles=n, amplitudes=n).outputs[-1] for n in (32, 64, 128)]
    ratio = np.abs(runs[0] - runs[1]).max() / np.abs(runs[1] - runs[2]).max()
    assert 3 < ratio < 8


def test_a_narrow_window_shows_in_the_edge_mass(data: Data) -> None:
    assert density_flow(data, smooth, times=[0, 3], angles=32, amplitudes=32, reach=1.0).edge_mass > 1e-3


def test_bad_densities_are_refused(data: Data) -> None:
    with pytest.raises(InputError, match="two-dimensional"):
        density_flow(problem(0, d=3)[1], smooth, times=[0, 1])
    with pytest.raises(InputError, match="non-negative"):
        density_flow(data, lambda phi, a: a + 0 * phi, times=[0, 1])
    with pytest.raises(InputError, match="at least 8"):
        density_flow(data, smooth, times=[0, 1], angles=4)
    with pytest.raises(InputError, match=r"broadcasts to \(16, 8\)"):
        density_flow(data, lambda phi, a: np.ones(3), times=[0, 1], angles=16, amplitudes=8)
    with pytest.raises(InputError, match="labels -1 and"):
        density_flow(Data.of(data.x, (data.y > 0).double()), smooth, loss="logistic", times=[0, 1])


def test_the_drawing_labels_its_axes(path: DensityPath) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    ax = path.plot(index=1)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("angle of the neuron, degrees", "amplitude a")
    ax.figure.canvas.draw()
