"""Drawings take a result and an Axes, return the Axes, and label what they show."""

import itertools

import numpy as np
import pytest
import torch

from splinescope import InputError
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
        lambda ax: plots.plot_angles(geometry[0], geometry[-1], ax, kernel=True),
        lambda ax: plots.plot_angle_histogram(geometry[-1], ax),
        lambda ax: plots.plot_projection(geometry[-1], ax),
        lambda ax: plots.plot_activity(geometry[-1], ax),
        lambda ax: plots.plot_tree(np.arange(5.0) ** 2, 3, ax),
    ]
    for draw in drawings:
        figure, ax = plt.subplots()
        assert draw(ax) is ax
        assert ax.get_xlabel()
        figure.canvas.draw()
        plt.close(figure)


def test_tree_shows_every_row_of_every_layer() -> None:
    ax = plots.plot_tree([0.0, 1.0, 5.0, 6.0], 2)
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["1⁴", "2·1²", "2·1²", "2²", "2·1²", "2²", "2·1²"]
    plt.close(ax.figure)


def test_nodes_of_a_tree_do_not_overlap() -> None:
    ax = plots.plot_tree(np.random.default_rng(0).standard_normal(20), 5)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    legend = ax.get_legend()
    assert legend is not None
    boxes.append(legend.get_window_extent())
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    plt.close(ax.figure)


def test_angles_of_points_at_the_origin_are_left_out() -> None:
    x = torch.eye(4)
    x[0] = 0.0
    layer = representation_geometry(torch.nn.Linear(4, 3), x, method="hooks")[0]
    ax = plots.plot_angles(layer, layer)
    assert np.isfinite(ax.get_xlim()).all()
    plt.close(ax.figure)


def test_deep_trees_are_refused() -> None:
    with pytest.raises(InputError, match=r"0\.\.5"):
        plots.plot_tree([0.0, 1.0], 6)
