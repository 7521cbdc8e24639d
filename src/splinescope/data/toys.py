"""Toy sets in the plane."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..support.errors import InputError


def two_moons(
    count: int = 200, *, noise: float = 0.1, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Two interleaved half circles of radius 1: points `[count, 2]` and their classes `[count]` (0 above, 1 below).

    Args:
        count: Number of points, split evenly.
        noise: Standard deviation of the Gaussian noise on each coordinate.
        generator: Source of the randomness.
    """
    if count < 2 or noise < 0:
        raise InputError(f"count must be at least 2 and noise at least 0, got {count} and {noise}.")
    angle = math.pi * torch.rand(count, generator=generator)
    upper = torch.stack([angle.cos() - 0.5, angle.sin() - 0.25], 1)
    labels = (torch.arange(count) >= count // 2).long()
    points = torch.where(labels[:, None] == 1, -upper, upper)
    return points + noise * torch.randn(count, 2, generator=generator), labels


def star(count: int = 50, *, arms: int = 5, radius: float = 1.0, inner: float = 0.45) -> Tensor:
    """`[count, 2]` points evenly spaced along the outline of a star about the origin.

    Args:
        count: Number of points.
        arms: Number of tips.
        radius: Distance of the tips.
        inner: Distance of the notches, as a fraction of `radius`.
    """
    if count < 1 or arms < 2 or not (radius > 0 and 0 < inner <= 1):
        raise InputError(
            "count >= 1, arms >= 2, radius > 0 and 0 < inner <= 1 expected, "
            f"got count={count}, arms={arms}, radius={radius}, inner={inner}."
        )
    turn = math.pi / 2 + math.pi * torch.arange(2 * arms + 1) / arms
    length = torch.where(torch.arange(2 * arms + 1) % 2 == 0, radius, radius * inner)
    corners = torch.stack([length * turn.cos(), length * turn.sin()], 1)
    place = torch.arange(count) * (2 * arms / count)
    side = place.floor().long()
    return torch.lerp(corners[side], corners[side + 1], (place - side)[:, None])
