"""Drawings of neurons say what they show."""

import numpy as np
import pytest
import torch

from splinescope import InputError
from splinescope.meanfield import Data, TwoLayerBN, descend, flow
from splinescope.meanfield.flow import Trajectory
from splinescope.plot import meanfield as plot


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


def test_normalized_neurons_lie_on_the_ellipse_drawn(path: Trajectory) -> None:
    ring = plot._ring(path)
    sigma = path.covariance.numpy()
    assert np.allclose(np.einsum("ik,ij,jk->k", ring, sigma, ring), 1)


def test_neurons_of_more_dimensions_are_refused() -> None:
    three = TwoLayerBN([1.0], [[1.0, 0.0, 0.0]], "tanh")
    x = torch.randn(9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    run = descend(three, Data.of(x, x[:, 0], center="center"), rate=0.1, iterations=1)
    with pytest.raises(InputError, match="two-dimensional"):
        plot.plot_neurons(run)
