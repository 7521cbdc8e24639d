"""Tilings within a tolerance: the bound holds, is not vacuous, and falls with the square of the number of knots."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope import InputError, SplinescopeError, UnsupportedModelError
from splinescope.network.interpolants import curve_of, interpolant
from splinescope.network.program import Fold

from ..smooth.models import NewGELU
from ..smooth.networks import ACTIVATIONS, Called, deviation_at, random_network

VIEW = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)


def two_layers(activation: nn.Module, width: int = 8, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, width), activation, nn.Linear(width, 2)).double()


CURVES = {
    "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu, "mish": torch.nn.functional.mish,
    "softplus": torch.nn.functional.softplus, "log_sigmoid": torch.nn.functional.logsigmoid, "sigmoid": torch.sigmoid,
    "tanh": torch.tanh, "erf": torch.erf, "atan": torch.atan, "splinescope.softsign": torch.nn.functional.softsign,
    "hardswish": torch.nn.functional.hardswish, "elu": torch.nn.functional.elu, "celu": torch.nn.functional.celu,
    "selu": torch.nn.functional.selu, "exp": torch.exp, "sin": torch.sin, "square": torch.square,
}  # fmt: skip


@pytest.mark.parametrize("name", CURVES)
def test_an_interpolant_is_within_its_error_everywhere_and_errors_are_equal(name):
    """Coarse ones, too: GELU and its like meet their asymptotes at 0 and leave them again, where no tail may begin."""
    curve = curve_of(name, CURVES[name], {})
    low, high = (-np.inf if curve.left else -3.0), (np.inf if curve.right else 4.0)
    for eps in (2.0, 0.3, 0.15, 1e-3):
        found = interpolant(curve, eps, low, high)
        ends = max(found.knots[0] - 30, low), min(found.knots[-1] + 30, high)
        x = np.concatenate([np.linspace(*ends, 50_001), np.linspace(found.knots[0], found.knots[-1], 50_001)])
        errors = np.abs(curve.values(x) - found(torch.from_numpy(x)).numpy())
        assert errors.max() <= found.error * (1 + 1e-9) <= eps * (1 + 1e-9)
    assert errors.max() >= 0.8 * found.error  # the error is not an overestimate
    place = np.searchsorted(found.knots, x)
    each = np.array([errors[place == i].max(initial=0) for i in range(1, len(found.knots))])
    assert np.median(each) > 0.5 * found.error
    more = interpolant(curve, 1e-5, low, high)
    assert len(more.knots) == pytest.approx(10 * len(found.knots), rel=0.25)  # eps^(-1/2)


@pytest.mark.parametrize("seed", range(6))
def test_no_point_deviates_by_more_than_the_bound(seed):
    net, view = random_network(seed)
    tiling = ss.tessellate(net, view, tolerance=0.05, threads=1)
    assert tiling.check().ok
    found = tiling.approximation
    assert found.tolerance == 0.05
    assert (found.bound if found.basis == "bound" else found.deviation) <= 0.05
    assert deviation_at(net, tiling, 10_000) <= found.bound
    assert found.deviation <= found.bound


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_on_two_layers_the_bound_is_proven_and_within_a_hundred_of_what_is_measured(activation):
    net = two_layers(activation)
    tiling = ss.tessellate(net, VIEW, tolerance=0.02, threads=1)
    assert tiling.approximation.basis == "bound"
    assert tiling.approximation.certainty == "bound"
    measured = deviation_at(net, tiling, 5_000)
    assert measured <= tiling.bound <= min(0.02, 100 * measured)


def test_the_error_falls_with_the_square_of_the_number_of_knots():
    net = two_layers(nn.GELU())
    line = ss.Slice.segment([-2.0, -1.0], [2.0, 1.5])
    counts, errors = [], []
    for tolerance in (1e-1, 1e-2, 1e-3, 1e-4):
        tiling = ss.tessellate(net, line, tolerance=tolerance, threads=1)
        assert tiling.tolerance == tolerance
        counts.append(tiling.sites[0].units)
        errors.append(tiling.deviation)
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert slope == pytest.approx(-2, abs=0.15)


def test_walls_know_their_unit_and_knot():
    net = two_layers(nn.Tanh(), width=3)
    tiling = ss.tessellate(net, VIEW, tolerance=0.05, threads=1)
    inner = tiling.walls.cuts >= 0
    middle = tiling.vertices[tiling.walls.ends[inner]].mean(1)
    z = net[0](torch.from_numpy(tiling.view.inputs(middle))).detach().numpy()
    cuts = tiling.walls.cuts[inner]
    element, knot = tiling.approximation.elements[cuts], tiling.approximation.knots[cuts]
    assert np.allclose(z[np.arange(len(cuts)), element], knot, atol=1e-9)
    assert len(np.unique(knot)) > 5


def test_it_is_a_tiling_like_any_other(tmp_path):
    net = two_layers(nn.SiLU())
    tiling = ss.tessellate(net, VIEW, tolerance=0.05, threads=1)
    x = torch.from_numpy(np.random.default_rng(0).uniform(-2, 2, size=(200, 2)))
    near = tiling.frozen.forward(x).numpy()
    assert np.abs(near - net(x).detach().numpy()).max() <= tiling.bound
    assert tiling.decision_boundary().length > 0
    tiling.save(tmp_path / "soft.tiling")
    again = ss.load_tiling(tmp_path / "soft.tiling", model=tiling.network)
    assert again.approximation.bound == tiling.bound
    assert again.approximation.basis == "bound"
    assert np.array_equal(again.approximation.knots, tiling.approximation.knots)
    assert np.allclose(again.frozen.forward(x), near)
    assert "within 0.05 by bound" in repr(tiling)


def test_a_bound_that_is_hopeless_gives_way_to_what_is_measured_and_says_so():
    torch.manual_seed(0)
    layers = [m for _ in range(9) for m in (nn.Linear(10, 10), nn.Tanh())]
    net = nn.Sequential(nn.Linear(2, 10), nn.Tanh(), *layers, nn.Linear(10, 1)).double()
    with torch.no_grad():
        for layer in net[::2]:
            layer.weight.mul_(1.5)
    line = ss.Slice.segment([-0.3, -0.2], [0.4, 0.1])
    tiling = ss.tessellate(net, line, tolerance=0.05, threads=1)
    found = tiling.approximation
    assert found.basis == "deviation"
    assert found.certainty == "estimate"
    assert found.deviation <= 0.05 < found.bound
    assert "what is proven is" in found.assurance
    assert deviation_at(net, tiling, 20_000) <= 0.06  # measured elsewhere: no proof, but near


def test_unbounded_functions_are_interpolated_where_the_slice_reaches():
    for function in (torch.exp, torch.sin, torch.square, lambda x: x**3):
        net = two_layers(Called(function), width=4)
        tiling = ss.tessellate(net, VIEW, tolerance=0.05, threads=1)
        assert deviation_at(net, tiling, 5_000) <= tiling.bound <= 0.05


@pytest.mark.parametrize("function", [torch.exp, torch.nn.functional.gelu, torch.nn.functional.hardswish])
def test_factored_rows_tile_the_interpolated_network_as_plain_ones_do(function):
    """Wide layers have factored rows; they are made from slopes far from the slice, where no other knots may act."""
    torch.manual_seed(1)
    act = Called(function)
    net = nn.Sequential(nn.Linear(2, 8), act, nn.Linear(8, 8), act, nn.Linear(8, 2)).double()
    plain, factored = (ss.tessellate(net, VIEW, tolerance=0.1, rows=rows, threads=1) for rows in ("plain", "factored"))
    assert plain.count == factored.count > 100
    for tiling in (plain, factored):
        assert tiling.check().ok
        near = tiling.frozen.forward(torch.from_numpy(tiling.view.inputs(tiling.vertices))).numpy()
        assert np.abs(tiling.values - near).max() <= 1e-11 * np.abs(near).max()


def test_a_softplus_that_jumps_at_its_threshold_is_followed_as_far_as_it_can_be():
    net = two_layers(nn.Softplus(beta=3.0, threshold=4.0), width=4)  # torch's goes over to x with a jump of .006
    with torch.no_grad():
        net[0].weight.mul_(3)
    tiling = ss.tessellate(net, VIEW, tolerance=0.1, threads=1)
    assert tiling.approximation.basis == "bound"
    assert 0.002 <= deviation_at(net, tiling, 20_000) <= tiling.bound <= 0.1
    with pytest.raises(UnsupportedModelError, match=r"softplus .* jumps by 6.0e-03 .* larger tolerance"):
        ss.tessellate(net, VIEW, tolerance=1e-3, threads=1)


def test_a_tolerance_that_asks_for_too_many_knots_is_refused_at_once():
    with pytest.raises(SplinescopeError, match=r"gelu needs more than 100,000 knots .* larger tolerance"):
        ss.tessellate(two_layers(nn.GELU()), VIEW, tolerance=1e-15)


OTHER_NAMES = {
    "a power of two": (Called(lambda x: x**2), Called(torch.square)),
    "pow": (Called(lambda x: torch.pow(x, 2.0)), Called(torch.square)),
    "arctan": (Called(torch.arctan), Called(torch.atan)),
    "GPT-2's GELU": (NewGELU(), nn.GELU(approximate="tanh")),
    "GELU by erf": (Called(lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))), nn.GELU()),
    "swish": (Called(lambda x: x * torch.sigmoid(x)), nn.SiLU()),
    "Mish": (Called(lambda x: x * torch.tanh(torch.nn.functional.softplus(x))), nn.Mish()),
    "CLIP's GELU": (
        Called(lambda x: x * torch.sigmoid(1.702 * x)),
        Called(lambda x: torch.nn.functional.silu(1.702 * x) / 1.702),
    ),
}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_an_activation_by_another_name_or_written_out_has_the_tiling_of_the_named_one(name):
    other, named = (
        ss.tessellate(two_layers(activation, width=4), VIEW, tolerance=0.05, threads=1)
        for activation in OTHER_NAMES[name]
    )
    assert other.count == named.count > 3
    assert np.allclose(other.vertices, named.vertices, atol=1e-9)


def test_other_products_are_refused_by_name():
    for function in (lambda x: x * torch.tanh(x), lambda x: x * torch.sigmoid(x + 0.1)):
        with pytest.raises(UnsupportedModelError, match="multiplies two values"):
            ss.tessellate(two_layers(Called(function), width=4), VIEW, tolerance=0.05)


def test_piecewise_affine_networks_stay_exact():
    net = two_layers(nn.ReLU())
    within = ss.tessellate(net, VIEW, tolerance=1e-3, threads=1)
    assert within.count == ss.tessellate(net, VIEW, threads=1).count
    assert (within.bound, within.deviation) == (0.0, 0.0)
    assert np.isnan(within.approximation.knots).all()


def test_without_a_tolerance_the_refusal_names_the_way_out():
    for activation in (nn.GELU(), nn.Hardswish(), nn.Tanh()):
        with pytest.raises(UnsupportedModelError, match=r"tolerance=1e-3"):
            ss.tessellate(two_layers(activation), VIEW)
    traced = ss.trace(two_layers(nn.GELU()), torch.zeros(1, 2), smooth=True)
    assert all(isinstance(fold, Fold) for fold in traced.program().folds)
    with pytest.raises(UnsupportedModelError, match="traced with smooth=True"):
        ss.tessellate(traced, VIEW)
    with pytest.raises(InputError, match="tolerance must be a positive number"):
        ss.tessellate(two_layers(nn.GELU()), VIEW, tolerance=0)
    with pytest.raises(UnsupportedModelError, match="layer_norm"):
        ss.tessellate(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)), VIEW, tolerance=1e-2)


def test_the_deviation_is_that_of_all_points_and_not_of_the_knots():
    """An interpolant of one unit is farthest from its curve between two knots, and every vertex lies at one."""
    net = nn.Sequential(nn.Linear(1, 1), nn.Tanh(), nn.Linear(1, 1)).double()
    with torch.no_grad():
        for layer in (net[0], net[2]):
            layer.weight.fill_(2.0), layer.bias.zero_()
    tiling = ss.tessellate(net, ss.Slice.segment([-1.0], [1.0]), tolerance=0.02)
    x = np.linspace(*tiling.view.domain[:, 0], 4001)[1:-1, None]
    with torch.no_grad():
        true = net(torch.from_numpy(tiling.view.inputs(x))).numpy()
    order = tiling.vertices[:, 0].argsort()
    gap = np.abs(np.interp(x[:, 0], tiling.vertices[order, 0], tiling.values[order, 0]) - true[:, 0]).max()
    assert 0.9 * gap <= tiling.deviation <= 1.1 * gap


def test_a_steep_corner_that_random_points_miss_is_refined_until_the_tolerance_is_kept():
    """What is planned by random points alone is off by the gain of a corner of the slice that none of them meets."""

    class Steep(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            bent = torch.tanh(3 * x[:, :1])
            return torch.relu(2000 * (bent + x[:, 1:] - 1.985))

    tiling = ss.tessellate(Steep(), ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1), tolerance=0.05)
    found = tiling.approximation
    assert found.basis == "deviation"  # the bound asks for too many knots
    corner = np.random.default_rng(0).uniform(0.97, 1.0, (4000, 2))
    with torch.no_grad():
        real = Steep()(torch.from_numpy(corner)).numpy()
    near = tiling.outputs(corner)
    assert (real > 0).any()
    assert 0.9 * np.abs(near - real).max() <= found.deviation <= found.tolerance
