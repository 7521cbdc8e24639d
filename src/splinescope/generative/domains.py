"""Latent domains: where a generator's latents live and how densely the model draws them.

A domain draws latents, knows the log density of its law, and how to take a random-walk step that stays inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ..support.checks import check_positive, check_whole
from ..support.errors import InputError


@runtime_checkable
class LatentDomain(Protocol):
    """What the samplers ask of a domain; write your own with these members.

    One that has tangent spaces may have `onto(z)` too, the nearest points of its support: `project` and `manifold_law`
    then move along it. Without, a step that leaves it is undone.

    Attributes:
        size: d, numbers per latent.
        bounded: Whether its support has finite volume, so that "uniform on the manifold" means something.
    """

    @property
    def size(self) -> int: ...

    @property
    def bounded(self) -> bool: ...

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """`[count, d]` independent latents, float64."""

    def log_density(self, z: Tensor) -> Tensor:
        """`[n]` log density at `[n, d]`; -inf outside the support."""

    def tangents(self, z: Tensor) -> Tensor | None:
        """`[n, d, k]` orthonormal bases of the support's tangent spaces; None where it is all of latent space."""

    def step(self, z: Tensor, size: float, generator: torch.Generator) -> Tensor:
        """A symmetric random-walk proposal from z; it may leave the support, where the density is zero."""


def check_domain(domain: object) -> LatentDomain:
    """A latent domain, or an error that names some."""
    if not isinstance(domain, LatentDomain):
        raise InputError(f"domain must be a latent domain such as Ball(64, 8.0) or Box(2), got {domain!r}.")
    return domain


class _Flat:
    """Domains that fill latent space: the random walk is a Gaussian step."""

    def tangents(self, z: Tensor) -> Tensor | None:
        return None

    def step(self, z: Tensor, size: float, generator: torch.Generator) -> Tensor:
        return z + size * torch.randn(z.shape, generator=generator, dtype=z.dtype)


@dataclass(frozen=True)
class Box(_Flat):
    """Uniform on `[low, high]^size`.

    Example:
        >>> Box(2).draw(3, torch.Generator().manual_seed(0)).shape
        torch.Size([3, 2])
    """

    size: int
    low: float = -1.0
    high: float = 1.0
    bounded = True

    def __post_init__(self) -> None:
        check_whole(self.size, "size")
        if not self.low < self.high:
            raise InputError(f"low must be below high, got low={self.low!r}, high={self.high!r}.")

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        unit = torch.rand(count, self.size, generator=generator, dtype=torch.float64)
        return self.low + (self.high - self.low) * unit

    def log_density(self, z: Tensor) -> Tensor:
        inside = ((z >= self.low) & (z <= self.high)).all(1)
        return _where(inside, -self.size * math.log(self.high - self.low))


@dataclass(frozen=True)
class Gaussian(_Flat):
    """Standard normal times `scale`; unbounded, so nothing is uniform on it (see `TruncatedGaussian`, `Ball`)."""

    size: int
    scale: float = 1.0
    bounded = False

    def __post_init__(self) -> None:
        check_whole(self.size, "size")
        check_positive(self.scale, "scale")

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        return self.scale * torch.randn(count, self.size, generator=generator, dtype=torch.float64)

    def log_density(self, z: Tensor) -> Tensor:
        constant = self.size * (0.5 * math.log(2 * math.pi) + math.log(self.scale))
        return -0.5 * (z.to(torch.float64) / self.scale).square().sum(1) - constant


@dataclass(frozen=True)
class TruncatedGaussian(_Flat):
    """Normal of the given scale, each coordinate held within `[-bound, bound]` (the "truncation trick")."""

    size: int
    bound: float = 2.0
    scale: float = 1.0
    bounded = True

    def __post_init__(self) -> None:
        check_whole(self.size, "size")
        check_positive(self.bound, "bound")
        check_positive(self.scale, "scale")

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        share = math.erf(self.bound / self.scale / math.sqrt(2))
        unit = 2 * torch.rand(count, self.size, generator=generator, dtype=torch.float64) - 1
        z = self.scale * math.sqrt(2) * torch.erfinv(share * unit)
        return z.clamp(-self.bound, self.bound)

    def log_density(self, z: Tensor) -> Tensor:
        share = math.erf(self.bound / self.scale / math.sqrt(2))
        inside = (z.abs() <= self.bound).all(1)
        full = Gaussian(self.size, self.scale).log_density(z) - self.size * math.log(share)
        return torch.where(inside, full, torch.full_like(full, -torch.inf))


@dataclass(frozen=True)
class Ball(_Flat):
    """Uniform in the ball of the given radius.

    With radius sqrt(size) it is where a standard normal of many dimensions lives, without its weights: the
    bounded domain to take for MaGNET on a generator trained with normal latents.
    """

    size: int
    radius: float
    bounded = True

    def __post_init__(self) -> None:
        check_whole(self.size, "size")
        check_positive(self.radius, "radius")

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        direction = torch.randn(count, self.size, generator=generator, dtype=torch.float64)
        direction /= direction.norm(dim=1, keepdim=True)
        return (
            self.radius * direction * torch.rand(count, 1, generator=generator, dtype=torch.float64) ** (1 / self.size)
        )

    def log_density(self, z: Tensor) -> Tensor:
        half = self.size / 2
        log_volume = half * math.log(math.pi) - math.lgamma(half + 1) + self.size * math.log(self.radius)
        return _where(z.norm(dim=1) <= self.radius, -log_volume)


@dataclass(frozen=True)
class Sphere:
    """Uniform on the sphere of the given radius; densities are per area of the sphere.

    Volumes are then those of the sphere's tangent spaces: the generator's Jacobian across the sphere is left out.
    """

    size: int
    radius: float = 1.0
    bounded = True

    def __post_init__(self) -> None:
        check_whole(self.size, "size", least=2)
        check_positive(self.radius, "radius")

    def onto(self, z: Tensor) -> Tensor:
        """`[n, d]` nearest points of the sphere."""
        return self.radius * z / z.norm(dim=1, keepdim=True)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        return self.onto(torch.randn(count, self.size, generator=generator, dtype=torch.float64))

    def log_density(self, z: Tensor) -> Tensor:
        half = self.size / 2
        log_area = math.log(2) + half * math.log(math.pi) - math.lgamma(half)
        log_area += (self.size - 1) * math.log(self.radius)
        # 1e-6: the rounding of a latent that has been in float32
        return _where((z.norm(dim=1) / self.radius - 1).abs() <= 1e-6, -log_area)

    def tangents(self, z: Tensor) -> Tensor:
        """The last d - 1 columns of the Householder reflection that takes z to the first axis."""
        unit = z.to(torch.float64) / z.norm(dim=1, keepdim=True)
        sign = torch.where(unit[:, :1] >= 0, 1.0, -1.0).to(unit.dtype)
        mirror = unit.clone()
        mirror[:, :1] += sign
        scale = 2 / mirror.square().sum(1)
        reflection = (
            torch.eye(self.size, dtype=unit.dtype) - scale[:, None, None] * mirror[:, :, None] * mirror[:, None]
        )
        return reflection[:, :, 1:]

    def step(self, z: Tensor, size: float, generator: torch.Generator) -> Tensor:
        noise = torch.randn(z.shape, generator=generator, dtype=z.dtype)
        return self.onto(z + size * noise)


def _where(inside: Tensor, value: float) -> Tensor:
    result = torch.full(inside.shape, value, dtype=torch.float64)
    return torch.where(inside, result, torch.full_like(result, -torch.inf))
