"""What random lines say about folds in the whole input space."""

from functools import cache
from math import lgamma, log, pi

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.space.census import _LineCounter
from splinescope.tiling.measures.region_counts import crofton_constant


@cache
def network(d: int) -> tuple[nn.Sequential, ss.SplineNetwork]:
    """A network and its trace, which reads the parameters anew at every use."""
    net = nn.Sequential(nn.Linear(d, 10), nn.ReLU(), nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 1)).double()
    return net, ss.trace(net, torch.zeros(2, d, dtype=torch.float64))


def counts_on(traced: ss.SplineNetwork, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    flat = starts.reshape(len(starts), -1), ends.reshape(len(ends), -1)
    return _LineCounter(traced.program(), *flat).count(*flat)


def redraw(net: nn.Sequential, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)


@pytest.mark.parametrize("d", [2, 3])
def test_exact_areas_lie_within_three_standard_errors(d: int) -> None:
    """95% of 200 random networks, per site and in total: three standard errors are wider than that for a normal."""
    net, traced = network(d)
    low, high = np.full(d, -1.5), np.full(d, 1.0)
    view = ss.Slice.axes(np.zeros(d), tuple(range(d)), low, high)
    generator = torch.Generator().manual_seed(1)
    hits, off = [], []
    for seed in range(200):
        redraw(net, seed)
        folds = ss.tessellate(traced, view, threads=1).folds()
        exact = np.bincount(folds.sites, folds.lengths, minlength=2) / view.size
        census = ss.space.fold_census(traced, (low, high), lines=128, generator=generator)
        z = (census.densities - exact) / np.maximum(census.density_errors, 1e-12)
        hits += (np.abs(z) <= 3).tolist()
        total = crofton_constant(d) * exact.sum()
        off.append((census.total - total) / max(census.total_error, 1e-12))
    assert np.mean(hits) >= 0.95
    assert np.mean(np.abs(off) <= 3) >= 0.95
    assert abs(np.mean(off)) < 4 / np.sqrt(len(off))  # no bias: the mean of 200 scores is within 4 of its own errors


def log_ball(d: int) -> float:
    """Logarithm of the volume of the unit ball in d dimensions."""
    return d / 2 * log(pi) - lgamma(d / 2 + 1)


def area_of_discs(weight: np.ndarray, bias: np.ndarray, centers: np.ndarray, radius: float) -> float:
    """Mean (d-1)-volume per d-volume of hyperplanes in balls.

    One at distance h meets a ball of radius R in a ball of one dimension less, of radius sqrt(R^2 - h^2).
    """
    d = centers.shape[1]
    distances = np.abs(centers @ weight.T + bias) / np.linalg.norm(weight, axis=1)
    shares = np.clip(1 - (distances / radius) ** 2, 0, None) ** ((d - 1) / 2)
    return float(shares.sum(1).mean()) * np.exp(log_ball(d - 1) - log_ball(d)) / radius


def test_a_first_layer_in_784_dimensions_has_the_area_of_its_discs() -> None:
    torch.manual_seed(0)
    d, radius = 784, 6.0
    net = nn.Sequential(nn.Linear(d, 60), nn.ReLU(), nn.Linear(60, 20), nn.ReLU(), nn.Linear(20, 10)).double()
    centers = 0.2 * torch.randn(3, d, dtype=torch.float64)
    census = ss.space.fold_census(net, centers, radius=radius, lines=1500, generator=torch.Generator().manual_seed(2))
    exact = area_of_discs(net[0].weight.detach().numpy(), net[0].bias.detach().numpy(), centers.numpy(), radius)
    assert abs(census.densities[0] - exact) <= 3 * census.density_errors[0]
    assert census.density_errors[0] < 0.1 * exact


def test_crossings_of_a_line_are_those_of_its_own_tiling() -> None:
    net, traced = network(3)
    redraw(net, 5)
    generator = np.random.default_rng(0)
    starts, ends = generator.normal(size=(2, 40, 3)) * 2
    counts = counts_on(traced, starts, ends)
    for a, b, count in zip(starts, ends, counts, strict=True):
        walls = ss.tessellate(traced, ss.Slice.segment(a, b), threads=1).walls
        assert np.bincount(walls.sites[walls.sites >= 0], minlength=2).tolist() == count.tolist()


def test_max_pools_count_only_walls_of_the_network() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)).double()
    traced = ss.trace(net, torch.zeros(2, 1, 6, 6, dtype=torch.float64))
    starts, ends = np.random.default_rng(0).normal(size=(2, 10, 1, 6, 6)) * 2
    counts = counts_on(traced, starts, ends)
    for a, b, count in zip(starts, ends, counts, strict=True):
        assert ss.tessellate(traced, ss.Slice.segment(a, b), threads=1).count - 1 == count.sum()


def test_the_stopping_rule_draws_until_the_error_is_small() -> None:
    net, traced = network(3)
    redraw(net, 3)
    where = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    few = ss.space.fold_census(traced, where, radius=0.5, lines=8, generator=torch.Generator().manual_seed(0))
    many = ss.space.fold_census(
        traced, where, radius=0.5, lines=8, rtol=0.05, generator=torch.Generator().manual_seed(0)
    )
    assert few.total_error > 0.05 * few.total
    assert many.total_error <= 0.05 * many.total
    assert many.lines > few.lines
    capped = ss.space.fold_census(traced, where, radius=0.5, lines=8, rtol=1e-6, max_lines=32)
    assert capped.lines == 32
    assert "estimate" in repr(many)
    assert "folds per length" in many.summary()
    assert many.by_point.shape == (2,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"where": np.zeros((2, 3))}, "pair"),
        ({"where": (np.zeros(3), np.zeros(3))}, "low below high"),
        ({"where": np.zeros(3), "radius": 1.0}, "points of shape"),
        ({"where": np.zeros((2, 4)), "radius": 1.0}, "input space"),
        ({"where": np.zeros((2, 3)), "radius": -1.0}, "radius"),
        ({"where": np.zeros((2, 3)), "radius": 1.0, "lines": 1}, "lines"),
        ({"where": np.zeros((2, 3)), "radius": 1.0, "rtol": 0.0}, "rtol"),
    ],
)
def test_bad_regions_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ss.InputError, match=message):
        ss.space.fold_census(network(3)[1], **arguments)


def test_two_numbers_are_a_box_for_all_inputs_where_their_shape_is_known():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Sequential(nn.Dropout(), nn.Linear(3, 8)), nn.ReLU()).eval()
    network = ss.trace(model, torch.zeros(1, 3))
    cases = [(network, (-1, 1)), (model, (-1, 1)), (network, (-torch.ones(3), torch.ones(3)))]
    plain, bare, full = (
        ss.space.fold_census(net, box, lines=16, generator=torch.Generator().manual_seed(0)).densities
        for net, box in cases
    )
    assert plain == bare == full
    assert plain > 0
    for unknown in (nn.Conv1d(1, 2, 2), nn.Sequential(nn.Conv1d(1, 2, 2), nn.Flatten(), nn.Linear(4, 2)), nn.ReLU()):
        with pytest.raises(ss.InputError, match=r"trace\(model, example\)"):
            ss.space.fold_census(unknown, (-1, 1))
    with pytest.raises(ss.InputError, match="low below high"):
        ss.space.fold_census(network, (1, -1))
