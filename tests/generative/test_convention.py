"""One meaning of "uniform on the manifold": what the generator returns, whether drawn from a pool or tile by tile."""

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.generative import Box, PolaritySampler, log_volume, tiled_manifold

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
def test_pools_follow_the_law_of_either_output_and_tiles_that_before_the_ending(
    decoder: nn.Sequential, tiling: ss.Tiling, rho: float
) -> None:
    laws = {}
    for output in ("after", "before"):
        want = laws[output] = true_shares(decoder, output, rho)
        sampler = PolaritySampler(decoder, Box(2, -2.0, 2.0), rho=rho, pool=9000, output=output, progress=False)
        drawn = sampler.sample(1000, method="rejection")
        assert np.abs(shares(drawn.latents.numpy()) - want).max() < 4 * np.sqrt(0.25 / 1000)
        assert drawn.output == output
    exact = shares(tiled_manifold(tiling, output="before").sample(20_000, rho=rho))
    assert np.abs(exact - laws["before"]).max() < 4 * np.sqrt(0.25 / 20_000) + 2e-3  # and the grid's own error
    assert np.abs(laws["after"] - laws["before"]).max() > 0.05  # so that taking one for the other would be seen
    assert PolaritySampler(decoder, Box(2), rho=rho, pool=10, progress=False).output == "after"


def test_tiles_behind_an_ending_are_refused_with_the_way_out(tiling: ss.Tiling) -> None:
    with pytest.raises(ss.InputError, match="output='before'"):
        tiled_manifold(tiling)
    with pytest.raises(ss.InputError, match="output must be one of"):
        tiled_manifold(tiling, output="behind")  # type: ignore[arg-type]
    assert tiled_manifold(tiling, output="before").certainty == "exact"


def test_the_result_says_what_it_is_uniform_on(decoder: nn.Sequential, tiling: ss.Tiling) -> None:
    before = tiled_manifold(tiling, output="before")
    assert f"before {decoder[-1].__class__.__name__.lower()}" in before.summary()
    sampler = PolaritySampler(decoder, Box(2), pool=64, progress=False)
    assert "uniform on the set of the generator's outputs" in sampler.sample(5, method="metropolis", steps=2).summary()
    assert (
        "before their final squashing"
        in PolaritySampler(decoder, Box(2), pool=64, output="before", progress=False).sample(5).summary()
    )
    for result in (before, sampler.sample(5), sampler.pool, log_volume(decoder, torch.zeros(3, 2).double())):
        assert "\n" not in repr(result)
        assert len(repr(result)) < 200
        assert result.certainty in repr(result)


def test_the_picture_shows_the_manifold_that_was_measured(decoder: nn.Sequential, tiling: ss.Tiling) -> None:
    with torch.no_grad():
        want = decoder[:-1](torch.from_numpy(tiling.view.inputs(tiling.vertices)))
    np.testing.assert_allclose(tiled_manifold(tiling, output="before").corner_outputs, want.numpy(), atol=1e-9)
