"""Drawings take a result and an Axes, return the Axes, and label what they show."""

import pytest
import torch

from splinescope.representation import random_network, representation_geometry

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402

from splinescope.plot import representation as plots  # noqa: E402


@pytest.fixture(scope="module")
def geometry():  # type: ignore[no-untyped-def]
    generator = torch.Generator().manual_seed(0)
    network = random_network(4, 12, in_features=5, components=("rc", "nl"), generator=generator)
    return representation_geometry(network, torch.randn(9, 5, generator=generator))


def test_every_drawing_is_labelled_and_on_the_given_axes(geometry) -> None:  # type: ignore[no-untyped-def]
    drawings = [
        lambda ax: plots.plot_depth(geometry, "rank", ax),
        lambda ax: plots.plot_depth(geometry, lambda layer: layer.norms.max(), ax),
        lambda ax: plots.plot_angle_histogram(geometry[-1], ax),
        lambda ax: plots.plot_projection(geometry[-1], ax),
    ]
    for draw in drawings:
        figure, ax = plt.subplots()
        assert draw(ax) is ax
        assert ax.get_xlabel()
        figure.canvas.draw()
        plt.close(figure)
