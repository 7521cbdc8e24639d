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
    first, second = ss.random_directions(model, 2, generator=seeded())
    assert set(first) == {"0.weight", "5.weight", "7.weight"}  # biases, batch norm and prelu do not move
    for name, change in first.items():
        weight = parameters(model)[name]
        torch.testing.assert_close(change.flatten(1).norm(dim=1), weight.flatten(1).norm(dim=1))
        assert not torch.allclose(change, second[name])
    whole = ss.random_directions(model, 1, normalize="layer", layer="5", generator=seeded())[0]
    assert set(whole) == {"5.weight"}
    torch.testing.assert_close(whole["5.weight"].norm(), parameters(model)["5.weight"].norm())


def test_a_surface_is_the_loss_at_every_grid_point():
    model, x, y, _ = case("convnet, convolution")
    moves = ss.random_directions(model, 2, generator=seeded())
    surface = ss.loss_surface(model, x, y, moves, loss="squared", points=5, batch_size=4)
    want = [[autograd_loss(model, x, y, moves, (a, b)) for b in surface.axes[1]] for a in surface.axes[0]]
    np.testing.assert_allclose(surface.losses, want, rtol=1e-12)


def test_a_sampled_line_lies_on_the_exact_section():
    model, x, y, layer = case("mlp, first layer")
    move = direction(model, layer)
    surface = ss.loss_surface(model, x, y, move, loss="squared", points=11)
    np.testing.assert_allclose(surface.losses, ss.loss_section(model, x, y, move)(surface.axes[0]), rtol=1e-12)


def test_statistics_are_taken_anew_at_every_point():
    model, x, y, _ = case("convnet, convolution", points=8)
    move = ss.random_directions(model, 1, generator=seeded())[0]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    surface = ss.loss_surface(model, x, y, move, loss="squared", points=3, batch_norm="reestimate", batch_size=8)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    for t, found in zip(surface.axes[0], surface.losses, strict=True):
        model.load_state_dict(before)
        with torch.no_grad():
            for name, change in move.items():
                model.get_parameter(name).add_(float(t) * change)
            z = model[0](x)
            model[1].running_mean.copy_(z.mean((0, 2, 3)))
            model[1].running_var.copy_(z.var((0, 2, 3)))  # running variances are unbiased
            want = float((model(x) - y).square().sum() / len(x))
        assert found == pytest.approx(want, rel=1e-12)
    plain, *data, _ = case("mlp, first layer")
    with pytest.raises(ss.InputError, match="has none: use 'fixed'"):
        ss.loss_surface(plain, *data, direction(plain, "0"), loss="squared", batch_norm="reestimate")


def test_bowls_are_convex_and_saddles_are_not():
    axis = np.linspace(-1, 1, 11)
    u, v = np.meshgrid(axis, axis, indexing="ij")
    assert ss.Surface((axis, axis), u**2 + 3 * v**2 + u * v).nonconvex_fraction == 0.0
    assert ss.Surface((axis, axis), u**2 - 0.1 * v**2 + 3).nonconvex_fraction == 1.0
    assert ss.Surface((axis,), axis**4 - axis**2 + 1).nonconvex_fraction == pytest.approx(1 / 3, abs=0.2)
    assert ss.Surface((axis,), axis**2 + 1).spread == pytest.approx(2.0)


def test_between_two_checkpoints_the_ends_are_the_checkpoints():
    start, x, y, _ = case("mlp, first layer")
    end, *_ = case("dead and duplicate units")
    surface = ss.loss_surface(start, x, y, ss.direction_between(start, end), span=(0.0, 1.0), points=3, loss="squared")
    for model, loss in ((start, surface.losses[0]), (end, surface.losses[-1])):
        assert float((model(x) - y).detach().square().sum() / len(x)) == pytest.approx(loss, rel=1e-12)


def test_a_path_in_a_plane_is_found_back():
    model, *_ = case("mlp, first layer")
    a, b = (
        {k: torch.randn(v.shape, generator=seeded(s)).double() for k, v in parameters(model).items()} for s in (1, 2)
    )
    weights = np.array([[2.0, 1.0], [1.0, -1.0], [0.5, 0.2], [0.0, 0.0]])
    path = [{k: v + u[0] * a[k] + u[1] * b[k] for k, v in parameters(model).items()} for u in weights]
    plane = ss.principal_directions(path)
    assert plane.explained.sum() == pytest.approx(1.0)
    for state, t in zip(path, plane.coordinates, strict=True):
        for name in state:
            back = path[-1][name] + sum(float(c) * d[name] for c, d in zip(t, plane.directions, strict=True))
            torch.testing.assert_close(back, state[name])
    with pytest.raises(ss.InputError, match="more than 2 checkpoints"):
        ss.principal_directions(path[:2])
    with pytest.raises(ss.InputError, match="lie on fewer"):
        ss.principal_directions([path[0], path[-1], path[-1]])


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
        ss.loss_surface(model, x, y, move, loss="squared", points=2)
    with pytest.raises(ss.InputError, match="only biases"):
        ss.random_directions(model, layer="1")
