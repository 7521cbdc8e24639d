"""MaGNET and polarity samplers: against the exact law of 2-D latents, and their manners."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import splinescope as ss
from splinescope.generative import (
    Ball,
    Box,
    Gaussian,
    MagnetSampler,
    PolaritySampler,
    Sphere,
    TruncatedGaussian,
    cache,
    log_volume,
)
from splinescope.generative.exact import TiledManifold
from splinescope.generative.sampler import EffectiveSizeWarning, Samples

BOX = Box(2, -2.0, 2.0)


def quadrant_shares(z: np.ndarray) -> np.ndarray:
    """Shares of latents in a 4 x 4 grid over the box."""
    cells = np.floor(z + 2).clip(0, 3).astype(int)
    return np.bincount(cells[:, 0] * 4 + cells[:, 1], minlength=16) / len(z)


def exact_shares(manifold: TiledManifold, rho: float) -> np.ndarray:
    return quadrant_shares(manifold.sample(400_000, rho=rho, generator=torch.Generator().manual_seed(5)))


@pytest.mark.parametrize("rho", [-0.5, 0.0, 1.0])
@pytest.mark.parametrize("method", ["rejection", "resample"])
def test_samplers_follow_the_exact_law(
    surface: nn.Sequential, manifold: TiledManifold, rho: float, method: str
) -> None:
    sampler = PolaritySampler(surface, BOX, rho=rho, pool=8192, progress=False)
    n = 900
    samples = sampler.sample(n, method=method)
    error = np.abs(quadrant_shares(samples.latents.numpy()) - exact_shares(manifold, rho))
    # n draws out of a pool of limited effective size: both contribute
    spread = np.sqrt(0.25 * (1 / n + 1 / sampler.effective_size()))
    assert error.max() < 3.5 * spread


def test_magnet_by_rejection_is_uniform_on_the_manifold(surface: nn.Sequential, manifold: TiledManifold) -> None:
    """Tiles are hit in proportion to the area of their images; the model's own samples are not."""
    expected = exact_shares(manifold, 1.0)

    def p_value(z: Tensor) -> float:
        observed = quadrant_shares(z.numpy()) * len(z)
        return float(stats.chisquare(observed, expected / expected.sum() * len(z)).pvalue)

    assert manifold.tiling.count > 50
    sampler = MagnetSampler(surface, BOX, pool=30_000, progress=False)
    assert sampler.rho == 1.0
    assert p_value(sampler.sample(1500, method="rejection").latents) > 1e-3
    assert p_value(sampler.sample(1500, method="rejection", rho=0.0).latents) < 1e-6
    assert p_value(sampler.sample(1500, method="rejection", rho=2.0).latents) < 1e-6


def test_metropolis_follows_the_exact_law(surface: nn.Sequential, manifold: TiledManifold) -> None:
    sampler = PolaritySampler(surface, BOX, rho=1.0, pool=128, progress=False)
    samples = sampler.sample(2000, method="metropolis", steps=60, step_size=1.5)
    error = np.abs(quadrant_shares(samples.latents.numpy()) - exact_shares(manifold, 1.0))
    assert error.max() < 0.04  # four standard errors of a share of one half among 2000
    assert 0.1 < samples.acceptance < 0.9
    assert len(np.unique(samples.latents.numpy(), axis=0)) > 1500  # it has left the pool of 128
    assert torch.allclose(samples.log_volume, log_volume(surface, samples.latents).log)


def test_the_prior_is_divided_out_by_default() -> None:
    """An isometry has volume 1: uniform on its image means uniform latents, whatever the prior."""
    isometry = nn.Linear(2, 2).double()
    with torch.no_grad():
        isometry.weight.copy_(torch.eye(2))
        isometry.bias.zero_()
    domain = TruncatedGaussian(2, 1.0, 0.6)
    correct = MagnetSampler(isometry, domain, pool=20_000, progress=False).sample(2500, method="rejection").outputs
    public = MagnetSampler(isometry, domain, pool=20_000, divide_prior=False, progress=False)
    other = public.sample(2500, method="rejection").outputs
    assert stats.kstest(correct.numpy().ravel(), "uniform", (-1, 2)).pvalue > 1e-3
    assert stats.kstest(other.numpy().ravel(), "uniform", (-1, 2)).pvalue < 1e-6


def test_output_density_is_the_models_to_the_one_minus_rho() -> None:
    """On an isometry, rho of a normal prior is a normal of variance 1 / (1 - rho)."""
    isometry = nn.Linear(1, 1).double()
    with torch.no_grad():
        isometry.weight.fill_(1.0)
        isometry.bias.zero_()
    for rho in (-3.0, 0.0):
        sampler = PolaritySampler(isometry, Gaussian(1), rho=rho, pool=20_000, progress=False)
        x = sampler.sample(2000, method="rejection").outputs.numpy().ravel()
        assert stats.kstest(x * (1 - rho) ** 0.5, "norm").pvalue > 1e-3


def test_on_a_sphere_only_its_tangent_volume_counts() -> None:
    """A linear map that stretches across the sphere at its poles."""
    stretch = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        stretch.weight.copy_(torch.diag(torch.tensor([3.0, 1.0])))
    sampler = MagnetSampler(stretch, Sphere(2), pool=20_000, progress=False)
    z = sampler.pool.latents
    expected = (9 * z[:, 1] ** 2 + z[:, 0] ** 2).sqrt()  # speed of the ellipse
    assert torch.allclose(sampler.pool.log_volume.exp(), expected)
    assert sampler.sample(50, method="metropolis", steps=5).latents.norm(dim=1).allclose(torch.ones(50).double())


def test_same_seed_same_samples(surface: nn.Sequential) -> None:
    def draw(seed: int) -> Samples:
        return PolaritySampler(surface, BOX, pool=256, seed=seed, progress=False).sample(20)

    assert torch.equal(draw(3).latents, draw(3).latents)
    assert not torch.equal(draw(3).latents, draw(4).latents)
    assert torch.equal(draw(3).outputs, surface(draw(3).latents).detach())


def test_collapsed_weights_warn(surface: nn.Sequential) -> None:
    sampler = PolaritySampler(surface, BOX, rho=30.0, pool=512, progress=False)
    assert sampler.effective_size() < 50
    assert sampler.effective_size(0.0) == pytest.approx(512)
    with pytest.warns(EffectiveSizeWarning, match="effective size"):
        sampler.sample(100)


def test_the_cache_resumes_after_interruption(surface: nn.Sequential, tmp_path: Path) -> None:
    calls: list[float] = []

    def interrupt(share: float, now: str) -> None:
        calls.append(share)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _ = PolaritySampler(surface, BOX, pool=1200, cache=tmp_path, progress=interrupt).pool
    written = sorted(tmp_path.glob("*.safetensors"))
    assert len(written) == 2
    stamps = [path.stat().st_mtime_ns for path in written]
    resumed = PolaritySampler(surface, BOX, pool=1200, cache=tmp_path, progress=False)
    fresh = PolaritySampler(surface, BOX, pool=1200, progress=False)
    assert torch.equal(resumed.pool.log_volume, fresh.pool.log_volume)
    assert [path.stat().st_mtime_ns for path in written] == stamps  # read, not made again
    assert len(list(tmp_path.iterdir())) == -(-1200 // cache.SHARD)
    larger = PolaritySampler(surface, BOX, pool=1300, cache=tmp_path, progress=False)  # its last shard is longer
    assert torch.equal(larger.pool.latents[:1200], fresh.pool.latents)
    assert len(larger.pool) == 1300


class Corner:
    """A domain of one's own, without a repr: uniform on [0, side]^2."""

    size, bounded = 2, True

    def __init__(self, side: float) -> None:
        self.side, self.origin = side, torch.zeros(2)

    def draw(self, n: int, rng: torch.Generator) -> Tensor:
        return self.side * torch.rand(n, 2, generator=rng, dtype=torch.float64)

    def log_density(self, z: Tensor) -> Tensor:
        return torch.zeros(len(z), dtype=torch.float64)

    def tangents(self, z: Tensor) -> None:
        return None

    def step(self, z: Tensor, size: float, rng: torch.Generator) -> Tensor:
        return z + size * torch.randn(z.shape, generator=rng, dtype=z.dtype)


def test_a_domain_of_ones_own_finds_its_cache_again(surface: nn.Sequential, tmp_path: Path) -> None:
    first, second = (PolaritySampler(surface, Corner(1.0), pool=10, cache=tmp_path, progress=False) for _ in range(2))
    assert torch.equal(first.pool.latents, second.pool.latents)
    with pytest.raises(ss.InputError, match="another generator, domain"):
        _ = PolaritySampler(surface, Corner(2.0), pool=10, cache=tmp_path, progress=False).pool


def test_a_foreign_cache_is_refused(surface: nn.Sequential, tmp_path: Path) -> None:
    _ = PolaritySampler(surface, BOX, pool=10, cache=tmp_path, progress=False).pool
    with pytest.raises(ss.InputError, match="another generator"):
        _ = PolaritySampler(surface, BOX, pool=10, seed=1, cache=tmp_path, progress=False).pool
    next(tmp_path.iterdir()).write_bytes(b"no such thing")
    with pytest.raises(ss.FileFormatError, match="damaged"):
        _ = PolaritySampler(surface, BOX, pool=10, cache=tmp_path, progress=False).pool


def test_latents_of_an_image_like_shape() -> None:
    generator = nn.Sequential(nn.ConvTranspose2d(4, 2, 3), nn.ReLU(), nn.Conv2d(2, 5, 1))
    sampler = PolaritySampler(generator, Ball(4, 2.0), top_k=2, latent_shape=(4, 1, 1), pool=128, progress=False)
    assert sampler.sample(3).outputs.shape == (3, 5, 3, 3)


def test_bad_samplers_are_refused(surface: nn.Sequential) -> None:
    with pytest.raises(ss.InputError, match="unbounded"):
        MagnetSampler(surface, Gaussian(2))
    with pytest.raises(ss.InputError, match=r"latents of shape \(3,\)"):
        _ = PolaritySampler(surface, Box(3), progress=False).pool
    with pytest.raises(ss.InputError, match="latent_shape must hold"):
        PolaritySampler(surface, BOX, latent_shape=(3, 1))
    with pytest.raises(ss.InputError, match="method must be one of"):
        PolaritySampler(surface, BOX, progress=False).sample(1, method="guess")
    with pytest.raises(ss.InputError, match="finite number"):
        PolaritySampler(surface, BOX, pool=10, progress=False).effective_size(float("nan"))
    with pytest.raises(ss.InputError, match="count must be a whole number"):
        PolaritySampler(surface, BOX, pool=10, progress=False).sample(2.5)
    with pytest.raises(ss.InputError, match="that rejection accepts"):
        PolaritySampler(surface, BOX, pool=10, progress=False).sample(11, method="rejection")
    flat = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 3))
    with pytest.raises(ss.InputError, match="Use top_k"):
        PolaritySampler(flat, BOX, pool=10, progress=False).sample(1)
    assert PolaritySampler(flat, BOX, top_k=1, pool=10, progress=False).sample(1).outputs.shape == (1, 3)
    assert PolaritySampler(flat, BOX, rho=0.0, pool=10, progress=False).sample(1).outputs.shape == (1, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pool": 10.5}, "pool must be a whole number"),
        ({"rho": float("nan")}, "rho must be a finite number"),
        ({"rho": "1"}, "rho must be a finite number"),
        ({"domain": "ball"}, "such as Ball"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(arguments, message) -> None:
    with pytest.raises(ss.InputError, match=message):
        PolaritySampler(nn.Linear(2, 3), **{"domain": Box(2), **arguments})
