"""Exact pieces of the squared error against the torch module itself."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev
from tests.landscape.networks import CASES, autograd_loss, case, direction, parameters
from torch import nn

import splinescope as ss
from splinescope_research import loss_section, polynomial_section
from splinescope_research.loss.loss_section import plot_loss_section
from splinescope_research.loss.parameter_network import NotOneLayer
from splinescope_research.loss.polynomial_section import real_roots

RTOL = 1e-9  # stated in the docs; measured 1e-15, with room for deep networks at large scales


@pytest.mark.parametrize("name", CASES)
def test_a_line_of_one_layer_is_the_autograd_loss_everywhere(name):
    model, x, y, layer = case(name)
    move = direction(model, layer)
    section = loss_section(model, x, y, move, span=1.5, batch_size=4)
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
    section = loss_section(model, x, y, moves, batch_size=1, progress=lambda share, tiles: shares.append(share))
    assert shares[-1] == pytest.approx(1)
    assert section.tiling.check().ok, str(section.tiling.check())
    t = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    np.testing.assert_allclose(section(t), [autograd_loss(model, x, y, moves, v) for v in t], rtol=RTOL)


@pytest.mark.parametrize("name", ["mlp, first layer", "convnet, convolution"])
def test_second_differences_change_only_at_break_points(name):
    model, x, y, layer = case(name)
    move = direction(model, layer)
    section = loss_section(model, x, y, move)
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
    from splinescope.tiling.engine.plan import make_plan
    from splinescope_research.loss.parameter_network import Mover, ParameterNetwork

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
    section = loss_section(model, x, y, moves, span=2.0)
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
    section = loss_section(model, x, y, moves, span=100.0)
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
    section = polynomial_section(model, x, y, move, batch_size=4)
    assert section.degree == 2 * len(layers)
    assert section.residual < 1e-12
    t = np.random.default_rng(0).uniform(-1, 1, 40)
    np.testing.assert_allclose(section(t), [autograd_loss(model, x, y, [move], [v]) for v in t], rtol=RTOL)
    value, where = section.minimum
    assert value <= section(t).min()
    assert autograd_loss(model, x, y, [move], where) == pytest.approx(value, rel=RTOL)


def test_scaling_all_weights_of_a_network_without_biases_is_a_pure_power():
    model, x, y, _ = case("no biases")
    section = polynomial_section(model, x, y, parameters(model), span=(-0.9, 1.0))
    assert section.count == 1  # theta (1 + t) never folds: f scales by (1 + t)^2
    f = model(x).detach()
    t = np.linspace(-0.9, 1.0, 7)
    want = [float((((1 + v) ** 2 * f) - y).square().sum() / len(x)) for v in t]
    np.testing.assert_allclose(section(t), want, rtol=1e-11)


def test_the_model_and_its_grad_mode_stay_as_found():
    model, x, y, layer = case("convnet, convolution")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    loss_section(model, x, y, direction(model, layer))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert torch.is_grad_enabled()
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


def test_bad_input_is_refused_with_what_is_possible():
    model, x, y, layer = case("mlp, first layer")
    move = direction(model, layer)
    with pytest.raises(ss.InputError, match=r"shape \(6, 3\), got \(3, 6\)"):
        loss_section(model, x, y, {"0.weight": torch.zeros(3, 6)})
    with pytest.raises(ss.InputError, match="there are: 0"):
        loss_section(model, x, y, {"nope": torch.zeros(3)})
    with pytest.raises(ss.InputError, match="at least one point"):
        loss_section(model, x[:0], y[:0], move)
    with pytest.raises(ss.InputError, match="one_hot"):
        loss_section(model, x, torch.zeros(6, dtype=torch.long), move)
    with pytest.raises(ss.InputError, match="linearly independent"):
        loss_section(model, x, y, [move, move])
    with pytest.raises(NotOneLayer, match="polynomial_section"):
        loss_section(model, x, y, {**move, **direction(model, "2")})
    with pytest.raises(ss.UnsupportedModelError, match="softmax"):
        loss_section(nn.Sequential(model, nn.Softmax(1)), x, y, {"0.0.weight": torch.ones(6, 3)})
    convnet, images, targets, layer = case("convnet, convolution")
    with pytest.raises(ss.UnsupportedModelError, match="training mode"):
        loss_section(convnet.train(), images, targets, direction(convnet, layer))
    normed = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))).double()
    v = "0.parametrizations.weight.original1"
    with pytest.raises(ss.InputError, match="not affine in the moved parameters"):
        loss_section(normed, x, y, {v: torch.ones(2, 3)})


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
    section = polynomial_section(model, x, y, move, span=0.5)
    assert section.degree == 4
    np.testing.assert_allclose(section(t), want, rtol=RTOL)
    with pytest.raises(NotOneLayer, match="used twice"):
        loss_section(model, x, y, {"first.weight": move["first.weight"]})


def test_rows_of_as_many_numbers_take_the_shape_of_the_network():
    """Networks of files with inputs such as (1, 1, 5) meet tables of rows of 5."""
    torch.manual_seed(0)
    network = ss.trace(
        nn.Sequential(nn.Flatten(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)), torch.zeros(1, 1, 1, 5)
    )
    x, y, move = torch.randn(6, 5), torch.randn(6, 2), {"1.bias": torch.ones(4)}
    flat, full = (loss_section(network, rows, y, move) for rows in (x, x.reshape(6, 1, 1, 5)))
    assert np.array_equal(flat.breaks, full.breaks)
    assert np.array_equal(flat([0.0, 0.5]), full([0.0, 0.5]))
    with pytest.raises(ss.InputError, match=r"shape \(N, 1, 1, 5\), or rows of as many numbers, got \(6, 4\)"):
        loss_section(network, x[:, :4], y, move)


def copies(model, x, y):
    """The same folds many times over: points on one ray through the origin cross at the same parameters."""
    scale = torch.tensor([1.0, 1.0, 3.0, 0.1, 1 / 3, 7.0], dtype=torch.float64)
    return torch.cat([s * x for s in scale]), y.repeat(len(scale), 1)


@pytest.mark.parametrize("batch_size", [1, 100])
def test_break_points_that_coincide_are_one(batch_size):
    """Without biases the units of x and of 3 x switch at the same t, up to rounding: no slivers between."""
    model, x, y, layer = case("no biases", points=2)
    move = direction(model, layer)
    for section in (loss_section, polynomial_section):
        alone = section(model, x, y, move)
        together = section(model, *copies(model, x, y), move, batch_size=batch_size)
        assert together.count == alone.count
        np.testing.assert_allclose(together.breaks, alone.breaks, atol=1e-11)


def test_break_points_that_only_lie_close_stay_apart():
    """1e-9 of the span is far beyond rounding."""
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(float(p.dim() == 2))
    x = torch.tensor([[1.0], [1.0 + 1e-9]], dtype=torch.float64)
    move = {"0.bias": torch.ones(1).double()}  # point i switches at t = -x_i
    for section in (loss_section, polynomial_section):
        found = section(model, x, torch.zeros(2, 1).double(), move, span=2.0, batch_size=1)
        np.testing.assert_allclose(found.breaks, [-2, -1 - 1e-9, -1, 2], atol=1e-12)


class Bent(nn.Module):
    """A weight that is not affine in its parameter, by a little."""

    def __init__(self, amount: float, factor: float) -> None:
        super().__init__()
        self.amount, self.factor = amount, factor

    def forward(self, v: torch.Tensor) -> torch.Tensor:
        return self.factor * (v + 2.0) + self.amount * v.square()


def parametrized(amount: float, factor: float = 1.0) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    nn.utils.parametrize.register_parametrization(model[0], "weight", Bent(amount, factor))
    return model.eval()


@pytest.mark.parametrize("section", [loss_section, polynomial_section])
def test_a_layer_is_taken_for_affine_in_its_parameters_to_rounding_only(section):
    x, y = torch.randn(5, 3).double(), torch.randn(5, 2).double()
    move = {"0.parametrizations.weight.original": torch.ones(4, 3).double()}
    for factor in (1.0, 1e8):  # affine, at any scale: taken, and true
        model = parametrized(0.0, factor)
        found = section(model, x, y, move, span=1.0)
        t = np.linspace(-0.9, 0.9, 7)
        want = [autograd_loss(model, x, y, [move], [v]) for v in t]
        np.testing.assert_allclose(found(t), want, rtol=1e-8)
    with pytest.raises(ss.InputError, match="weight_norm"):
        section(parametrized(1e-5), x, y, move, span=1.0)


@settings(max_examples=40, deadline=None)
@given(st.floats(-0.9, 0.9), st.floats(0.1, 10.0))
def test_a_point_where_a_polynomial_only_touches_zero_is_found(place, size):
    """Rounding makes a double root a pair of complex ones: break points must not be lost by it."""
    touching = chebyshev.poly2cheb([size * place**2, -2 * size * place, size])
    assert np.abs(real_roots(touching) - place).min(initial=1.0) < 1e-6


def test_a_sampled_line_lies_on_the_exact_section():
    model, x, y, layer = case("mlp, first layer")
    move = direction(model, layer)
    surface = ss.loss_surface(model, x, y, move, loss="squared", resolution=11)
    np.testing.assert_allclose(surface.losses, loss_section(model, x, y, move)(surface.axes[0]), rtol=1e-12)


def test_sections_leave_whole_numbers_whole():
    """Token ids are named as what is in the way; whole numbers into a linear layer are numbers like others."""
    x, y = torch.randint(0, 7, (4, 5)), torch.zeros(4, 3)
    model, change = nn.Sequential(nn.Embedding(7, 2), nn.Flatten(), nn.Linear(10, 3)), {"0.weight": torch.ones(7, 2)}
    for section in (loss_section, polynomial_section):
        with pytest.raises(ss.UnsupportedModelError, match=r"takes whole numbers.*after its embedding"):
            section(model, x, y, change)
    net = nn.Sequential(nn.Linear(5, 3), nn.ReLU())
    direction = {"0.bias": torch.ones(3)}
    counts = [loss_section(net, points, y, direction).count for points in (x, x.float())]
    assert counts[0] == counts[1] > 1


def test_sections_are_drawn_with_their_pieces_and_minimum():
    model, x, y, layer = case("mlp, first layer", points=2)
    line = loss_section(model, x, y, direction(model, layer))
    ax = plot_loss_section(line)
    assert ax.get_title() == f"{line.count} pieces of degree 2"
    assert len(ax.lines[1].get_xdata()) == line.count - 1
    assert ax.get_legend().get_texts()[-1].get_text().startswith("minimum")
    plane = loss_section(model, x, y, [direction(model, layer, seed) for seed in (1, 2)])
    ax = plot_loss_section(plane, color="curvature")
    assert len(ax.collections[0].get_paths()) == plane.count


@pytest.mark.parametrize("corner", [(-1.0, 1.0), (1.0, 1.0)])
def test_a_minimum_in_a_corner_is_seen(corner):
    model = nn.Linear(1, 2).double()  # outputs 0 move to (t1, t2); the target lies beyond the corner
    with torch.no_grad():
        model.weight.zero_(), model.bias.zero_()
    moves = [{"bias": torch.tensor([1.0, 0.0])}, {"bias": torch.tensor([0.0, 1.0])}]
    section = loss_section(model, torch.zeros(1, 1), torch.tensor([corner]) * 2, moves)
    assert section.minimum[1] == pytest.approx(corner)
    ax = plot_loss_section(section)
    ax.figure.canvas.draw()
    assert not ax.get_legend().get_window_extent().contains(*ax.transData.transform(corner))
    assert not ax.lines[-1].get_clip_on()
