"""Data sets in the plane for the playground, within about two units of the origin."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..data import star, two_moons
from ..support.errors import InputError
from .recipe import Recipe


def make_set(recipe: Recipe, *, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """Points `[N, 2]` and classes `[N]` of a recipe; another `seed` gives other points of the same distribution.

    Points are float64, of numbers that float32 holds: the playground in a browser has the same ones.
    """
    x, y = _draw(recipe, seed)
    return x.double(), y


def _draw(recipe: Recipe, seed: int | None) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(recipe.seed if seed is None else seed)
    if recipe.data == "own":
        if len(recipe.points) < 2 or len({row[2] for row in recipe.points}) < 2:
            raise InputError("draw at least two points of different classes, or choose another set.")
        table = torch.tensor(recipe.points)
        return table[:, :2].contiguous(), table[:, 2].long()
    if recipe.data == "moons":
        x, y = two_moons(recipe.count, noise=recipe.noise, generator=generator)
        return 1.3 * x, y
    x, y = _MAKERS[recipe.data](recipe.count, generator)
    return x + recipe.noise * torch.randn(x.shape, generator=generator), y


def _circles(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    y = torch.arange(count) % 2
    turn = 2 * math.pi * torch.rand(count, generator=generator)
    radius = torch.where(y == 0, 1.6, 0.7)
    return torch.stack([radius * turn.cos(), radius * turn.sin()], 1), y


def _star(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The outline of a star, and of a smaller one inside it."""
    half = max(count // 2, 1)
    x = torch.cat([star(count - half, radius=1.8), star(half, radius=0.9)])
    return x, (torch.arange(count) >= count - half).long()


def _spirals(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    y = torch.arange(count) % 2
    place = torch.rand(count, generator=generator).sqrt()
    turn = 1.5 * 2 * math.pi * place + math.pi * y
    return 1.9 * place[:, None] * torch.stack([turn.cos(), turn.sin()], 1), y


def _xor(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = 3.4 * torch.rand(count, 2, generator=generator) - 1.7
    x = x + 0.15 * x.sign()
    return x, (x[:, 0] * x[:, 1] > 0).long()


def _blobs(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    y = torch.arange(count) % 3
    turn = 2 * math.pi * y / 3 + math.pi / 2
    return 1.1 * torch.stack([turn.cos(), turn.sin()], 1) + 0.25 * torch.randn(count, 2, generator=generator), y


_MAKERS = {"circles": _circles, "star": _star, "spirals": _spirals, "xor": _xor, "blobs": _blobs}
