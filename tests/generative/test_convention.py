"""One meaning of "uniform on the manifold": what the generator returns, whether drawn from a pool or tile by tile."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.generative import Box, PolaritySampler, log_volume, tiled_manifold
from splinescope.generative.exact import TiledManifold

from .conftest import mlp

VIEW = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)


@pytest.fixture(scope="module", params=["sigmoid", "tanh"])
def decoder(request: pytest.FixtureRequest) -> nn.Sequential:
    """2-10-6 behind a squashing function that saturates in a corner of the box."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        net = nn.Sequential(*mlp(2, 10, 6), {"sigmoid": nn.Sigmoid(), "tanh": nn.Tanh()}[request.param]).double()
    with torch.no_grad():
        net[2].weight.mul_(4.0)
        net[2].bias.add_(1.0)
    return net.eval()


@pytest.fixture(scope="module")
def tiling(decoder: nn.Sequential) -> ss.Tiling:
    return ss.tessellate(decoder, VIEW, progress=False)


def shares(t: np.ndarray) -> np.ndarray:
    """Shares of latents in a 4 x 4 grid over the box."""
    cells = np.floor(t + 2).clip(0, 3).astype(int)
    return np.bincount(cells[:, 0] * 4 + cells[:, 1], minlength=16) / len(t)


def true_shares(decoder: nn.Module, output: str, rho: float) -> np.ndarray:
    """The law itself: vol^rho on a fine grid, by the Jacobian of the module."""
    axis = (np.arange(160) + 0.5) / 40 - 2
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    logs = log_volume(decoder, torch.from_numpy(grid), output=output).log.numpy()
    weights = np.where(np.isfinite(logs), np.exp(rho * np.where(np.isfinite(logs), logs, 0.0)), 0.0)
    cells = np.floor(grid + 2).astype(int)
    found = np.bincount(cells[:, 0] * 4 + cells[:, 1], weights, minlength=16)
    return found / found.sum()


@pytest.mark.parametrize("rho", [1.0, -0.5])
def test_pool_and_tiles_follow_one_law_and_both_take_the_other(decoder: nn.Sequential, tiling: ss.Tiling, rho) -> None:
    laws = {}
    for output in ("after", "before"):
        manifold = tiled_manifold(tiling, output=output)
        want = laws[output] = true_shares(decoder, output, rho)
        exact = shares(manifold.sample(20_000, rho=rho))
        sampler = PolaritySampler(decoder, Box(2, -2.0, 2.0), rho=rho, pool=9000, output=output, progress=False)
        drawn = sampler.sample(1000, method="rejection")
        assert np.abs(exact - want).max() < 4 * np.sqrt(0.25 / 20_000) + 2e-3  # and the grid's own error
        assert np.abs(shares(drawn.latents.numpy()) - want).max() < 4 * np.sqrt(0.25 / 1000)
        assert manifold.output == drawn.output == output
    assert np.abs(laws["after"] - laws["before"]).max() > 0.05  # so that taking one for the other would be seen
    defaults = tiled_manifold(tiling), PolaritySampler(decoder, Box(2), rho=rho, pool=10, progress=False)
    assert [d.output for d in defaults] == ["after", "after"]


def test_areas_behind_an_ending_are_those_of_the_outputs(decoder: nn.Sequential, tiling: ss.Tiling) -> None:
    manifold = tiled_manifold(tiling)
    assert manifold.certainty == "estimate"
    axis = (np.arange(400) + 0.5) / 100 - 2
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    logs = log_volume(decoder, torch.from_numpy(grid)).log.numpy()
    assert manifold.surface_areas.sum() == pytest.approx(np.exp(logs).mean() * 16, rel=2e-3)
    wide = np.argsort(tiling.areas)[-5:]
    tiles = tiling.locate(grid)
    for k in wide[np.isfinite(manifold.log_volumes[wide])]:
        mean = np.exp(logs[tiles == k]).mean()
        assert manifold.volumes[k] == pytest.approx(mean, rel=0.03)  # a few hundred grid points a tile
        for rho in (1.0, -1.0, 2.0):
            log_mean = np.log(np.exp(rho * logs[tiles == k]).mean())
            assert manifold._log_means(rho)[k] == pytest.approx(log_mean, abs=0.1)
    assert 0 < manifold.probability_error(1.0) < 0.02
    assert tiled_manifold(tiling, output="before").probability_error(1.0) == 0.0


def test_the_volume_in_a_tile_lies_between_its_proven_bounds(decoder: nn.Sequential, tiling: ss.Tiling) -> None:
    """Acceptance divides by these bounds: one that is exceeded bends the law without a word."""
    manifold = tiled_manifold(tiling)
    t = np.concatenate([np.random.default_rng(0).uniform(-2, 2, (4000, 2)), tiling.centroids()])
    logs = log_volume(decoder, torch.from_numpy(t)).log.numpy()
    t, logs = t[np.isfinite(logs)], logs[np.isfinite(logs)]
    tiles = tiling.locate(t)
    bent = manifold._squashed
    assert bent is not None
    assert (logs <= bent.log_upper[tiles] + 1e-9).all()
    assert (logs >= bent.log_lower[tiles] - 1e-9).all()
    curved = np.isfinite(bent.log_upper)
    assert curved.sum() == tiling.count - 1  # one tile is flat, at any rho
    assert manifold.probabilities(-1.0)[~curved] == 0.0
    small = curved & (tiling.areas < np.quantile(tiling.areas, 0.25))  # on small tiles both are near the volume
    assert np.median(bent.log_upper[small] - bent.log_lower[small]) < 0.5


def test_without_an_ending_both_conventions_are_one(surface: nn.Sequential, manifold: TiledManifold) -> None:
    before = tiled_manifold(manifold.tiling, output="before")
    assert np.array_equal(before.log_volumes, manifold.log_volumes)
    assert manifold.certainty == before.certainty == "exact"


def test_the_result_says_what_it_is_uniform_on(decoder: nn.Sequential, tiling: ss.Tiling) -> None:
    after, before = tiled_manifold(tiling), tiled_manifold(tiling, output="before")
    assert "uniform on       the set of the generator's outputs" in after.summary()
    assert f"before {decoder[-1].__class__.__name__.lower()}" in before.summary()
    sampler = PolaritySampler(decoder, Box(2), pool=64, progress=False)
    assert "uniform on the set of the generator's outputs" in sampler.sample(5, method="metropolis", steps=2).summary()
    assert (
        "before their final squashing"
        in PolaritySampler(decoder, Box(2), pool=64, output="before", progress=False).sample(5).summary()
    )
    for result in (after, before, sampler.sample(5), sampler.pool, log_volume(decoder, torch.zeros(3, 2).double())):
        assert "\n" not in repr(result)
        assert len(repr(result)) < 200
        assert result.certainty in repr(result)


def test_endings_that_are_not_elementwise_are_refused_with_the_way_out() -> None:
    net = nn.Sequential(*mlp(2, 4, 3), nn.Softmax(1)).double().eval()
    tiling = ss.tessellate(net, VIEW, progress=False)
    with pytest.raises(ss.InputError, match="output='before'"):
        tiled_manifold(tiling)
    assert tiled_manifold(tiling, output="before").certainty == "exact"
    with pytest.raises(ss.InputError, match="output must be one of"):
        tiled_manifold(tiling, output="behind")


def test_the_picture_shows_the_manifold_that_was_measured(decoder: nn.Sequential, tiling: ss.Tiling) -> None:
    inputs = torch.from_numpy(tiling.view.inputs(tiling.vertices))
    with torch.no_grad():
        want = decoder(inputs), decoder[:-1](inputs)
    for manifold, outputs in zip((tiled_manifold(tiling), tiled_manifold(tiling, output="before")), want, strict=True):
        np.testing.assert_allclose(manifold.corner_outputs, outputs.numpy(), atol=1e-9)
