"""The laws of the random parts, away from any network: what is drawn follows the density that was asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from splinescope.generative import Box, Gaussian
from splinescope.generative.resampling import Chains, effective_size, metropolis

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
