"""Directions in parameter space and sampled surfaces."""

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss

from .networks import autograd_loss, case, direction, parameters


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_filters_of_a_direction_have_the_norms_of_the_weight():
    model, _, _, _ = case("convnet, convolution")
    first, second = ss.landscape.random_directions(model, 2, generator=seeded())
    assert set(first) == {"0.weight", "5.weight", "7.weight"}  # biases, batch norm and prelu do not move
    for name, change in first.items():
        weight = parameters(model)[name]
        torch.testing.assert_close(change.flatten(1).norm(dim=1), weight.flatten(1).norm(dim=1))
        assert not torch.allclose(change, second[name])
    assert set(ss.landscape.random_directions(model, 1, layer="5")[0]) == {"5.weight"}


def test_a_surface_is_the_loss_at_every_grid_point():
    model, x, y, _ = case("convnet, convolution")
    moves = ss.landscape.random_directions(model, 2, generator=seeded())
    surface = ss.loss_surface(model, x, y, moves, loss="squared", resolution=5, batch_size=4)
    want = [[autograd_loss(model, x, y, moves, (a, b)) for b in surface.axes[1]] for a in surface.axes[0]]
    np.testing.assert_allclose(surface.losses, want, rtol=1e-12)


def test_a_path_in_a_plane_is_found_back():
    model, *_ = case("mlp, first layer")
    a, b = (
        {k: torch.randn(v.shape, generator=seeded(s)).double() for k, v in parameters(model).items()} for s in (1, 2)
    )
    weights = np.array([[2.0, 1.0], [1.0, -1.0], [0.5, 0.2], [0.0, 0.0]])
    path = [{k: v + u[0] * a[k] + u[1] * b[k] for k, v in parameters(model).items()} for u in weights]
    plane = ss.landscape.principal_directions(path)
    assert plane.explained.sum() == pytest.approx(1.0)
    for state, t in zip(path, plane.coordinates, strict=True):
        for name in state:
            back = path[-1][name] + sum(float(c) * d[name] for c, d in zip(t, plane.directions, strict=True))
            torch.testing.assert_close(back, state[name])
    with pytest.raises(ss.InputError, match="more than 2 checkpoints"):
        ss.landscape.principal_directions(path[:2])
    with pytest.raises(ss.InputError, match="lie on fewer"):
        ss.landscape.principal_directions([path[0], path[-1], path[-1]])
    with pytest.raises(ss.InputError, match="shapes of parameters differ"):
        ss.landscape.principal_directions([{"w": torch.zeros(2)}, {"w": torch.zeros(3)}, {"w": torch.ones(3)}])


def test_bad_input_is_refused_with_what_is_possible():
    model, x, y, layer = case("convnet, convolution")
    move = direction(model, layer)
    with pytest.raises(ss.UnsupportedModelError, match="eval"):
        ss.loss_surface(nn.Sequential(model).train(), x, y, {}, loss="squared")
    model.eval()
    with pytest.raises(ss.InputError, match="must have its shape"):
        ss.loss_surface(model, x, y, {"0.weight": torch.zeros(2)}, loss="squared")
    with pytest.raises(ss.InputError, match="there are: 0"):
        ss.loss_surface(model, x, y, {"nope": torch.zeros(2)}, loss="squared")
    with pytest.raises(ss.InputError, match="empty mapping"):
        ss.loss_surface(model, x, y, {}, loss="squared")
    with pytest.raises(ss.InputError, match=">= 3"):
        ss.loss_surface(model, x, y, move, loss="squared", resolution=2)
    with pytest.raises(ss.InputError, match="must be finite"):
        ss.loss_surface(model, x, y, {"0.weight": move["0.weight"] * torch.nan}, loss="squared")
    with pytest.raises(ss.InputError, match=r"points of shape \(2,\)"):
        ss.loss_surface(model, x.flatten(1)[:, :2], y, move, loss="squared")
    unsteady = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, track_running_stats=False)).eval()
    with pytest.raises(ss.UnsupportedModelError, match="1 normalizes by the statistics of the batch"):
        ss.loss_surface(unsteady, torch.zeros(4, 3), torch.zeros(4, 2), {"0.bias": torch.ones(2)}, loss="squared")
    with pytest.raises(ss.InputError, match="count must be a whole number"):
        ss.landscape.random_directions(model, 1.5)
    with pytest.raises(ss.InputError, match="only biases"):
        ss.landscape.random_directions(model, layer="1")
