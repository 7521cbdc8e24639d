"""Expectations against Monte Carlo, quadrature and closed forms, degenerate networks included."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torch import nn

import splinescope as ss
from splinescope.guarantees import Property, expectation

from .test_verify import NETS, mlp


def sharp(inputs: int, classes: int, *, bias: bool = True, seed: int = 0) -> nn.Sequential:
    """A network with many classes that win somewhere."""
    net = mlp(inputs, 8, 6, classes, seed=seed, bias=bias)
    with torch.no_grad():
        net[0].weight.mul_(4.0)
        net[4].weight.mul_(20.0)
    return net


def outputs_of(net: nn.Module, x: np.ndarray) -> np.ndarray:
    return net(torch.from_numpy(x)).detach().numpy()


def agrees(found: ss.guarantees.expectation, y: np.ndarray, deviations: float = 5.0) -> None:
    """Every number is within some standard errors of that of samples `[n, C]`."""
    n, size = y.shape
    wins = y.argmax(1) if size > 1 else (y[:, 0] > 0).astype(int)
    shares = np.bincount(wins, minlength=max(2, size)) / n
    spread = y.std(0)
    assert (np.abs(found.mean - y.mean(0)) <= deviations * spread / np.sqrt(n) + 1e-12).all()
    fourth = np.sqrt(((y - y.mean(0)) ** 4).mean(0))
    limit = deviations * np.sqrt(np.outer(fourth, fourth) / n) + 1e-12
    assert (np.abs(found.covariance - np.cov(y.T, ddof=0)) <= limit).all()
    assert (np.abs(found.classes - shares) <= deviations * np.sqrt(np.maximum(shares, 1 / n) / n) + 1e-9).all()
    assert found.classes.sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("name", NETS)
def test_exact_numbers_are_those_of_samples_on_every_kind_of_network(name: str) -> None:
    net = NETS[name]()
    inputs = 3 if name == "three inputs" else 2
    asked = Property.between(0, -0.1, 0.3)
    found = expectation(net, (-1.0, 1.5), property=asked, quantity="slope")
    x = np.random.default_rng(0).uniform(-1.0, 1.5, (100_000, inputs))
    y = outputs_of(net, x)
    agrees(found, y)
    assert found.certainty == "exact"
    assert found.missed < 1e-12
    out = ((y[:, 0] < -0.1) | (y[:, 0] > 0.3)).mean()
    assert found.unsafe == pytest.approx(out, abs=5 * 0.5 / np.sqrt(len(x)))
    tiling = ss.tessellate(net, ss.Slice.axes(np.zeros(inputs), tuple(range(inputs)), -1.0, 1.5))
    weights = tiling.areas / tiling.areas.sum()
    assert found.quantity == pytest.approx(weights @ tiling.slope_norms(), rel=1e-12)
    np.testing.assert_allclose(
        expectation(net, (-1.0, 1.5), quantity=lambda t: t.slopes().reshape(t.count, -1)).quantity,
        weights @ tiling.slopes().reshape(tiling.count, -1), rtol=1e-9, atol=1e-12,
    )  # fmt: skip


@pytest.mark.parametrize(("inputs", "classes"), [(1, 4), (2, 100), (3, 100), (4, 12), (2, 1), (5, 3)])
def test_classes_are_cut_where_they_meet_and_only_there(inputs: int, classes: int) -> None:
    net = sharp(inputs, classes)
    found = expectation(net, (-1.0, 1.0))
    y = outputs_of(net, np.random.default_rng(1).uniform(-1.0, 1.0, (40_000, inputs)))
    agrees(found, y)
    seen = np.unique(y.argmax(1)) if classes > 1 else np.arange(2)
    assert (found.classes[seen] > 0).all()
    assert len(seen) > (inputs < 5)


def test_a_class_that_wins_at_no_corner_is_found_and_ties_go_to_the_first() -> None:
    net = nn.Linear(1, 4).double()
    with torch.no_grad():  # -x, x, .5 and again .5: the third wins between -.5 and .5
        net.weight.copy_(torch.tensor([[-1.0], [1.0], [0.0], [0.0]]))
        net.bias.copy_(torch.tensor([0.0, 0.0, 0.5, 0.5]))
    np.testing.assert_allclose(expectation(net, ([-1.0], [1.0])).classes, [0.25, 0.25, 0.5, 0.0], atol=1e-15)
    square = nn.Sequential(nn.Linear(2, 5)).double()
    with torch.no_grad():  # the same in a square: |x| or |y| above .5 beats the constant
        square[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 0.0]]))
        square[0].bias.copy_(torch.tensor([0.0, 0.0, 0.0, 0.0, 0.5]))
    np.testing.assert_allclose(expectation(square, (-1.0, 1.0)).classes, [3 / 16] * 4 + [1 / 4], atol=1e-14)


def test_moments_of_an_affine_map_on_a_triangle_are_closed() -> None:
    net = nn.Linear(2, 2).double()
    triangle = ss.guarantees.polytope([[1.0, 1.0]], [1.0], (0.0, 1.0))
    w, b = net.weight.detach().numpy(), net.bias.detach().numpy()
    found = expectation(net, triangle)
    np.testing.assert_allclose(found.mean, w @ [1 / 3, 1 / 3] + b, rtol=1e-12)
    spread = np.array([[2.0, -1.0], [-1.0, 2.0]]) / 36
    np.testing.assert_allclose(found.covariance, w @ spread @ w.T, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("bias", [True, False])
def test_a_gaussian_on_a_line_is_exact_by_quadrature(bias: bool) -> None:
    net = sharp(1, 3, bias=bias)
    low, high, mean, std = -2.0, 1.5, 0.3, 0.6
    found = expectation(net, ([low], [high]), (mean, std), property=Property.class_wins(0), quantity="slope")
    tiling = ss.tessellate(net, ss.Slice.axes([0.0], 0, low, high))
    places = np.sort(tiling.vertices[:, 0])
    mass = norm.cdf(high, mean, std) - norm.cdf(low, mean, std)

    def integral(of: object) -> float:
        def density(t: float) -> float:
            return float(of(outputs_of(net, np.array([[t]]))[0])) * norm.pdf(t, mean, std)  # type: ignore[operator]

        return quad(density, low, high, points=places, limit=400, epsabs=1e-10)[0] / mass

    means = np.array([integral(lambda y, i=i: y[i]) for i in range(3)])
    np.testing.assert_allclose(found.mean, means, atol=1e-9)
    second = integral(lambda y: y[0] * y[1])
    assert found.covariance[0, 1] == pytest.approx(second - means[0] * means[1], abs=1e-8)
    assert found.classes[1] == pytest.approx(integral(lambda y: y.argmax() == 1), abs=1e-5)
    assert found.unsafe == pytest.approx(1 - found.classes[0], abs=1e-9)
    assert found.certainty == "exact"
    far = expectation(net, ([6.0], [7.0]), (-3.0, 0.5))  # 18 deviations away: differences of tails keep their digits
    assert 0 < far.classes.max() <= 1 + 1e-12
    assert np.isfinite(far.mean).all()


def test_a_gaussian_in_a_polytope_comes_with_an_error_that_covers_it() -> None:
    net = sharp(2, 3)
    view = ss.guarantees.polytope([[1.0, 1.0]], [0.5], (-1.0, 1.0))
    found = expectation(net, view, (0.2, [0.5, 0.8]), property=Property.between(0, 0.0), quantity="slope")
    assert found.certainty == "estimate"
    x = np.random.default_rng(2).normal([0.2, 0.2], [0.5, 0.8], (400_000, 2))
    x = x[(np.abs(x) <= 1).all(1) & (x.sum(1) <= 0.5)]
    y = outputs_of(net, x)
    spread = np.sqrt(y.var(0) / len(y) + found.errors["mean"] ** 2)
    assert (np.abs(found.mean - y.mean(0)) <= 5 * spread).all()
    assert (found.errors["mean"] < 0.02 * y.std(0)).all()
    assert found.unsafe == pytest.approx((y[:, 0] < 0).mean(), abs=0.005)
    slopes = ss.tessellate(net, view).slope_norms()
    assert slopes.min() < found.quantity < slopes.max()
    rare = Property.never(np.zeros(3), -4.0, x_rows=[[-1.0, 0.0]])  # the first input beyond 4
    found = expectation(net, (-5.0, 5.0), (0.0, 1.0), property=rare, count=1024)
    assert abs(found.unsafe - 3.14e-5) <= found.errors["unsafe"]


def test_equality_is_safe_for_points_of_a_strict_property() -> None:
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU()).double()  # exactly 0 on half of the square
    for over, law in (((-1.0, 1.0), (0.0, 1.0)), ((-1.0, 1.0), "uniform"), (([-9.0] * 2, [-9.0] * 2), "uniform")):
        asked = Property.between(0, 0.0)
        assert expectation(net, over, law, property=asked).unsafe == pytest.approx(0.0, abs=1e-9)


def test_a_point_and_what_has_no_expectation() -> None:
    net = mlp(2, 4, 2)
    found = expectation(net, ([0.5, 0.5], [0.5, 0.5]), property=Property.between(0, 5.0))
    assert set(found.rounding) == {"mean", "covariance", "classes", "unsafe"}
    np.testing.assert_allclose(found.mean, outputs_of(net, np.array([[0.5, 0.5]]))[0])
    assert found.unsafe == 1.0
    assert found.classes.sum() == 1.0
    for given, message in (
        ({"law": "normal"}, 'law must be "uniform"'),
        ({"law": (0.0, -1.0)}, "positive"),
        ({"law": ([0.0, 0.0, 0.0], 1.0)}, "2 of them"),
        ({"law": (1e6, 1.0)}, "mass"),
        ({"property": Property.monotone(0)}, "slopes"),
        ({"quantity": lambda tiling: [1.0]}, "per tile"),
        ({"count": 3}, "count"),
    ):
        with pytest.raises(ss.InputError, match=message):
            expectation(net, (-1.0, 1.0), **given)
    with pytest.raises(ss.LimitReached):
        expectation(mlp(2, 20, 20, 2), (-1.0, 1.0), max_tiles=3)
