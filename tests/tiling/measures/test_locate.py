from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss

from ... import cases


def depth_inside(tiling: ss.Tiling, tile: int, point: np.ndarray) -> float:
    """Signed distance to the nearest side's line, positive inside."""
    corners = tiling.tile(tile)
    if tiling.dimension == 1:
        return min(point[0] - corners[0, 0], corners[1, 0] - point[0])
    span = np.roll(corners, -1, axis=0) - corners
    cross = span[:, 0] * (point - corners)[:, 1] - span[:, 1] * (point - corners)[:, 0]
    return float((cross / np.linalg.norm(span, axis=1)).min())


def distance(tiling: ss.Tiling, tile: int, point: np.ndarray) -> float:
    if depth_inside(tiling, tile, point) >= 0:
        return 0.0
    corners = tiling.tile(tile)
    if tiling.dimension == 1:
        return float(np.abs(corners - point).min())
    span = np.roll(corners, -1, axis=0) - corners
    share = np.clip(((point - corners) * span).sum(1) / (span**2).sum(1), 0, 1)
    return float(np.linalg.norm(point - corners - share[:, None] * span, axis=1).min())


def some_points(name: str, count: int) -> np.ndarray:
    domain = cases.view(name).domain
    generator = np.random.default_rng(1)
    return generator.uniform(domain.min(0), domain.max(0), (count, domain.shape[1]))


@pytest.mark.parametrize("name", cases.CASES)
def test_locate_equals_brute_force(name: str) -> None:
    tiling = cases.tiling(name)
    points = np.concatenate([some_points(name, 25), tiling.centroids()[::10]])
    for point, tile in zip(points, tiling.locate(points), strict=True):
        depths = [depth_inside(tiling, k, point) for k in range(tiling.count)]
        if max(depths) < 0:
            assert tile == -1
        else:
            assert tile == int(np.argmax(depths))


@pytest.mark.parametrize("name", cases.CASES)
def test_vertices_and_wall_points_are_in_a_tile_that_touches_them(name: str) -> None:
    tiling = cases.tiling(name)
    points = np.concatenate([tiling.vertices, tiling.vertices[tiling.walls.ends].mean(1), tiling.view.domain])
    found = tiling.locate(points)
    assert (found >= 0).all()
    extent = np.ptp(tiling.view.domain, axis=0).max()
    assert min(depth_inside(tiling, k, p) for k, p in zip(found, points, strict=True)) >= -1e-12 * extent


@pytest.mark.parametrize("name", cases.CASES)
def test_tiles_near_equals_brute_force(name: str) -> None:
    tiling = cases.tiling(name)
    points = np.concatenate([some_points(name, 4), tiling.vertices[:2]])
    extent = np.ptp(tiling.view.domain, axis=0).max()
    for radius in (1e-6 * extent, 0.05 * extent, 0.4 * extent, 3 * extent):
        counts = tiling.counts_near(points, radius)
        for point, count in zip(points, counts, strict=True):
            expected = [k for k in range(tiling.count) if distance(tiling, k, point) < radius]
            np.testing.assert_array_equal(tiling.tiles_near(point, radius), expected)
            assert count == len(expected)
        size = 2 * radius if tiling.dimension == 1 else np.pi * radius**2
        np.testing.assert_allclose(tiling.density_near(points, radius), counts / size)


def test_bad_points_are_refused() -> None:
    tiling = cases.tiling("two layers")
    with pytest.raises(ss.InputError, match=r"shape \(N, 2\)"):
        tiling.locate([1.0, 2.0])
    with pytest.raises(ss.InputError, match="finite"):
        tiling.locate([[np.nan, 0.0]])
    with pytest.raises(ss.InputError, match="positive"):
        tiling.tiles_near([0.0, 0.0], 0.0)
    with pytest.raises(ss.InputError, match="one point"):
        tiling.tiles_near([[0.0, 0.0], [1.0, 1.0]], 1.0)
    assert cases.tiling("line").locate([0.1, 0.2]).shape == (2,)


@pytest.mark.parametrize("name", ["two layers", "oblique basis", "line", "scale 1e8"])
def test_a_point_may_be_outside_by_a_rounding_and_no_more(name: str) -> None:
    """The slack is 1e-12 of the slice's extent: enough for a point that was computed, nothing for one that is off."""
    tiling = cases.tiling(name)
    domain = tiling.view.domain
    extent = np.ptp(domain, axis=0).max()
    if tiling.dimension == 1:
        edge, outward = domain[1:], np.ones((1, 1))
    else:
        side = domain[1] - domain[0]
        edge, outward = domain[None, :2].mean(1), np.array([[side[1], -side[0]]]) / np.linalg.norm(side)
    assert tiling.locate(edge + 0.5e-12 * extent * outward)[0] >= 0
    assert tiling.locate(edge + 3e-12 * extent * outward)[0] == -1


def test_a_point_beside_a_cell_of_the_grid_finds_the_tile_that_ends_there() -> None:
    """Squares whose walls are lines of the grid that points are looked up in, and nothing on the other side."""
    weight, bias = np.repeat(np.eye(2), 3, 0), -np.tile([1.0, 2.0, 3.0], 2)
    net = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.from_numpy(weight))
        net[0].bias.copy_(torch.from_numpy(bias))
    whole = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), 0, 4))
    assert whole.count == 16
    kept = [k for k in range(16) if (whole.tile(k) >= 2).all()]
    corners = np.concatenate([whole.tiles[k] for k in kept])
    part = replace(
        whole, tiles=replace(whole.tiles, offsets=np.arange(0, 17, 4), corners=corners), corner_labels=corners * 0,
        complete=False,
    )  # fmt: skip
    assert part.grid.step == 2.0
    beside = np.nextafter(2.0, 0.0)
    assert (part.locate([[beside, 2.5], [3.5, beside], [beside, beside], [2.0, 2.0]]) >= 0).all()
    assert (part.locate([[beside - 1e-9, 2.5], [1.0, 1.0]]) == -1).all()
