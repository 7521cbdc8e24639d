import numpy as np
import pytest
import torch

import splinescope as ss
from splinescope.tiling.measures.differentiate import cuts, unit_distances

from ... import cases

POINTS = np.random.default_rng(3).uniform(-1.9, 1.9, (30, 2))


@pytest.mark.parametrize("name", ["two layers", "residual", "zero bias", "four layers, one output"])
def test_margin_is_the_distance_to_the_nearest_boundary_point(name: str) -> None:
    """Against points laid along the boundary: not farther than any, nearer than the nearest by less than their gap."""
    tiling = cases.tiling(name)
    margin = tiling.margin(POINTS)
    segments = tiling.decision_boundary().segments
    share = np.linspace(0, 1, 2001)[:, None, None]
    dense = ((1 - share) * segments[:, 0] + share * segments[:, 1]).reshape(-1, 2)
    nearest = np.array([np.linalg.norm(dense - p, axis=1).min() for p in POINTS])
    gap = tiling.decision_boundary().lengths.max() / 2000
    assert (margin <= nearest + 1e-12).all()
    assert (nearest <= margin + gap).all()


@pytest.mark.parametrize("name", ["one layer", "two layers", "residual", "leaky", "bounded", "batch norm", "zero bias"])
def test_edge_distance_is_that_to_the_sides_of_the_own_tile(name: str) -> None:
    """On a plane of two inputs the tile of the slice is the tile: measure it."""
    tiling = cases.tiling(name)
    found = tiling.input_margin(POINTS)
    for point, tile, edge in zip(POINTS, tiling.locate(POINTS), found.edge, strict=True):
        corners = tiling.tile(tile)
        following = np.roll(corners, -1, axis=0)
        span = following - corners
        cross = span[:, 0] * (point - corners)[:, 1] - span[:, 1] * (point - corners)[:, 0]
        depths = cross / np.linalg.norm(span, axis=1)
        labels = tiling.corner_labels[tiling.tiles.offsets[tile] : tiling.tiles.offsets[tile + 1]]
        on_domain = labels < 0
        measured = depths[~on_domain].min(initial=np.inf)
        assert edge == pytest.approx(measured, rel=1e-9, abs=1e-12) or edge > depths[on_domain].min(initial=np.inf)
    assert found.exact_edge


@pytest.mark.parametrize("name", ["two layers", "four layers, one output", "residual", "no hidden layer"])
def test_input_margin_is_exact_or_a_lower_bound_as_it_says(name: str) -> None:
    tiling = cases.tiling(name)
    points = np.concatenate([POINTS, tiling.decision_boundary().sample(20, generator=torch.Generator().manual_seed(0))])
    points = np.clip(points + 1e-4, -1.9, 1.9)
    found = tiling.input_margin(points)
    in_slice = tiling.margin(points)
    assert found.exact.any()
    to_domain = 2 - np.abs(points).max(1)
    seen = found.exact & (found.margin < to_domain)  # the slice is the input space here, up to the domain's edge
    np.testing.assert_allclose(found.margin[seen], in_slice[seen], rtol=1e-9, atol=1e-12)
    assert (found.margin <= in_slice * (1 + 1e-9) + 1e-12).all()


def test_forward_and_backward_ways_agree() -> None:
    """More inputs than units goes backward, fewer goes forward: both are the quotient by autograd."""
    for name in ("convolution", "off-center plane in five inputs", "max-pool"):
        tiling, net = cases.tiling(name), cases.tiling(name).network.program()
        x = tiling.view.inputs(tiling.centroids()[:3])
        distances = unit_distances(net, x)
        for n in range(3):
            one = torch.from_numpy(x[n : n + 1])
            jacobian = torch.autograd.functional.jacobian(
                lambda x, net=net: torch.cat([z for _, z in cuts(net, x)], 1)[0], one
            ).flatten(1)
            values = torch.cat([z for _, z in cuts(net, one)], 1)[0]
            expected = (values.abs() / jacobian.norm(dim=1)).numpy()
            np.testing.assert_allclose(distances[n], np.where(np.isnan(expected), np.inf, expected), rtol=1e-10)
    assert not cases.tiling("max-pool").input_margin([[0.0, 0.0]]).exact_edge


def test_networks_without_folds_or_boundary_are_infinitely_far() -> None:
    tiling = cases.tiling("no hidden layer")
    assert np.isinf(tiling.input_margin(POINTS[:2]).edge).all()
    net = torch.nn.Sequential(torch.nn.Linear(2, 2)).double()
    with torch.no_grad():
        net[0].weight.fill_(1.0)
        net[0].bias.copy_(torch.tensor([0.0, 1.0]))  # the second class leads by one everywhere
    one_class = ss.tessellate(net, cases.Square)
    assert np.isinf(one_class.margin(POINTS[:2])).all()
    assert np.isinf(one_class.input_margin(POINTS[:2]).margin).all()
