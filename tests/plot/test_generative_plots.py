"""Drawings of generators: axes are labeled, bad input is refused."""

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from torch import nn

import splinescope as ss
from splinescope.generative import tiled_manifold
from splinescope.generative.exact import TiledManifold
from splinescope.plot.generative import image_grid, plot_manifold

VIEW = ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)


def manifold_of(outputs: int) -> TiledManifold:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, outputs)).double()
    return tiled_manifold(ss.tessellate(net, VIEW))


@pytest.mark.parametrize("outputs", [3, 5])
def test_a_manifold_is_a_facet_per_tile(outputs: int) -> None:
    manifold = manifold_of(outputs)
    ax = plot_manifold(manifold)
    ax.figure.canvas.draw()
    assert len(ax.collections[0].get_paths()) == manifold.tiling.count
    assert ax.get_zlabel() == "$x_3$"  # type: ignore[attr-defined]


def test_a_plane_of_two_outputs_is_no_surface_in_space() -> None:
    with pytest.raises(ss.InputError, match="at least 3 outputs"):
        plot_manifold(manifold_of(2))
    with pytest.raises(ss.InputError, match="3-D axes"):
        plot_manifold(manifold_of(3), pyplot.subplots()[1])


def test_an_image_grid_places_images_row_by_row() -> None:
    images = np.arange(3)[:, None, None] * np.ones((3, 2, 2)) / 2
    grid = image_grid(images, columns=2)
    assert grid.shape == (5, 5)
    assert (grid[:2, :2] == 0).all()
    assert (grid[:2, 3:] == 0.5).all()
    assert (grid[3:, :2] == 1).all()
    assert image_grid(np.zeros((4, 3, 6, 6))).shape == (13, 13, 3)
    assert image_grid(torch.zeros(4, 1, 6, 6)).shape == (13, 13)
    assert image_grid(np.zeros((1, 49))).shape == (7, 7)
    assert image_grid(np.array([[[-1.0, 1.0]]])).tolist() == [[0.0, 1.0]]
    for bad in (np.zeros((2, 50)), np.zeros((2, 4, 6, 6)), np.zeros((0, 6, 6))):
        with pytest.raises(ss.InputError, match="images must"):
            image_grid(bad)
