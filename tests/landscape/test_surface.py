"""Directions in parameter space and sampled surfaces."""

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.landscape.directions import direction_between

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
    whole = ss.landscape.random_directions(model, 1, normalize="layer", layer="5", generator=seeded())[0]
    assert set(whole) == {"5.weight"}
    torch.testing.assert_close(whole["5.weight"].norm(), parameters(model)["5.weight"].norm())


def test_a_surface_is_the_loss_at_every_grid_point():
    model, x, y, _ = case("convnet, convolution")
    moves = ss.landscape.random_directions(model, 2, generator=seeded())
    surface = ss.loss_surface(model, x, y, moves, loss="squared", resolution=5, batch_size=4)
    want = [[autograd_loss(model, x, y, moves, (a, b)) for b in surface.axes[1]] for a in surface.axes[0]]
    np.testing.assert_allclose(surface.losses, want, rtol=1e-12)


def test_a_sampled_line_lies_on_the_exact_section():
    model, x, y, layer = case("mlp, first layer")
    move = direction(model, layer)
    surface = ss.loss_surface(model, x, y, move, loss="squared", resolution=11)
    np.testing.assert_allclose(
        surface.losses, ss.landscape.loss_section(model, x, y, move)(surface.axes[0]), rtol=1e-12
    )


def test_statistics_are_taken_anew_at_every_point():
    model, x, y, _ = case("convnet, convolution", points=8)
    move = ss.landscape.random_directions(model, 1, generator=seeded())[0]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    surface = ss.loss_surface(model, x, y, move, loss="squared", resolution=3, batch_norm="reestimate", batch_size=8)
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


def test_reestimation_leaves_other_norms_alone():
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3), nn.InstanceNorm1d(3, track_running_stats=True)),
        *(nn.Flatten(), nn.Linear(12, 2)),
    ).double()
    model[2].running_mean.normal_()
    model[2].running_var.uniform_(1.0, 2.0)
    model.eval()
    x, y = torch.randn(9, 2, 4).double(), torch.randn(9, 2).double()
    move = ss.landscape.random_directions(model, 1, generator=seeded())[0]
    found = ss.loss_surface(model, x, y, move, loss="squared", resolution=3, batch_norm="reestimate").losses[1]
    with torch.no_grad():
        model[1].running_mean.copy_(model[0](x).mean((0, 2)))
        model[1].running_var.copy_(model[0](x).var((0, 2)))
        assert found == pytest.approx(float((model(x) - y).square().sum() / len(x)), rel=1e-12)


def test_reestimation_has_no_last_batch_of_a_few_rows():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).double().eval()
    x, y = torch.randn(9, 3).double(), torch.randn(9, 2).double()
    move = ss.landscape.random_directions(model, 1, generator=seeded())[0]
    how = {"loss": "squared", "resolution": 3, "batch_norm": "reestimate"}
    found = ss.loss_surface(model, x, y, move, batch_size=8, **how).losses[1]
    with torch.no_grad():
        halves = model[0](x)[:5], model[0](x)[5:]
        model[1].running_mean.copy_(sum(rows.mean(0) for rows in halves) / 2)
        model[1].running_var.copy_(sum(rows.var(0) for rows in halves) / 2)
        assert found == pytest.approx(float((model(x) - y).square().sum() / len(x)), rel=1e-12)
    with pytest.raises(ss.InputError, match="at least 2 points"):
        ss.loss_surface(model, x[:1], y[:1], move, **how)


def test_between_two_checkpoints_the_ends_are_the_checkpoints():
    start, x, y, _ = case("mlp, first layer")
    end, *_ = case("dead and duplicate units")
    surface = ss.loss_surface(start, x, y, direction_between(start, end), span=(0.0, 1.0), resolution=3, loss="squared")
    for model, loss in ((start, surface.losses[0]), (end, surface.losses[-1])):
        assert float((model(x) - y).detach().square().sum() / len(x)) == pytest.approx(loss, rel=1e-12)


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


@pytest.mark.parametrize(
    "name",
    [
        "mlp, first layer",
        "dead and duplicate units",
        "scale 1e8",
        "convnet, convolution",
        "resnet, convolution in a branch",
    ],
)
def test_certified_bounds_hold_between_the_grid_points_when_all_layers_move(name):
    model, x, y, _ = case(name)
    moves = ss.landscape.random_directions(model, 2, normalize="none", generator=seeded())  # biases and norms, too
    moves = [{k: 0.3 * v for k, v in move.items() if k != "6.weight"} for move in moves]  # slopes of a PReLU stay
    found = ss.landscape.certified_surface(model, x, y, moves, span=(-0.3, 0.5), cells=4, batch_size=4)
    t = np.random.default_rng(0).uniform(-0.3, 0.5, (60, 2))
    loss = np.array([autograd_loss(model, x, y, moves, v) for v in t])
    low, high = found.bounds(t)
    assert (low <= loss * (1 + 1e-12)).all()  # rounding
    assert (loss <= high * (1 + 1e-12)).all()
    assert found.lower.min() <= low.min()
    assert found.upper.max() >= high.max()
    corner = [autograd_loss(model, x, y, moves, (axis, found.axes[1][0])) for axis in found.axes[0]]
    np.testing.assert_allclose(found.losses[:, 0], corner, rtol=1e-10)


@pytest.mark.parametrize(
    ("moves", "error"),
    [  # of w2 relu(w1 x + b) at w1 = 0, b = 0, w2 = 1, x = 1, on t in [-1, 1]: computed by hand
        ({"0.bias": [1.0]}, 0.25),  # relu(t) = 1/4 + t/2 +- 1/4
        ({"0.bias": [1.0], "2.weight": [[1.0]]}, 0.75),  # (1 + t) relu(t) = 1/2 + 3t/4 +- 3/4
        ({"0.bias": [-1.0], "2.weight": [[-1.0]]}, 0.75),
    ],
)
def test_the_certified_form_of_one_hinge_is_the_one_by_hand_and_attained(moves, error):
    from splinescope.landscape._moved import Mover
    from splinescope.landscape.certified import _enclose

    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1, bias=False)).double()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), (0.0, 0.0, 1.0), strict=True):
            parameter.fill_(value)
    x = torch.ones(1, 1).double()
    direction = {name: torch.tensor(change).double() for name, change in moves.items()}
    mover = Mover(ss.trace(model, x), [direction])
    form = _enclose(mover, mover.program_at(np.zeros(1)), 1.0, x, check=True)
    off = []
    for t in np.linspace(-1, 1, 21):
        moved = {**parameters(model), **{k: parameters(model)[k] + t * v for k, v in direction.items()}}
        off.append(float(torch.func.functional_call(model, moved, (x,)) - form.center - t * form.slopes[0]))
    assert float(form.error) == pytest.approx(error)
    assert np.abs(off).max() == pytest.approx(error)


def test_certified_errors_fall_with_the_square_of_the_cells():
    model, x, y, _ = case("mlp, first layer")
    moves = ss.landscape.random_directions(model, 1, generator=seeded())
    coarse, fine = (ss.landscape.certified_surface(model, x, y, moves, span=0.1, cells=n).errors for n in (4, 32))
    assert fine.mean() < coarse.mean() / 30  # 64 for pure squares
    assert fine.max() < 1e-3


def test_one_layer_without_folds_is_certified_without_error():
    model, x, y, layer = case("mlp, last layer")
    moves = [direction(model, layer, seed) for seed in (1, 2)]
    found = ss.landscape.certified_surface(model, x, y, moves, cells=2)
    assert found.errors.max() < 1e-12
    assert found.upper.max() == pytest.approx(
        max(autograd_loss(model, x, y, moves, v) for v in [(-1, -1), (-1, 1), (1, -1), (1, 1)])
    )


def test_bad_input_of_certified_surfaces_is_refused():
    model, x, y, layer = case("convnet, slopes of prelu")
    with pytest.raises(ss.InputError, match="slopes of prelu"):
        ss.landscape.certified_surface(model, x, y, direction(model, layer), cells=1)
    plane = ss.landscape.certified_surface(
        model, x, y, [direction(model, "0", seed) for seed in (1, 2)], span=0.01, cells=1
    )
    with pytest.raises(ss.InputError, match="bounds"):
        plane.quadratics([[0.0, 0.0]])
    with pytest.raises(ss.InputError, match="cells must be"):
        ss.landscape.certified_surface(model, x, y, direction(model, "0"), cells=0)
    found = ss.landscape.certified_surface(model, x, y, direction(model, "0"), span=0.01, cells=1)
    with pytest.raises(ss.InputError, match="section's domain"):
        found.bounds([[0.02]])
    normed = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))).double()
    with pytest.raises(ss.InputError, match="not affine in the moved parameters"):
        ss.landscape.certified_surface(
            normed, *case("mlp, first layer")[1:3], {"0.parametrizations.weight.original1": torch.ones(2, 3)}
        )
