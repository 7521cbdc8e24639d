"""Latent domains: draws follow the stated density."""

from __future__ import annotations

import math

import pytest
import torch

import splinescope as ss
from splinescope.generative import Ball, Box, Gaussian, Sphere, TruncatedGaussian
from splinescope.generative.domains import LatentDomain


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
