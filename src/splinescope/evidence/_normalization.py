"""What the experiments on normalisation share: point sets and training loops."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

KINDS = ("zero bias", "random bias", "batch")


def star(n: int = 50, centre: tuple[float, float] = (0.0, 0.0)) -> Tensor:
    """`[n, 2]` points on a five-pointed star of radius 1 (inner radius .45), evenly along its ten edges."""
    corners = np.array([[r * math.sin(a), r * math.cos(a)] for a, r in _corners()])
    place = np.arange(n) / n * 10
    edge, share = place.astype(int), (place % 1)[:, None]
    points = corners[edge] * (1 - share) + corners[(edge + 1) % 10] * share
    return torch.from_numpy(points + np.array(centre))


def _corners() -> list[tuple[float, float]]:
    return [(k * math.pi / 5, 1.0 if k % 2 == 0 else 0.45) for k in range(10)]


def two_moons(n: int, noise: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """`[n, 2]` points of two interleaved half circles, and labels 0 and 1."""
    turn = math.pi * torch.rand(n, generator=generator, dtype=torch.float64)
    labels = torch.arange(n) % 2
    upper = torch.stack([turn.cos(), turn.sin()], 1)
    lower = torch.stack([1 - turn.cos(), 0.5 - turn.sin()], 1)
    points = torch.where(labels[:, None] == 0, upper, lower)
    return points + noise * torch.randn(n, 2, generator=generator, dtype=torch.float64), labels


def seeded(make: object, seed: int) -> nn.Module:
    """A module made with its own random stream."""
    assert callable(make)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module: nn.Module = make()
    return module
