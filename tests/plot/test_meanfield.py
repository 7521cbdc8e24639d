"""Drawings say what they show; films have one frame per recorded time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

matplotlib = pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402
from PIL import Image  # noqa: E402

from splinescope import InputError  # noqa: E402
from splinescope.meanfield import Data, TwoLayerBN, density_flow, descend, flow  # noqa: E402
from splinescope.meanfield.convergence import ConvergenceStudy  # noqa: E402
from splinescope.meanfield.effects import LearningRateStudy, first_step, speed_by_direction  # noqa: E402
from splinescope.meanfield.flow import Trajectory  # noqa: E402
from splinescope.plot import meanfield as plot  # noqa: E402
from tests.browser import expect, open_page  # noqa: E402


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def data() -> Data:
    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return Data.of(x, torch.relu(x[:, 0]), center="center")


@pytest.fixture(scope="module")
def net() -> TwoLayerBN:
    normal = torch.randn(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return TwoLayerBN(normal[:, 0], normal[:, 1:], "tanh")


@pytest.fixture(scope="module")
def path(net: TwoLayerBN, data: Data) -> Trajectory:
    return flow(net, data, times=[0, 0.5, 1], rtol=1e-3)


def test_every_drawing_labels_its_axes(net: TwoLayerBN, data: Data, path: Trajectory) -> None:
    powers = 1.0 / np.array([[8, 16, 32], [9, 17, 30]])
    rates = np.logspace(-1, 1, 3)
    axes = [
        plot.plot_neurons(path),
        plot.plot_neurons(descend(net, data, rate=0.1, iterations=2), index=1),
        plot.plot_speed_by_direction(speed_by_direction(data, angles=36)),
        plot.plot_first_step(first_step(net, data, lengths=[0.01, 0.1, 1.0], rate=0.1)),
        plot.plot_learning_rates(
            LearningRateStudy(rates, np.array([0.5, 0.1, np.inf]), np.array([0.4, np.inf, np.inf]), 1.0)
        ),
        plot.plot_convergence(ConvergenceStudy(np.array([8, 16, 32]), *[powers] * 4)),
        plot.plot_density(
            density_flow(data, lambda phi, a: np.exp(-(a**2)) + 0 * phi, times=[0, 0.1], angles=8, amplitudes=8)
        ),
    ]
    for ax in axes:
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        ax.figure.canvas.draw()


def test_a_drawing_uses_the_axes_it_is_given(path: Trajectory) -> None:
    ax = pyplot.figure().add_subplot()
    assert plot.plot_neurons(path, ax=ax) is ax


def test_normalised_neurons_lie_on_the_ellipse_drawn(path: Trajectory) -> None:
    ring = plot._ring(path)
    sigma = path.covariance.numpy()
    assert np.allclose(np.einsum("ik,ij,jk->k", ring, sigma, ring), 1)


def test_films_are_written(path: Trajectory, tmp_path: Path) -> None:
    with Image.open(plot.animate_neurons(path, tmp_path / "film.gif")) as film:
        assert film.n_frames == 3
        film.seek(2)
        frame = np.asarray(film.convert("L"))
    edges = np.concatenate([frame[:2].ravel(), frame[-2:].ravel(), frame[:, :2].ravel(), frame[:, -2:].ravel()])
    assert (edges == 255).all()  # no label is cut off
    with open_page(plot.animate_neurons(path, tmp_path / "film.html")) as page:  # asks for nothing outside
        picture = page.locator("img")
        page.wait_for_function("() => document.querySelector('img').naturalWidth > 100")
        page.get_by_role("button", name="Last frame").click()
        last = picture.get_attribute("src")
        page.get_by_role("button", name="First frame").click()
        expect(picture).not_to_have_attribute("src", last)


def test_bad_drawings_are_refused(path: Trajectory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.gif or \.html"):
        plot.animate_neurons(path, tmp_path / "film.mp4")
    three = TwoLayerBN([1.0], [[1.0, 0.0, 0.0]], "tanh")
    x = torch.randn(9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    run = descend(three, Data.of(x, x[:, 0], center="center"), rate=0.1, iterations=1)
    with pytest.raises(InputError, match="two-dimensional"):
        plot.plot_neurons(run)
