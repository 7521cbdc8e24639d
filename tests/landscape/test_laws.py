"""Laws that hold for every network: drawn at random, with the smallest ones by name."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev
from scipy.sparse.linalg import aslinearoperator
from torch import nn

import splinescope as ss
from splinescope.landscape.certified import CertifiedSurface
from splinescope.landscape.polynomials import real_roots
from splinescope.landscape.surface import LossSurface

from .networks import autograd_loss, case, direction, parameters

ACTIVATIONS = {"relu": nn.ReLU, "leaky": nn.LeakyReLU, "clamp": nn.Hardtanh, "none": nn.Identity}


STRUCTURES = [((1, 1), "none"), ((1, 1, 1), "relu"), ((2, 3, 2), "relu"), ((1, 2, 1, 2), "leaky"), ((2, 2, 1), "clamp"),
              ((1, 1, 1, 1), "none")]  # fmt: skip


@functools.cache
def traced(structure: tuple) -> ss.SplineNetwork:
    """Read once: the network follows its parameters, which every example sets anew."""
    model = network(*structure)
    return ss.trace(model, torch.zeros(1, structure[0][0]))


def losses(model, x, y, moves, t: np.ndarray) -> np.ndarray:
    """Mean squared distance at parameters theta0 + t @ directions for all `t` `[M, d]`, by the module itself."""

    def one(t: torch.Tensor) -> torch.Tensor:
        moved = parameters(model)
        for amount, change in zip(t, moves, strict=True):
            moved = {name: p + amount * change.get(name, 0.0) for name, p in moved.items()}
        return (torch.func.functional_call(model, moved, (x,)) - y).square().sum() / len(x)

    with torch.no_grad():
        return torch.func.vmap(one)(torch.from_numpy(t)).numpy()


def network(widths: tuple[int, ...], activation: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1]).double()


def identity(activation: str = "relu") -> nn.Sequential:
    """1-1-1 with weights 1 and biases 0."""
    model = network((1, 1, 1), activation)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(float(p.dim() == 2))
    return model


def identity_network(targets: float) -> tuple:
    """One point, all parameters moving."""
    model = identity()
    x, y = torch.ones(1, 1).double(), torch.full((1, 1), targets).double()
    return ss.trace(model, x), x, y, [{name: torch.ones_like(p) for name, p in parameters(model).items()}]


def drawn(structure: tuple, points: int, directions: int, seed: int) -> tuple:
    rng = torch.Generator().manual_seed(seed)
    model, widths = traced(structure).module, structure[0]
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=rng, dtype=torch.float64))
    x = torch.randn(points, widths[0], generator=rng, dtype=torch.float64)
    y = 3 * torch.randn(points, widths[-1], generator=rng, dtype=torch.float64)
    moves = ss.landscape.random_directions(model, directions, normalize="none", generator=rng)
    return traced(structure), x, y, moves


def dense(found: CertifiedSurface, per_cell: int = 7) -> np.ndarray:
    """`[K, M, d]` points of every cell, its corners among them."""
    axis = np.linspace(-found.half, found.half, per_cell)
    offsets = np.stack(np.meshgrid(*[axis] * len(found.axes), indexing="ij"), -1).reshape(-1, len(found.axes))
    return found.quadratics.centers[:, None] + offsets


def assert_bounds_hold(network, x, y, moves, span: float, cells: int) -> None:
    """`|L(t) - q(t)| <= error` at dense points of every cell, and so the bounds of a cell and of a point."""
    model = network.module
    found = ss.landscape.certified_surface(network, x, y, moves, span=span, cells=cells)
    for k, t in enumerate(dense(found)):
        loss = losses(model, x, y, moves, t)
        quadratic = found.quadratics.on_piece(np.full(len(t), k), t)
        rounding = 1e-11 * (1 + np.abs(loss).max() + np.abs(quadratic).max())
        assert (np.abs(loss - quadratic) <= found.errors.reshape(-1)[k] + rounding).all()
        assert (loss >= found.lower.reshape(-1)[k] - rounding).all()
        assert (loss <= found.upper.reshape(-1)[k] + rounding).all()
        low, high = found.bounds(t)
        assert ((low <= loss + rounding) & (loss <= high + rounding)).all()
    center = losses(model, x, y, moves, found.quadratics.centers)
    np.testing.assert_allclose(found.losses.reshape(-1), center, rtol=1e-9, atol=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from(STRUCTURES),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from([0.05, 0.5, 3.0]),
    st.integers(1, 2),
    st.integers(0, 1000),
)
def test_the_certified_bound_is_never_exceeded(structure, points, directions, span, cells, seed):
    assert_bounds_hold(*drawn(structure, points, directions, seed), span, cells)


@pytest.mark.parametrize("target", [0.0, 40.0, -40.0])
@pytest.mark.parametrize("span", [0.5, 4.0])
def test_the_certified_bound_of_the_identity_network_holds(target, span):
    """f(t) = (1 + t) relu(1 + 2t) + t: large residuals multiply the smallest error of the outputs."""
    assert_bounds_hold(*identity_network(target), span, 1)


def test_the_certified_error_is_reached_by_a_network_of_two_factors():
    """(1 + t)^2 on [-1, 1]: 3/2 + 2t +- 1/2, attained at the middle and at both ends: no smaller bound is true."""
    model = identity("none")
    move = {"0.weight": torch.ones(1, 1).double(), "2.weight": torch.ones(1, 1).double()}
    x, y = torch.ones(1, 1).double(), torch.full((1, 1), -1.0).double()
    found = ss.landscape.certified_surface(model, x, y, move, span=1.0, cells=1)
    # squares of r(t) = 5/2 + 2t +- 1/2: 2 (|5/2| + 2) 1/2 + 1/4, by hand
    assert float(found.errors[0]) == pytest.approx(4.75)
    t = np.linspace(-1, 1, 101)
    quadratic = found.quadratics.on_piece(np.zeros(101, int), t[:, None])
    assert np.abs(((1 + t) ** 2 + 1) ** 2 - quadratic).max() == pytest.approx(4.75)  # at t = 1: 25 against 20.25


@pytest.mark.parametrize("turn", [0.0, 0.4, np.pi / 4])
def test_the_nonconvex_share_counts_directions_that_bend_down(turn):
    """In any frame: a bowl has none, its negative and a saddle are all of it, a trough that turns up has one half."""
    axis = np.linspace(-1, 1, 22)  # 20 inner points an axis, half of them on either side of 0
    a, b = np.meshgrid(axis, axis, indexing="ij")
    u, v = np.cos(turn) * a - np.sin(turn) * b, np.sin(turn) * a + np.cos(turn) * b
    shares = [
        LossSurface((axis, axis), z).nonconvex_fraction
        for z in (u**2 + 0.2 * v**2, -(u**2) - 0.2 * v**2, u**2 - 0.2 * v**2, -(u**2) + 0.2 * v**2)
    ]
    assert shares == [0.0, 1.0, 1.0, 1.0]
    if turn == 0.0:
        assert LossSurface((axis, axis), u**3 + v**2).nonconvex_fraction == 0.5
        assert LossSurface((axis, axis), v**3 + 5 * u**2).nonconvex_fraction == 0.5
    lines = [LossSurface((axis,), z).nonconvex_fraction for z in (axis**2, -(axis**2), axis**3)]
    assert lines == [0.0, 1.0, 0.5]


def copies(model, x, y):
    """The same folds many times over: points on one ray through the origin cross at the same parameters."""
    scale = torch.tensor([1.0, 1.0, 3.0, 0.1, 1 / 3, 7.0], dtype=torch.float64)
    return torch.cat([s * x for s in scale]), y.repeat(len(scale), 1)


@pytest.mark.parametrize("batch_size", [1, 100])
def test_break_points_that_coincide_are_one(batch_size):
    """Without biases the units of x and of 3 x switch at the same t, up to rounding: no slivers between."""
    model, x, y, layer = case("no biases", points=2)
    move = direction(model, layer)
    for section in (ss.landscape.loss_section, ss.landscape.polynomial_section):
        alone = section(model, x, y, move)
        together = section(model, *copies(model, x, y), move, batch_size=batch_size)
        assert together.count == alone.count
        np.testing.assert_allclose(together.breaks, alone.breaks, atol=1e-11)


def test_break_points_that_only_lie_close_stay_apart():
    """1e-9 of the span is far beyond rounding."""
    model = identity()
    x = torch.tensor([[1.0], [1.0 + 1e-9]], dtype=torch.float64)
    move = {"0.bias": torch.ones(1).double()}  # point i switches at t = -x_i
    for section in (ss.landscape.loss_section, ss.landscape.polynomial_section):
        found = section(model, x, torch.zeros(2, 1).double(), move, span=2.0, batch_size=1)
        np.testing.assert_allclose(found.breaks, [-2, -1 - 1e-9, -1, 2], atol=1e-12)


def test_the_standard_error_of_the_trace_is_the_spread_of_its_estimates():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 30))
    matrix = root @ root.T
    found = [
        ss.landscape.spectrum_summary(
            aslinearoperator(matrix), method="matrix-free", probes=25, generator=torch.Generator().manual_seed(seed)
        )
        for seed in range(150)
    ]
    scores = np.array([(f.trace - np.trace(matrix)) / f.trace_error for f in found])
    # 150 draws: the spread is known to 6%, widened by the estimate of each error itself (t with 24 degrees, 4%)
    assert 0.8 < scores.std() < 1.3
    assert abs(scores.mean()) < 0.35
    errors = np.array([f.trace_error for f in found])
    true = np.sqrt(2 * (matrix**2).sum() - 2 * (np.diag(matrix) ** 2).sum()) / np.sqrt(25)  # random signs, by hand
    assert errors.mean() == pytest.approx(true, rel=0.1)


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


@pytest.mark.parametrize(
    "section", [ss.landscape.loss_section, ss.landscape.certified_surface, ss.landscape.polynomial_section]
)
def test_a_layer_is_taken_for_affine_in_its_parameters_to_rounding_only(section):
    x, y = torch.randn(5, 3).double(), torch.randn(5, 2).double()
    move = {"0.parametrizations.weight.original": torch.ones(4, 3).double()}
    for factor in (1.0, 1e8):  # affine, at any scale: taken, and true
        model = parametrized(0.0, factor)
        found = section(model, x, y, move, span=1.0)
        t = np.linspace(-0.9, 0.9, 7)
        want = [autograd_loss(model, x, y, [move], [v]) for v in t]
        if isinstance(found, CertifiedSurface):
            low, high = found.bounds(t[:, None])
            assert ((low <= np.multiply(want, 1 + 1e-9)) & (np.multiply(want, 1 - 1e-9) <= high)).all()
        else:
            np.testing.assert_allclose(found(t), want, rtol=1e-8)
    with pytest.raises(ss.InputError, match="weight_norm"):
        section(parametrized(1e-5), x, y, move, span=1.0)


@settings(max_examples=40, deadline=None)
@given(st.floats(-0.9, 0.9), st.floats(0.1, 10.0))
def test_a_point_where_a_polynomial_only_touches_zero_is_found(place, size):
    """Rounding makes a double root a pair of complex ones: break points must not be lost by it."""
    touching = chebyshev.poly2cheb([size * place**2, -2 * size * place, size])
    assert np.abs(real_roots(touching) - place).min(initial=1.0) < 1e-6
