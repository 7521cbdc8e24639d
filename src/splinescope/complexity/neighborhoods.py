"""What "near a point" means: frames and how far they reach along a fold's normal, and the spacing of data."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from scipy.integrate import quad
from scipy.special import erf
from torch import Tensor

from ..support.checks import as_rows, check_positive, check_whole
from ..support.errors import InputError


def random_frame(count: int, shape: tuple[int, ...], *, generator: torch.Generator | None = None) -> Tensor:
    """`[count, *shape]` random orthonormal directions, uniform (Haar), in float64; of seed 0 without a generator."""
    size = math.prod(shape)
    if isinstance(count, bool) or int(count) != count or not 1 <= count <= size:
        raise InputError(f"directions must be a whole number between 1 and the input size {size}, got {count!r}.")
    count = int(count)
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    gaussian = torch.randn(size, count, generator=generator, dtype=torch.float64, device=generator.device).cpu()
    q, r = torch.linalg.qr(gaussian)
    return (q * r.diagonal().sign()).T.reshape(count, *shape)


def frame_reach(size: int, count: int) -> float:
    """How far a frame of unit radius reaches along a random fold's normal, on average: `E max_p |v_p . n|`.

    For n uniform on the sphere of R^D and P orthonormal directions this is `E max_{p <= P} |g_p| / E ||g||` with
    g ~ N(0, I_D), since length and direction of a Gaussian are independent. Exact (quadrature).
    """
    if not 1 <= count <= size:
        raise InputError(f"count must be between 1 and the input size {size}, got {count}.")
    tallest, _ = quad(lambda t: 1.0 - erf(t / math.sqrt(2.0)) ** count, 0.0, 12.0, limit=200)
    length = math.sqrt(2.0) * math.exp(math.lgamma((size + 1) / 2) - math.lgamma(size / 2))
    return float(tallest / length)


def calibrated_radius(distance: float, size: int, count: int) -> float:
    """The frame radius whose frame reaches, on average over normals, the given distance along a fold's normal.

    With it, frame counts of different sizes D and numbers P of directions are comparable.

    Example:
        >>> round(calibrated_radius(0.01, 784, 25), 3)
        0.124
    """
    return check_positive(distance, "distance") / frame_reach(size, count)


Radius = float | Literal["auto"]
"""A size of neighborhoods, or "auto": half the data's spacing."""


def data_spacing(x: Any, *, most: int = 1000) -> float:
    """Median distance of a point to its nearest other point.

    Exact for up to `most` points; of more, an estimate from that many. Repeated points are left out.

    Args:
        x: `[N, ...]` points.
        most: Points looked at; the cost is their number squared.

    Example:
        >>> data_spacing([[0.0], [1.0], [3.0], [6.0]])
        1.5
    """
    points = as_rows(x, "x")
    if points.dim() < 2:
        raise InputError(f"x must have shape (N, ...), got {tuple(points.shape)}.")
    count = min(check_whole(most, "most", least=2), len(points))
    rows = torch.linspace(0, max(len(points) - 1, 0), count).round().long()
    flat = points[rows].flatten(1).to("cpu", torch.float64).unique(dim=0)
    if len(flat) < 2:
        raise InputError(f"x must hold at least 2 different points to have a spacing, got {len(flat)}.")
    distances = torch.cdist(flat, flat, compute_mode="donot_use_mm_for_euclid_dist")
    return float(distances.fill_diagonal_(torch.inf).amin(1).quantile(0.5))


def as_radius(radius: Any, x: Any) -> float:
    """The radius given, or half the spacing of `x` for "auto"."""
    if isinstance(radius, str):
        if radius != "auto":
            raise InputError(f"radius must be a positive number or 'auto' (half the data's spacing), got {radius!r}.")
        return data_spacing(x) / 2
    return check_positive(radius, "radius")
