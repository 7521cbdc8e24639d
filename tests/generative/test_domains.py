"""Draws from latent domains and Metropolis walks on them follow the density that was asked for."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import splinescope as ss
from splinescope.generative import Ball, Box, Gaussian, Sphere, TruncatedGaussian
from splinescope.generative.domains import LatentDomain
from splinescope.generative.resampling import Chains, effective_size, metropolis


@pytest.mark.parametrize(
    "domain",
    [Box(3, -1.0, 2.0), Gaussian(3, 0.7), TruncatedGaussian(3, 1.2, 0.8), Ball(1, 1.5), Ball(3, 1.5), Ball(5, 1.2)],
    ids=str,
)
def test_in_any_dimension_draws_and_density_agree(domain: LatentDomain) -> None:
    """The density weighs uniform points of a box around the support as the draws fall: total mass and mean square."""
    rng = torch.Generator().manual_seed(0)
    half = 3.5
    box = half * (2 * torch.rand(200_000, domain.size, generator=rng, dtype=torch.float64) - 1)
    weights = domain.log_density(box).exp() * (2 * half) ** domain.size
    drawn = domain.draw(20_000, rng).square().sum(1)
    squares = weights * box.square().sum(1)
    assert abs(float(weights.mean()) - 1) < 4 * float(weights.std()) / 200_000**0.5 + 1e-4
    error = 4 * (float(squares.std()) / 200_000**0.5 + float(drawn.std()) / 20_000**0.5)
    assert abs(float(squares.mean() - drawn.mean())) < error + 1e-4  # and the tail of a Gaussian beyond the box


def test_sphere_density_is_one_over_its_area_and_tangents_span_it() -> None:
    sphere = Sphere(3, 2.0)
    z = sphere.draw(50, torch.Generator().manual_seed(0))
    assert torch.allclose(sphere.log_density(z).exp(), torch.full((50,), 1 / (4 * math.pi * 4.0), dtype=torch.float64))
    tangents = sphere.tangents(z)
    assert torch.allclose(tangents.mT @ tangents, torch.eye(2, dtype=torch.float64).expand(50, -1, -1), atol=1e-12)
    assert torch.allclose((z[:, None] @ tangents).abs().max(), torch.tensor(0.0, dtype=torch.float64), atol=1e-12)
    stepped = sphere.step(z, 0.3, torch.Generator().manual_seed(1))
    assert sphere.log_density(stepped).isfinite().all()
    assert not sphere.log_density(1.1 * z).isfinite().any()


def test_bad_domains_are_refused() -> None:
    with pytest.raises(ss.InputError, match="below high"):
        Box(2, 1.0, 1.0)
    with pytest.raises(ss.InputError, match="radius must be a positive"):
        Ball(2, -1.0)
    with pytest.raises(ss.InputError, match="size must be"):
        Gaussian(0)
    with pytest.raises(ss.InputError, match="whole number >= 2"):
        Sphere(1)


WEIGHTS = torch.tensor([0.45, 0.3, 0.15, 0.08, 0.02, 0.0], dtype=torch.float64).log()


def walk(log_density, domain, start: Tensor, **options) -> Chains:
    """Chains from a start that does not follow the target, so that only the walk itself can bring them to it."""

    def evaluate(z: Tensor) -> tuple[Tensor, Tensor]:
        inside = domain.log_density(z).isfinite()
        value = log_density(z)
        return value, torch.where(inside, value, torch.full_like(value, -torch.inf))

    return metropolis(
        evaluate,
        domain,
        Chains(start, start[:, 0]),
        generator=torch.Generator().manual_seed(1),
        progress=False,
        **options,
    )


@pytest.mark.parametrize("tilt", [3.0, -5.0])
def test_chains_started_at_one_point_reach_the_target(tilt: float) -> None:
    """Density ~ exp(tilt z) on [-1, 1], all chains started in the middle."""
    chains = walk(lambda z: tilt * z[:, 0], Box(1), torch.zeros(3000, 1).double(), steps=60, step_size=0.8)

    def cumulative(z: np.ndarray) -> np.ndarray:
        return np.expm1(tilt * (z + 1)) / math.expm1(2 * tilt)

    assert stats.kstest(chains.latents[:, 0].numpy(), cumulative).pvalue > 1e-3
    assert torch.equal(chains.log_volume, tilt * chains.latents[:, 0])  # what is carried along is that of the latents


def test_a_point_outside_the_support_is_never_accepted() -> None:
    chains = walk(lambda z: 50 * z[:, 0], Box(1), torch.zeros(300, 1).double(), steps=40, step_size=2.0)
    assert float(chains.latents.abs().max()) <= 1.0


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_step_is_tuned_to_the_targets_scale(scale: float) -> None:
    """A first step of 1 is a thousand times too wide, right, or a thousand times too narrow."""
    domain = Gaussian(1, scale)
    start = domain.draw(400, torch.Generator().manual_seed(0))
    chains = walk(domain.log_density, domain, start, steps=120, step_size=None)
    assert 0.2 < chains.acceptance < 0.45  # tuned to 0.3
    held = walk(domain.log_density, domain, start, steps=20, step_size=1.0)
    assert scale == 1.0 or not 0.2 < held.acceptance < 0.45  # without tuning it is not


def test_the_effective_size_is_kishs() -> None:
    w = WEIGHTS.exp()
    assert effective_size(WEIGHTS + 300) == pytest.approx(float(w.sum() ** 2 / w.square().sum()))
    assert effective_size(torch.zeros(7).double()) == pytest.approx(7.0)
