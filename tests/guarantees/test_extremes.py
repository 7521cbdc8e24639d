"""Exact ranges against plain tilings, random search and linear programs over polytopes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import splinescope as ss
from splinescope.guarantees import output_range, polytope

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
