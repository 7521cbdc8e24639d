"""Data sets in the plane for the playground, within about two units of the origin."""

from __future__ import annotations

import math

import numpy as np
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


def read_csv(text: str) -> list[list[float]]:
    """Rows x, y, class of a CSV text (a header is allowed; two columns are class 0), fitted into the picture."""
    rows = [line.replace(";", ",").split(",") for line in text.splitlines() if line.strip()]
    if rows and not _is_number(rows[0][0]):
        rows = rows[1:]
    if not rows or any(len(row) not in (2, 3) or not all(map(_is_number, row)) for row in rows):
        raise InputError("the file must have two or three columns of numbers: x, y and a class.")
    table = np.array([[*map(float, row), 0.0][:3] for row in rows])
    if not np.isfinite(table).all():
        raise InputError("the file must have finite numbers only.")
    low, high = table[:, :2].min(0), table[:, :2].max(0)
    table[:, :2] = (table[:, :2] - (low + high) / 2) * (3.2 / max(float((high - low).max()), 1e-12))
    names = np.unique(table[:, 2])
    if len(names) > 10:
        raise InputError(f"the third column must hold at most 10 classes, got {len(names)}.")
    table[:, 2] = np.searchsorted(names, table[:, 2])
    return table.tolist()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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
