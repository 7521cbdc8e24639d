"""Laws that hold for every network: drawn at random, with the smallest ones by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev
from scipy.sparse.linalg import aslinearoperator
from torch import nn

import splinescope as ss
from splinescope.landscape.polynomials import real_roots
from splinescope.landscape.surface import LossSurface

from .networks import autograd_loss, case, direction


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
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(float(p.dim() == 2))
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


@pytest.mark.parametrize("section", [ss.landscape.loss_section, ss.landscape.polynomial_section])
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
