"""Conditioning of random layers with and without skips, against known numbers; the factor of a Gauss-Newton matrix."""

import numpy as np
import pytest
import torch
from tests.landscape.networks import CASES, case
from torch import nn

import splinescope as ss
from splinescope.landscape.skip_conditioning import Conditioning, skip_bound
from splinescope_research.loss.break_distance import break_distance
from splinescope_research.loss.conditioning import condition_number, layer_conditioning, random_conditioning
from splinescope_research.loss.curvature_factor import curvature_factor


def test_skip_bound_holds_and_is_attained():
    equal = layer_conditioning(np.diag([0.5, -0.5]), np.ones(2), skip=True)
    assert float(equal.condition) == pytest.approx(float(equal.bound)) == 3.0
    generator = torch.Generator().manual_seed(0)
    for activation in ("relu", "leaky", "abs"):
        drawn = random_conditioning(20, 0.4, activation, skip=True, draws=50, generator=generator)
        assert drawn.violations == 0
        assert np.isfinite(drawn.bound).all()
        deep = random_conditioning(20, 0.2, activation, skip=True, depth=3, draws=50, generator=generator)
        assert deep.violations == 0


def test_conditioning_of_what_does_not_fit_is_refused():
    with pytest.raises(ss.InputError, match="draws must be a whole number"):
        random_conditioning(6, 0.4, skip=True, draws=2.5)
    with pytest.raises(ss.InputError, match="one number per row"):
        layer_conditioning(torch.ones(2, 3), torch.ones(3), skip=True)


def test_a_deep_stack_that_is_singular_to_float64_breaks_no_bound():
    generator = torch.Generator().manual_seed(0)
    deep = random_conditioning(32, 1.4, "leaky", skip=False, depth=12, draws=20, generator=generator)
    assert np.isinf(deep.condition).any()  # true condition numbers beyond 1e15
    assert np.isfinite(deep.bound).all()
    assert deep.violations == 0
    broken = Conditioning(np.array([3.1, np.inf, np.inf]), np.zeros(3), np.array([3.0, 1e6, np.inf]))
    assert broken.violations == 2


def test_no_skip_bound_holds_without_a_small_branch():
    for e in (1e-2, 1e-6):
        near = layer_conditioning(np.diag([-(1 - e), 0.0, 0.0]), np.ones(3), skip=True)
        assert float(near.condition) == pytest.approx(1 / e, rel=1e-9)
    assert skip_bound(1.0) == np.inf


def test_a_relu_layer_without_skip_is_singular_and_a_leaky_one_costs_its_slope():
    weight = torch.randn(8, 8, generator=torch.Generator().manual_seed(0)).double().numpy()
    off = np.ones(8)
    off[3] = 0.0
    assert layer_conditioning(weight, off, skip=False).condition == np.inf
    leaky = layer_conditioning(weight, np.where(off == 0, 0.1, 1.0), skip=False)
    assert leaky.condition <= leaky.bound
    assert float(leaky.bound) == pytest.approx(10 * float(condition_number(weight)))


@pytest.mark.parametrize("name", [name for name in CASES if "1e8" not in name])
def test_the_factor_gives_the_gauss_newton_matrix(name):
    model, x, y, layer = case(name)
    factor = curvature_factor(model, x, y, layer=layer)
    np.testing.assert_allclose(ss.curvature(model, x, y, layer=layer).dense(), factor.T @ factor, atol=1e-12)
    classes = torch.tensor([0, 1, 1, 0, 1, 0])
    factor = curvature_factor(model, x, classes, loss="cross_entropy")
    ggn = ss.curvature(model, x, classes, loss="cross_entropy")
    np.testing.assert_allclose(ggn.dense(), factor.T @ factor, atol=1e-12)


def test_the_model_itself_is_a_layer_with_all_its_parameters():
    torch.manual_seed(0)
    model = nn.Linear(3, 2).double().eval()
    x, y = torch.randn(7, 3).double(), torch.randn(7, 2).double()
    np.testing.assert_array_equal(curvature_factor(model, x, y, layer=""), curvature_factor(model, x, y))
    assert break_distance(model, x, "").radius == float("inf")
