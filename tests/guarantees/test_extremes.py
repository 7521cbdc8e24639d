"""Exact ranges against plain tilings, random search and linear programs over polytopes."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

import splinescope as ss
from splinescope.guarantees import output_range, polytope

from .test_lipschitz import network
from .test_verify import NETS, mlp


@pytest.mark.parametrize("name", NETS)
def test_ranges_are_those_of_a_plain_tiling(name: str) -> None:
    net = NETS[name]()
    inputs = 3 if name == "three inputs" else 2
    view = ss.Slice.axes(np.zeros(inputs), tuple(range(inputs)), -1.0, 1.5)
    values = ss.tessellate(net, view).values
    assert values is not None
    found = output_range(net, view)
    np.testing.assert_allclose(found.low, values.min(0), atol=1e-10)
    np.testing.assert_allclose(found.high, values.max(0), atol=1e-10)
    for places, extremes in ((found.low_at, found.low), (found.high_at, found.high)):
        y = net(torch.from_numpy(places)).detach().numpy()
        np.testing.assert_allclose(np.diag(y), extremes, atol=1e-10)


@pytest.mark.parametrize("change", ["", "zero bias", "duplicate unit", "dead unit"])
def test_ranges_are_the_extremes_of_linear_programs_over_all_patterns(change: str) -> None:
    """Each pattern of two hidden layers, possible or not, makes a polytope and an affine map on it."""
    net = network(5, 3, 4, 3, 2, change=change)
    (w1, b1), (w2, b2), (w3, b3) = ((m.weight.detach().numpy(), m.bias.detach().numpy()) for m in net[::2])
    low, high = np.full(2, np.inf), np.full(2, -np.inf)
    for one in product((0.0, 1.0), repeat=4):
        a, c = w2 @ np.diag(one) @ w1, w2 @ np.diag(one) @ b1 + b2
        for two in product((0.0, 1.0), repeat=3):
            sign = 1 - 2 * np.array(one + two)
            rows, ends = sign[:, None] * np.concatenate([w1, a]), -sign * np.concatenate([b1, c])
            slopes, offsets = w3 @ np.diag(two) @ a, w3 @ np.diag(two) @ c + b3
            for slope, offset, k in zip(slopes, offsets, (0, 1), strict=True):
                least, most = (linprog(s * slope, rows, ends, bounds=(-0.8, 0.8)) for s in (1, -1))
                if least.success and most.success:
                    low[k], high[k] = min(low[k], least.fun + offset), max(high[k], offset - most.fun)
    found = output_range(net, (-0.8, 0.8))
    np.testing.assert_allclose(found.low, low, atol=1e-8)  # the programs' own tolerance
    np.testing.assert_allclose(found.high, high, atol=1e-8)


def test_no_sample_of_a_polytope_is_beyond_the_range() -> None:
    net = mlp(3, 8, 6, 2, seed=11)
    view = polytope([[1.0, 1.0, 1.0], [1.0, -2.0, 0.5]], [1.0, 0.5], (-1.0, 1.0))
    forms = np.array([[1.0, -1.0], [0.5, 2.0]])
    found = output_range(net, view, forms=forms)
    points = np.random.default_rng(0).uniform(-1, 1, (40_000, 3))
    points = points[(points.sum(1) <= 1) & (points @ [1.0, -2.0, 0.5] <= 0.5)]
    values = net(torch.from_numpy(points)).detach().numpy() @ forms.T
    assert (values.min(0) >= found.low - 1e-10).all()
    assert (values.max(0) <= found.high + 1e-10).all()
    assert (found.high - values.max(0) < 0.2 * (found.high - found.low)).all()
    assert view.size == pytest.approx(8 * len(points) / 40_000, rel=0.05)


def test_a_point_has_a_range_too_and_wrong_forms_are_refused() -> None:
    net = mlp(2, 4, 2)
    found = output_range(net, ([0.5, 0.5], [0.5, 0.5]))
    assert (found.low == found.high).all()
    with pytest.raises(ss.InputError, match="forms"):
        output_range(net, (0.0, 1.0), forms=[[1.0, 0.0, 0.0]])
    with pytest.raises(ss.LimitReached, match="max_tiles"):
        output_range(mlp(4, 20, 20, 20, 1), (-1.0, 1.0), max_tiles=2)
    with pytest.raises(ss.InputError, match="volume"):
        polytope([[1.0, 0.0]], [-2.0], (-1.0, 1.0))
