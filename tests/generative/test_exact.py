"""Two-dimensional latents: exact volumes, densities and samples from the tiling."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import splinescope as ss
from splinescope.generative import tiled_manifold
from splinescope.generative.exact import TiledManifold

VIEW = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)


def image_areas(tiling: ss.Tiling) -> np.ndarray:
    """Areas of the tiles' images, from their corners in output space: a fan of triangles in R^3."""
    assert tiling.values is not None
    areas = []
    for i in range(tiling.count):
        corners = tiling.values[tiling.tiles[i]]
        a, b = corners[1:-1] - corners[0], corners[2:] - corners[0]
        gram = (a * a).sum(1) * (b * b).sum(1) - (a * b).sum(1) ** 2
        areas.append(0.5 * np.sqrt(np.maximum(gram, 0)).sum())
    return np.array(areas)


def test_equation_10_image_area_is_tile_area_times_volume(manifold: TiledManifold) -> None:
    expected = image_areas(manifold.tiling)
    # cancellation in the corner formula: relative to the largest tile
    assert np.allclose(manifold.surface_areas, expected, rtol=1e-8, atol=1e-10 * expected.max())


def test_rank_deficient_tiles_have_zero_volume() -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 3)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.eye(2))
        net[0].bias.zero_()
    manifold = tiled_manifold(ss.tessellate(net, VIEW))
    assert manifold.tiling.count == 4
    assert (manifold.volumes > 0).sum() == 1  # only the quadrant where both units are on
    assert manifold.probabilities(1.0).max() == 1.0
    assert np.isinf(manifold.densities(0.0)).sum() == 3
    assert np.allclose(manifold.probabilities(0.0), 0.25)


def test_uniform_density_is_constant_and_integrates_to_one(manifold: TiledManifold) -> None:
    real = manifold.surface_areas > 0
    for rho in (-1.0, 0.0, 0.5, 1.0, 2.0):
        assert np.isclose(
            (manifold.densities(rho) * manifold.surface_areas)[real].sum(), manifold.probabilities(rho)[real].sum()
        )
    density = manifold.densities(1.0)[real]
    assert np.allclose(density, 1 / manifold.surface_areas.sum(), rtol=1e-9)


@pytest.mark.parametrize("rho", [-1.0, 0.0, 1.0])
def test_exact_samples_fall_in_tiles_by_their_probability(manifold: TiledManifold, rho: float) -> None:
    tiling = manifold.tiling
    t = manifold.sample(20_000, rho=rho, generator=torch.Generator().manual_seed(1))
    cells = np.floor((t + 2) / 0.5).clip(0, 7).astype(int)
    observed = np.bincount(cells[:, 0] * 8 + cells[:, 1], minlength=64)
    expected = cell_mass(tiling, manifold.probabilities(rho))
    keep = expected * 20_000 > 5
    rest = 20_000 * (1 - expected[keep].sum())
    observed_rest = 20_000 - observed[keep].sum()
    statistic = ((observed[keep] - 20_000 * expected[keep]) ** 2 / (20_000 * expected[keep])).sum()
    statistic += (observed_rest - rest) ** 2 / max(rest, 1.0)
    assert stats.chi2.sf(statistic, keep.sum()) > 1e-3


def cell_mass(tiling: ss.Tiling, probabilities: np.ndarray) -> np.ndarray:
    """`[64]` mass of each cell of an 8 x 8 grid, by a fine grid of points located in tiles by half-planes."""
    fine = (np.arange(240) + 0.5) / 60 - 2
    points = np.stack(np.meshgrid(fine, fine, indexing="ij"), -1).reshape(-1, 2)
    density = np.zeros(len(points))
    for i in range(tiling.count):
        corners = tiling.tile(i)
        low, high = corners.min(0), corners.max(0)
        near = np.flatnonzero(((points >= low) & (points <= high)).all(1))
        edges = np.roll(corners, -1, 0) - corners
        offset = points[near][:, None] - corners
        inside = (edges[:, 0] * offset[..., 1] - edges[:, 1] * offset[..., 0] >= 0).all(1)
        density[near[inside]] = probabilities[i] / tiling.areas[i]
    mass = density.reshape(8, 30, 8, 30).sum((1, 3)).reshape(-1)
    return mass / mass.sum()


def test_lines_are_refused(surface: nn.Sequential) -> None:
    line = ss.tessellate(surface, ss.Slice.segment([0.0, 0.0], [1.0, 1.0]))
    with pytest.raises(ss.InputError, match="2-D slice"):
        tiled_manifold(line)


def test_a_generator_onto_a_curve_has_no_area_law() -> None:
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 3)).double()
    manifold = tiled_manifold(ss.tessellate(net, VIEW))
    with pytest.raises(ss.InputError, match="zero volume"):
        manifold.probabilities(1.0)
