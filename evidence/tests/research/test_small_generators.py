"""The small generators of the examples learn what they are shown."""

from __future__ import annotations

import pytest
import torch

import splinescope as ss
from splinescope_research.generators.small_generators import (
    log_three_gaussians,
    three_gaussians,
    train_planar_wgan,
    train_vae,
)


def test_the_log_density_is_that_of_the_three_gaussians() -> None:
    side = torch.linspace(-4, 4, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    density = log_three_gaussians(grid).exp()
    assert abs(float(density.sum()) * 0.01**2 - 1) < 1e-3
    mean = three_gaussians(20_000, torch.Generator().manual_seed(0)).mean(0)
    expected = (density[:, None] * grid).sum(0) * 0.01**2
    assert torch.allclose(mean.double(), expected, atol=0.05)  # four standard errors


def test_the_wgan_moves_to_the_data_and_leaves_the_random_state() -> None:
    before = torch.get_rng_state()
    generator = train_planar_wgan(three_gaussians, steps=60, seed=0)
    assert torch.equal(before, torch.get_rng_state())
    assert not generator.training
    z = 2 * torch.rand(1000, 2, generator=torch.Generator().manual_seed(1)) - 1
    fresh = train_planar_wgan(three_gaussians, steps=0, seed=0)
    with torch.no_grad():
        assert log_three_gaussians(generator(z)).mean() > log_three_gaussians(fresh(z)).mean() + 2


def test_the_vae_reconstructs_better_than_the_mean_image() -> None:
    rng = torch.Generator().manual_seed(0)
    which = torch.randint(2, (200,), generator=rng)
    images = torch.zeros(200, 1, 8, 8)
    images[which == 0, :, :4] = 1.0
    images[which == 1, :, :, :4] = 1.0
    for convolutional in (True, False):
        model = train_vae(images, latent=2, width=32, epochs=20, batch_size=20, convolutional=convolutional)
        with torch.no_grad():
            decoded, _, _ = model(images, torch.zeros(200, 2))
        assert (decoded - images).square().mean() < 0.5 * (images - images.mean(0)).square().mean()
        assert model.decoder(torch.zeros(3, 2)).shape == (3, 1, 8, 8)


def test_bad_images_are_refused() -> None:
    with pytest.raises(ss.InputError, match=r"values in \[0, 1\]"):
        train_vae(2 * torch.ones(3, 1, 8, 8))
    with pytest.raises(ss.InputError, match=r"got shape \(0, 1, 8, 8\)"):
        train_vae(torch.ones(0, 1, 8, 8))
    with pytest.raises(ss.InputError, match=r"shape \(count, 2\), got \(256, 3\)"):
        train_planar_wgan(lambda n, rng: torch.randn(n, 3, generator=rng))
    with pytest.raises(ss.InputError, match="multiples of 4"):
        train_vae(torch.ones(3, 1, 7, 7))
