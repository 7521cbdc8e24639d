"""Distances to the decision boundary: against exact tilings of planes, samples and attacks."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import nn

import splinescope as ss
from splinescope.space.cell import cell_at
from splinescope.space.polytope import Polytope, UnresolvedError
from splinescope.space.safe_ball import safe_radius

from ..tiling.engine.test_workers import in_this_process
from .networks import Minimum, Skip, conv, mlp, pooled, seeded


def centered(net, size):
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
    net = centered(mlp(2, 10, 8, outputs), 2)
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


def leads_in_cube(net, x, half_width):
    """Per tile of the cube about x: corners less x, and the winner's leads there over every other class."""
    size = len(x)
    tiling = ss.tessellate(net, ss.Slice.axes(np.zeros(size), range(size), x - half_width, x + half_width))
    tiles = tiling.tiles.some(np.arange(tiling.count))
    winner = int(winners(net, x[None])[0])
    leads = tiling.values[:, [winner]] - np.delete(tiling.values, winner, 1)
    return [(tiling.vertices[own] - x, leads[own]) for own in np.split(tiles.corners, tiles.offsets[1:-1])]


def distance_to_hull(corners):
    """Of the origin: weights that add up to 1, by non-negative least squares."""
    weights = nnls(np.vstack([corners.T, np.ones(len(corners))]), np.append(np.zeros(corners.shape[1]), 1.0))[0]
    return np.linalg.norm(weights @ corners) / weights.sum()


@pytest.mark.parametrize("inputs", [3, 4, 5])
def test_distances_are_the_least_over_all_cells_of_an_exact_tiling(inputs):
    """Where a lead changes its sign within a cell, its zeros are the hull of those between any two corners."""
    net = centered(mlp(inputs, 8, 6, 3), inputs)
    x = 0.5 * np.random.default_rng(2).standard_normal((2, inputs))
    found = ss.space.boundary_distance(net, x)
    assert found.exact.all()
    for row, far, point in zip(x, found.upper, found.points, strict=True):
        least = math.inf
        for corners, leads in leads_in_cube(net, row, 1.01 * far):
            for lead in leads.T:
                a, b = np.nonzero((lead[:, None] > 0) & (lead <= 0))
                if len(a):
                    share = (lead[a] / (lead[a] - lead[b]))[:, None]
                    least = min(least, distance_to_hull(corners[a] + share * (corners[b] - corners[a])))
        assert least == pytest.approx(far, rel=1e-7)
        assert np.linalg.norm(point - row) == pytest.approx(far, rel=1e-9)
        assert winners(net, (row + (1 + 1e-6) * (point - row))[None]) != winners(net, row[None])


@pytest.mark.parametrize("inputs", [2, 3, 5])
def test_the_cube_of_the_distance_holds_one_class_and_a_larger_one_does_not(inputs):
    net = centered(mlp(inputs, 8, 6, 3), inputs)
    x = 0.5 * np.random.default_rng(3).standard_normal((2, inputs))
    found = ss.space.boundary_distance(net, x, norm=math.inf)
    assert found.exact.all()
    for row, far in zip(x, found.upper, strict=True):
        assert min(leads.min() for _, leads in leads_in_cube(net, row, (1 - 1e-7) * far)) > 0
        assert min(leads.min() for _, leads in leads_in_cube(net, row, (1 + 1e-7) * far)) < 0


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize(("make", "shape"), [(conv, (1, 6, 6)), (pooled, (1, 6, 6)), (Skip, (6,)), (Minimum, (7,)),
                                             (lambda: mlp(20, 40, 40, 3), (20,))])  # fmt: skip
def test_a_ball_of_one_class_is_proven_without_a_search(make, shape, norm):
    """By a relaxation, of a good part of the distance; neither samples nor the exact distance contradict."""
    net, x = seeded(make), np.random.default_rng(3).standard_normal(shape)
    winner = winners(net, x[None])[0]
    space = cell_at(ss.trace(net, torch.from_numpy(x[None])).program(), x).space
    found = ss.space.boundary_distance(net, x[None], norm=norm, time_limit=2.0)
    upper = found.upper[0]
    proven = safe_radius(space, lambda rows: rows[:, [winner]] - np.delete(rows, winner, 1), norm, upper, lambda: False)
    assert 0.3 * upper < proven <= upper
    ways = np.random.default_rng(0).standard_normal((5000, *shape))
    sizes = np.linalg.norm(ways.reshape(5000, -1), axis=1).reshape(-1, *[1] * len(shape))
    ways = ways / sizes if norm == 2 else np.sign(ways)
    assert (winners(net, x + 0.999 * max(proven, found.lower[0]) * ways) == winner).all()


def test_where_one_class_wins_everywhere_there_is_no_boundary():
    net = mlp(2, 4, 2)
    with torch.no_grad():
        net[-1].weight[1] = net[-1].weight[0]
        net[-1].bias.copy_(torch.tensor([1.0, 0.0]))
    found = ss.space.boundary_distance(net, np.zeros((1, 2)))
    assert found.upper[0] == math.inf
    assert found.lower[0] == math.inf
    assert np.isnan(found.points).all()


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("outputs", [1, 3])
def test_an_input_whose_whole_tile_ties_lies_on_the_boundary(outputs, norm):
    net = mlp(2, 4, outputs)
    with torch.no_grad():
        net[0].weight.abs_()
        net[0].bias.zero_()
        net[-1].bias.zero_()
    found = ss.space.boundary_distance(net, -np.ones((1, 2)), norm=norm)  # all units are off: every output is 0
    assert found.lower[0] == found.upper[0] == 0
    np.testing.assert_array_equal(found.points, -np.ones((1, 2)))


@pytest.mark.parametrize("seed", [228, 263, 270, 374, 375])
def test_slopes_of_rounding_make_no_boundary(seed):
    """Integer weights that cancel: what the outputs' slopes are off would put one at 1e16 and more."""
    net = mlp(5, 3, 6, 3, seed=seed)
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_((3 * weight).round())
    found = ss.space.boundary_distance(net, np.random.default_rng(seed).integers(-1, 2, (2, 5)).astype(float))
    assert ((found.upper == math.inf) | (found.upper < 1e3)).all()
    assert found.exact.all()


@pytest.mark.parametrize("traced", [False, True])
def test_workers_find_the_same_distances(traced, monkeypatch):
    in_this_process(monkeypatch)
    net = centered(mlp(3, 6, 5, 2), 3)
    x = np.random.default_rng(4).standard_normal((5, 3))
    model = ss.trace(net, torch.from_numpy(x[:1])) if traced else net
    one, shared = ss.space.boundary_distance(model, x), ss.space.boundary_distance(model, x, workers=2)
    for name in ("lower", "upper", "points", "tiles"):
        np.testing.assert_array_equal(getattr(one, name), getattr(shared, name))


def test_a_limit_leaves_a_proven_lower_bound_and_says_so():
    net = centered(mlp(30, 40, 40, 3), 30)
    x = np.random.default_rng(5).standard_normal((1, 30))
    found = ss.space.boundary_distance(net, x, time_limit=1e-9)
    assert (found.certainty, found.exact.any()) == ("bound", False)
    assert 0 <= found.lower[0] < found.upper[0]
    assert "exact for 0" in found.summary()


def test_a_tile_too_thin_for_float64_leaves_proven_bounds(monkeypatch):
    net, x = centered(mlp(5, 12, 12, 3), 5), np.full((1, 5), 0.1)
    whole, asked, is_facet = ss.space.boundary_distance(net, x), itertools.count(), Polytope.is_facet

    def thin(self, row):
        if next(asked) == 20:
            raise UnresolvedError("thin")
        return is_facet(self, row)

    monkeypatch.setattr(Polytope, "is_facet", thin)
    found = ss.space.boundary_distance(net, x)
    assert (whole.certainty, found.certainty) == ("exact", "bound")
    assert 0 < found.lower[0] < whole.lower[0] <= found.upper[0]


def test_the_first_axis_of_inputs_is_their_number():
    """A linear layer takes rows of any number of axes: only the first one counts inputs."""
    net, x = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2)).double(), np.ones((3, 4, 2))
    found = ss.space.boundary_distance(net, x, time_limit=5.0)
    assert found.points.shape == (3, 4, 2)
    np.testing.assert_allclose(found.upper, ss.space.boundary_distance(net, x[:1], time_limit=5.0).upper[0])
    none = ss.space.boundary_distance(net, x[:0])
    assert (len(none.lower), "No inputs" in none.summary()) == (0, True)
