"""Distances to the decision boundary: against exact tilings of planes, samples and attacks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import splinescope as ss

from .networks import conv, mlp, pooled, seeded


def centred(net, size):
    """The network with outputs of mean zero about the origin: several classes are near."""
    x = torch.randn(300, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        net[-1].bias -= net(x).mean(0)
    return net


def winners(net, x):
    with torch.no_grad():
        y = net(torch.from_numpy(x)).reshape(len(x), -1).numpy()
    return y.argmax(1) if y.shape[1] > 1 else y[:, 0] > 0


@pytest.mark.parametrize("outputs", [1, 3])
def test_distances_are_those_to_the_boundary_of_the_exact_tiling(outputs):
    net = centred(mlp(2, 10, 8, outputs), 2)
    x = np.random.default_rng(1).standard_normal((5, 2))
    tiling = ss.tessellate(net, ss.Slice.axes(np.zeros(2), (0, 1), -20.0, 20.0))
    found = ss.space.boundary_distance(net, x)
    assert found.certainty == "exact"
    line = tiling.decision_boundary() if outputs > 1 else tiling.level_set(0.0)
    ends = np.asarray(line.segments).reshape(-1, 2, 2)
    a, along = ends[:, 0], ends[:, 1] - ends[:, 0]
    share = np.clip(((x[:, None] - a) * along).sum(2) / (along**2).sum(1), 0, 1)
    expected = np.linalg.norm(x[:, None] - a - share[..., None] * along, axis=2).min(1)
    np.testing.assert_allclose(found.upper, expected, rtol=1e-7)


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("inputs", [3, 5])
def test_no_sample_nearer_than_the_distance_has_another_class(inputs, norm):
    net = centred(mlp(inputs, 8, 6, 3), inputs)
    x = 0.5 * np.random.default_rng(2).standard_normal((2, inputs))
    found = ss.space.boundary_distance(net, x, norm=norm)
    assert found.exact.all()
    random = np.random.default_rng(0)
    for row, far, point in zip(x, found.upper, found.points, strict=True):
        ways = random.standard_normal((20_000, inputs))
        ways /= np.linalg.norm(ways, ord=norm, axis=1, keepdims=True)
        assert (winners(net, row + 0.999 * far * ways) == winners(net, row[None])).all()
        assert np.linalg.norm(point - row, ord=norm) == pytest.approx(far, rel=1e-7)
        beyond = row + (1 + 1e-6) * (point - row)
        assert winners(net, beyond[None]) != winners(net, row[None])


@pytest.mark.parametrize("make", [conv, pooled])
def test_bounds_of_image_networks_hold_against_attacks(make):
    """Any time: the proven bound grows, an attack is never below it."""
    net = seeded(make)
    x = np.random.default_rng(3).standard_normal((1, 1, 6, 6))
    found = ss.space.boundary_distance(net, x, time_limit=0.5)
    assert found.lower[0] > 0
    assert found.lower[0] <= found.upper[0]
    ways = np.random.default_rng(0).standard_normal((5000, 36))
    near = x + (0.999 * found.lower[0] * ways / np.linalg.norm(ways, axis=1, keepdims=True)).reshape(-1, 1, 6, 6)
    assert (winners(net, near) == winners(net, x)).all()


def test_where_one_class_wins_everywhere_there_is_no_boundary():
    net = mlp(2, 4, 2)
    with torch.no_grad():
        net[-1].weight[1] = net[-1].weight[0]
        net[-1].bias.copy_(torch.tensor([1.0, 0.0]))
    found = ss.space.boundary_distance(net, np.zeros((1, 2)))
    assert found.upper[0] == math.inf
    assert found.lower[0] == math.inf
    assert np.isnan(found.points).all()


def test_inputs_must_be_rows():
    with pytest.raises(ss.InputError, match=r"shape \(N, \*input_shape\)"):
        ss.space.boundary_distance(mlp(3, 4, 2), np.zeros(3))
    none = ss.space.boundary_distance(mlp(3, 4, 2), np.zeros((0, 3)))
    assert len(none.lower) == 0
    assert "No inputs" in none.summary()
