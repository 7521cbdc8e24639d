"""What the experiments on fidelity measure, where it is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from splinescope_evidence.essay.fidelity_laws import _lost, boundary_moves, crossed
from splinescope_evidence.shared.root_law import worth


def line(at: float) -> nn.Linear:
    """Two classes on the first of two inputs, which change at a place."""
    net = nn.Linear(2, 2).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        net.bias.copy_(torch.tensor([at, -at]))
    return net


def test_the_place_where_a_class_is_lost_is_that_of_the_boundary() -> None:
    start, end = torch.tensor([[0.0, 5.0], [0.4, -1.0]]).double(), torch.tensor([[1.0, 2.0], [2.4, 0.0]]).double()
    own = torch.tensor([0, 0])
    np.testing.assert_allclose(_lost(line(0.7313), start, end, own), [0.7313, (0.7313 - 0.4) / 2], atol=1e-12)
    np.testing.assert_allclose(_lost(line(0.2), start, end, own), [0.2, 0.0], atol=1e-12)  # the second start has lost
    np.testing.assert_allclose(_lost(line(9.0), start, end, own), [1.0, 1.0], atol=1e-12)  # and these keep to the end


def test_a_boundary_moves_as_the_mean_of_the_batch_and_all_of_it_by_the_one_norm_there_is() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(400, 1, dtype=torch.float64, generator=generator)
    x = x + 4 * x.sign()  # few starts are so near the boundary that it passes them
    net = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 2)).double()
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[-1.0], [1.0]]))
        net[1].bias.zero_()
    found = boundary_moves(net, x, (10, 40), 400, 20)["mean"]
    wanted = [(2 / np.pi / worth(size, 400)) ** 0.5 * float(x.std()) for size in (10, 40)]  # of a Gaussian's mean
    assert found == pytest.approx(wanted, rel=0.1)
    assert boundary_moves(net, x, (10, 40), 400, 20, layer=0)["mean"] == pytest.approx(found, rel=0.1)


def test_walls_that_are_crossed_are_few_where_few_tiles_change() -> None:
    np.testing.assert_allclose(crossed(np.array([1e-3, 1 - np.exp(-2.0)])), [1.0005e-3, 2.0], rtol=1e-4)
    assert np.isfinite(crossed(np.array([1.0])))
