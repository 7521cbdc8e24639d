"""Volumes, centers, second moments, areas and faces of cells, against Qhull and sums over Delaunay's simplices."""

from math import factorial

import numpy as np
import pytest
from scipy.spatial import ConvexHull, Delaunay
from torch import nn

import splinescope as ss
from splinescope.tiling import kernels
from tests.tiling.cells.test_solids import SMALL, cube, plain_mlp


def by_delaunay(points: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume, mean and covariance of the uniform distribution on a hull, simplex by simplex."""
    d = points.shape[1]
    simplices = points[None] if len(points) == d + 1 else points[Delaunay(points, qhull_options="QJ Pp").simplices]
    edges = simplices[:, 1:] - simplices[:, :1]
    volumes = np.abs(np.linalg.det(edges)) / factorial(d)
    share = volumes / volumes.sum()
    mean = share @ simplices.mean(1)
    centered = simplices - mean
    sums = centered.sum(1)
    second = np.einsum("kid,kie->kde", centered, centered) + np.einsum("kd,ke->kde", sums, sums)
    return volumes.sum(), mean, np.einsum("k,kde->de", share, second) / ((d + 1) * (d + 2))


def tilings() -> dict[str, ss.Tiling]:
    found = {f"{d}-D {name}": ss.tessellate(SMALL[name](d), cube(d, 1.0)) for d in (3, 4) for name in SMALL}
    found["5-D"] = ss.tessellate(plain_mlp(5, 5, 4, 1), cube(5, 1.0))
    found["5-D zero bias"] = ss.tessellate(SMALL["zero bias"](5), cube(5, 1.0))
    found["6-D"] = ss.tessellate(plain_mlp(6, 3, 2, 1), cube(6, 1.0))
    return found


def test_cells_have_the_volume_center_and_covariance_of_their_hulls() -> None:
    for name, tiling in tilings().items():
        assert tiling.areas.sum() == pytest.approx(2.0**tiling.dimension, rel=1e-12), name
        tiles = tiling.tiles
        seconds = tiles.second_moments(tiling.vertices, slice(0, tiling.count))
        for i in np.random.default_rng(0).permutation(tiling.count)[:12]:
            points = tiling.tile(i)
            volume, mean, second = by_delaunay(points)
            assert tiling.areas[i] == pytest.approx(ConvexHull(points).volume, rel=1e-9), name
            assert tiling.areas[i] == pytest.approx(volume, rel=1e-7), name  # joggled by Qhull
            np.testing.assert_allclose(tiling.centroids()[i], mean, atol=1e-7)
            np.testing.assert_allclose(seconds[i], second, atol=1e-7)
        assert tiling.check().ok, name


def test_areas_of_facets_are_those_of_their_hulls_and_close_every_cell() -> None:
    for name, tiling in tilings().items():
        walls = tiling.walls
        for wall in np.random.default_rng(1).permutation(len(walls))[:12]:
            points = tiling.vertices[walls[wall]]
            flat = np.linalg.svd(points - points.mean(0))[2][:-1]
            area = ConvexHull(points @ flat.T).volume
            assert np.linalg.norm(walls.vectors[wall]) == pytest.approx(area, rel=1e-9), name
            assert np.abs((points - points[0]) @ walls.vectors[wall]).max() < 1e-12
        closed = np.zeros((tiling.count, tiling.dimension))
        inner = walls.tiles[:, 1] >= 0
        np.add.at(closed, walls.tiles[:, 0], walls.vectors)
        np.add.at(closed, walls.tiles[inner, 1], -walls.vectors[inner])
        assert np.abs(closed).max() < 1e-12, name


@pytest.mark.parametrize("squeeze", [1.0, 1e-4, 1e-9])
def test_slivers_and_repeated_corners_keep_their_digits(squeeze: float) -> None:
    """A box squeezed in one direction; a pyramid two of whose corners are one point."""
    d = 5
    tiling = ss.tessellate(nn.Linear(d, 1).double(), cube(d, 1.0))
    points = tiling.vertices * np.array([1.0, 1.0, squeeze, 1.0, 1.0])
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))[0]
    found = volume, mean, second, _ = np.empty(1), np.empty((1, d)), np.empty((1, d, d)), np.empty(1, int)
    kernels.measure_cells(*tiling.tiles.lists, points @ rotation, *found)
    assert volume[0] == pytest.approx(2.0**d * squeeze, rel=1e-14 / squeeze)
    np.testing.assert_allclose(
        rotation @ second[0] @ rotation.T, np.diag([1, 1, squeeze**2, 1, 1]) / 3, atol=1e-14 / squeeze
    )
    collapsed = points.copy()
    collapsed[1] = collapsed[0]  # a shorter edge, of length zero
    kernels.measure_cells(*tiling.tiles.lists, collapsed, *found)
    assert 0 < volume[0] < 2.0**d * squeeze
    kernels.measure_cells(*tiling.tiles.lists, np.zeros_like(points), *found)
    assert volume[0] == 0.0
    assert not mean.any()
    assert not second.any()
