"""Local complexity by a frame of directions.

Humayun, Balestriero, Baraniuk, "Deep Networks Always Grok and Here is Why", 2024; the survey's section on the
dynamic geometry of learning.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._errors import InputError
from ._sites import Sites


def frame_counts(net: Sites, x: Tensor, directions: Tensor, radius: float, max_bytes: int) -> Tensor:
    """`[N, S]`: units of each site whose state is not constant over the vertices `x +- radius * directions`.

    Vertices are made, run and reduced block by block: what stays of a site is the smallest and the largest of its
    values per point and unit. Rows lie vertex by vertex, so that this is a sweep over long contiguous rows.

    Args:
        net: The sites.
        x: `[N, *shape]` points.
        directions: `[P, *shape]`.
        radius: r.
        max_bytes: Bound on the bytes of one block at its widest site.
    """
    steps = radius * torch.cat([directions, -directions]).to(x)
    widest = max(math.prod(x.shape[1:]), *(site.units for site in net.sites))
    rows = max(1, max_bytes // (widest * torch.finfo(net.dtype).bits // 8))
    vertices_at_once = min(len(steps), rows)
    points_at_once = max(1, rows // vertices_at_once)
    counts = torch.zeros(len(x), len(net.sites), dtype=torch.int64, device=net.device)
    broken = torch.zeros(len(net.sites), dtype=torch.bool, device=net.device)
    for first in range(0, len(x), points_at_once):
        points = x[first : first + points_at_once]
        extremes = _extremes(net, points, steps.split(vertices_at_once))
        moved = [
            low != high if win else (low <= 0) & (high > 0)
            for (low, high), win in zip(extremes, net.winner, strict=True)
        ]
        counts[first : first + len(points)] = torch.stack([units.sum(1) for units in moved], 1)
        broken |= torch.stack([low.sum(dtype=torch.float32) for low, _ in extremes]).isnan()  # NaN spreads to sums
    check_numbers(net, broken)
    return counts.cpu()


def _extremes(net: Sites, points: Tensor, blocks: tuple[Tensor, ...]) -> list[tuple[Tensor, Tensor]]:
    """Per site, the smallest and the largest state `[n, ...]` over all vertices."""
    found: dict[int, tuple[Tensor, Tensor]] = {}

    def visit(site: int, state: Tensor) -> None:
        by_vertex = state.reshape(vertices, -1)  # two axes: the fast kernel
        low, high = by_vertex.amin(0).reshape(len(points), -1), by_vertex.amax(0).reshape(len(points), -1)
        if site in found:
            low, high = torch.minimum(low, found[site][0]), torch.maximum(high, found[site][1])
        found[site] = low, high

    for steps in blocks:
        vertices = len(steps)
        rows = (points.unsqueeze(0) + steps.unsqueeze(1)).flatten(0, 1)
        net.run(rows.to(net.dtype), visit)
    return [found[site] for site in range(len(net.sites))]


class NotNumbersError(InputError):
    """A pre-activation is NaN, as after a training run has diverged."""


def check_numbers(net: Sites, broken: Tensor) -> None:
    """Refuse sites `[S]` where a value was not a number: a comparison with NaN quietly counts nothing."""
    if bool(broken.any()):
        where = net.sites[int(broken.nonzero()[0])]
        raise NotNumbersError(f"pre-activations must be numbers, got NaN at {where.path or 'model'} ({where.op}).")
