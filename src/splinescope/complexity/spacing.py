"""How far apart data points lie: the scale on which "near a data point" has a meaning."""

from __future__ import annotations

from typing import Any, Literal

import torch

from .._checks import as_rows, check_positive, check_whole
from .._errors import InputError

Radius = float | Literal["auto"]
"""A size of neighbourhoods, or "auto": half the data's spacing."""


def data_spacing(x: Any, *, most: int = 1000) -> float:
    """Median distance of a point to its nearest other point.

    Exact for up to `most` points; of more, an estimate from that many, spread evenly over the set (their spacing is
    a little larger than that of all). Repeated points are left out.

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
