"""Exact pieces of the squared error against the torch module itself."""

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.landscape._moved import NotOneLayer

from .networks import CASES, autograd_loss, case, direction, parameters

RTOL = 1e-9  # stated in the docs; measured 1e-15, with room for deep networks at large scales


@pytest.mark.parametrize("name", CASES)
def test_a_line_of_one_layer_is_the_autograd_loss_everywhere(name):
    model, x, y, layer = case(name)
    move = direction(model, layer)
    section = ss.landscape.loss_section(model, x, y, move, span=1.5, batch_size=4)
    t = np.random.default_rng(0).uniform(-1.5, 1.5, 40)
    want = [autograd_loss(model, x, y, [move], [v]) for v in t]
    np.testing.assert_allclose(section(t), want, rtol=RTOL)
    a, b, c = section.coefficients[section.locate(t)].T
    np.testing.assert_allclose(a + b * t + c * t**2, want, rtol=1e-7)  # about t = 0, where digits cancel


@pytest.mark.parametrize(
    "name", ["mlp, first layer", "no biases", "convnet, convolution", "resnet, convolution in a branch"]
)
def test_a_plane_of_one_layer_is_the_autograd_loss_everywhere(name):
    model, x, y, layer = case(name, points=2)
    moves = [direction(model, layer, seed) for seed in (1, 2)]
    shares = []
    section = ss.landscape.loss_section(
        model, x, y, moves, batch_size=1, progress=lambda share, tiles: shares.append(share)
    )
    assert shares[-1] == pytest.approx(1)
    assert section.tiling.check().ok, str(section.tiling.check())
    t = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    np.testing.assert_allclose(section(t), [autograd_loss(model, x, y, moves, v) for v in t], rtol=RTOL)


@pytest.mark.parametrize("name", ["mlp, first layer", "convnet, convolution"])
def test_second_differences_change_only_at_break_points(name):
    model, x, y, layer = case(name)
    move = direction(model, layer)
    section = ss.landscape.loss_section(model, x, y, move)
    assert section.count > 10
    wide = np.argsort(np.diff(section.breaks))[-5:]
    for piece in wide:
        left, right = section.breaks[piece : piece + 2]
        losses = np.array([autograd_loss(model, x, y, [move], [v]) for v in np.linspace(left, right, 9)])
        third = np.diff(losses, 3)
        assert (
            np.abs(third).max() <= 1e-12 * np.abs(losses).max()
        )  # a quadratic has none; rounding of three differences
    middle = len(section.breaks) // 2  # across a break the gradient bends unless the unit does not matter
    bends = np.abs(np.diff(section.hessians[:, 0, 0]))
    assert bends[middle - 5 : middle + 5].max() > 1e-6


def test_memory_of_a_row_does_not_grow_with_the_data():
    from splinescope.landscape._moved import Mover, ParameterNetwork
    from splinescope.tiling.engine.plan import make_plan

    model, x, _, layer = case("mlp, first layer", points=40)
    mover = Mover(ss.trace(model, x), [direction(model, layer)])
    rows = []
    for count in (20, 40):
        blocks = [mover.block(x[i : i + 4], str(i)) for i in range(0, count, 4)]
        plan = make_plan(ParameterNetwork(mover.network, blocks, 1).program(), torch.zeros(2, 1).double(), 1e-12)
        rows.append(max(plan.layout.row_bytes))
    assert rows[0] == rows[1]


@pytest.mark.parametrize("dimension", [1, 2])
def test_no_point_of_a_piece_is_below_its_minimum(dimension):
    model, x, y, layer = case("mlp, first layer", points=3)
    moves = [direction(model, layer, seed) for seed in range(dimension)]
    section = ss.landscape.loss_section(model, x, y, moves, span=2.0)
    rng = np.random.default_rng(0)
    for k in rng.integers(section.count, size=30):
        corners = section.vertices[section.tiles[k]]
        inside = rng.dirichlet(np.ones(len(corners)), size=50) @ corners
        values = section.on_piece(np.full(50, k), inside)
        least = section.minima.values[k]
        assert values.min() >= least * (1 - 1e-12)
        at = section.minima.points[k]
        assert section.on_piece(np.array([k]), at[None])[0] == pytest.approx(least, rel=1e-12)
        assert (at >= corners.min(0) - 1e-12).all()
        assert (at <= corners.max(0) + 1e-12).all()
    value, where = section.minimum
    assert autograd_loss(model, x, y, moves, where) == pytest.approx(value, rel=RTOL)


def test_the_last_layer_gives_one_quadratic_with_the_least_squares_minimum():
    model, x, y, layer = case("mlp, last layer")
    moves = [direction(model, layer, seed) for seed in (1, 2)]
    section = ss.landscape.loss_section(model, x, y, moves, span=100.0)
    assert section.count == 1
    assert section.minima.inside.all()
    with torch.no_grad():
        f = [torch.func.functional_call(model, {**parameters(model), **m}, (x,)) for m in moves]
        zero = {name: torch.zeros_like(v) for name, v in moves[0].items()}
        start = torch.func.functional_call(model, {**parameters(model), **zero}, (x,))
        A = torch.stack([(g - start).reshape(-1) for g in f], 1)
        best = torch.linalg.lstsq(A, (y - model(x)).reshape(-1, 1)).solution[:, 0]
    np.testing.assert_allclose(section.minimum[1], best, rtol=1e-9)


@pytest.mark.parametrize("layers", [["0"], ["0", "2"], ["0", "2", "4"]])
def test_several_layers_together_give_polynomial_pieces(layers):
    model, x, y, _ = case("mlp, first layer")
    move = {name: change for layer in layers for name, change in direction(model, layer).items()}
    section = ss.landscape.polynomial_section(model, x, y, move, batch_size=4)
    assert section.degree == 2 * len(layers)
    assert section.residual < 1e-12
    t = np.random.default_rng(0).uniform(-1, 1, 40)
    np.testing.assert_allclose(section(t), [autograd_loss(model, x, y, [move], [v]) for v in t], rtol=RTOL)
    value, where = section.minimum
    assert value <= section(t).min()
    assert autograd_loss(model, x, y, [move], where) == pytest.approx(value, rel=RTOL)


def test_scaling_all_weights_of_a_network_without_biases_is_a_pure_power():
    model, x, y, _ = case("no biases")
    section = ss.landscape.polynomial_section(model, x, y, parameters(model), span=(-0.9, 1.0))
    assert section.count == 1  # theta (1 + t) never folds: f scales by (1 + t)^2
    f = model(x).detach()
    t = np.linspace(-0.9, 1.0, 7)
    want = [float((((1 + v) ** 2 * f) - y).square().sum() / len(x)) for v in t]
    np.testing.assert_allclose(section(t), want, rtol=1e-11)


def test_the_model_and_its_grad_mode_stay_as_found():
    model, x, y, layer = case("convnet, convolution")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    ss.landscape.loss_section(model, x, y, direction(model, layer))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert torch.is_grad_enabled()
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


def test_bad_input_is_refused_with_what_is_possible():
    model, x, y, layer = case("mlp, first layer")
    move = direction(model, layer)
    with pytest.raises(ss.InputError, match=r"shape \(6, 3\), got \(3, 6\)"):
        ss.landscape.loss_section(model, x, y, {"0.weight": torch.zeros(3, 6)})
    with pytest.raises(ss.InputError, match="there are: 0"):
        ss.landscape.loss_section(model, x, y, {"nope": torch.zeros(3)})
    with pytest.raises(ss.InputError, match="at least one point"):
        ss.landscape.loss_section(model, x[:0], y[:0], move)
    with pytest.raises(ss.InputError, match="one_hot"):
        ss.landscape.loss_section(model, x, torch.zeros(6, dtype=torch.long), move)
    with pytest.raises(ss.InputError, match="linearly independent"):
        ss.landscape.loss_section(model, x, y, [move, move])
    with pytest.raises(NotOneLayer, match="polynomial_section"):
        ss.landscape.loss_section(model, x, y, {**move, **direction(model, "2")})
    with pytest.raises(ss.UnsupportedModelError, match="softmax"):
        ss.landscape.loss_section(nn.Sequential(model, nn.Softmax(1)), x, y, {"0.0.weight": torch.ones(6, 3)})
    convnet, images, targets, layer = case("convnet, convolution")
    with pytest.raises(ss.UnsupportedModelError, match="training mode"):
        ss.landscape.loss_section(convnet.train(), images, targets, direction(convnet, layer))
    normed = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))).double()
    v = "0.parametrizations.weight.original1"
    with pytest.raises(ss.InputError, match="not affine in the moved parameters"):
        ss.landscape.loss_section(normed, x, y, {v: torch.ones(2, 3)})


class TiedWeights(nn.Module):
    """Two layers with one weight, of which `named_parameters` knows the first name and export may use the other."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def test_a_tied_weight_moves_in_all_its_places():
    torch.manual_seed(0)
    model, x, y = TiedWeights().double(), torch.randn(5, 3).double(), torch.randn(5, 3).double()
    move = {"first.weight": torch.randn(3, 3).double(), "second.bias": torch.randn(3).double()}
    t = np.linspace(-0.5, 0.5, 9)
    want = np.array([autograd_loss(model, x, y, [move], [v]) for v in t])
    section = ss.landscape.polynomial_section(model, x, y, move, span=0.5)
    assert section.degree == 4
    np.testing.assert_allclose(section(t), want, rtol=RTOL)
    with pytest.raises(NotOneLayer, match="used twice"):
        ss.landscape.loss_section(model, x, y, {"first.weight": move["first.weight"]})


def test_rows_of_as_many_numbers_take_the_shape_of_the_network():
    """Networks of files with inputs such as (1, 1, 5) meet tables of rows of 5."""
    torch.manual_seed(0)
    network = ss.trace(
        nn.Sequential(nn.Flatten(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)), torch.zeros(1, 1, 1, 5)
    )
    x, y, move = torch.randn(6, 5), torch.randn(6, 2), {"1.bias": torch.ones(4)}
    flat, full = (ss.landscape.loss_section(network, rows, y, move) for rows in (x, x.reshape(6, 1, 1, 5)))
    assert np.array_equal(flat.breaks, full.breaks)
    assert np.array_equal(flat([0.0, 0.5]), full([0.0, 0.5]))
    with pytest.raises(ss.InputError, match=r"shape \(N, 1, 1, 5\), or rows of as many numbers, got \(6, 4\)"):
        ss.landscape.loss_section(network, x[:, :4], y, move)
