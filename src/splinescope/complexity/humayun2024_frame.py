"""Local complexity by a frame of directions.

Humayun, Balestriero, Baraniuk, "Deep Networks Always Grok and Here is Why", 2024; the survey's section on the
dynamic geometry of learning.
"""

import math
from typing import Any

import torch
from torch import Tensor

from ..network.watching.intercept import Functions
from ..network.watching.sites import Sites
from ..support.errors import InputError
from ..support.progress import Share


def frame_counts(
    net: Sites, x: Tensor, directions: Tensor, radius: float, max_bytes: int, share: Share
) -> tuple[Tensor, Tensor]:
    """`[N, S]` units of each site whose state is not constant over `x +- radius * directions`; and neurons.

    Block by block of at most `max_bytes`; only the least and the largest value per point and unit are kept. Rows lie
    vertex by vertex, so that this is a sweep over long contiguous rows.
    """
    steps = radius * torch.cat([directions, -directions]).to(x)
    widest = max(math.prod(x.shape[1:]), *(site.units for site in net.sites))
    rows = max(1, max_bytes // (widest * torch.finfo(net.dtype).bits // 8))
    vertices_at_once = min(len(steps), rows)
    points_at_once = max(1, rows // vertices_at_once)
    counts, neurons = torch.zeros(2, len(x), len(net.sites), dtype=torch.int64, device=net.device)
    broken = torch.zeros(len(net.sites), dtype=torch.bool, device=net.device)
    for first in range(0, len(x), points_at_once):
        share(first / len(x))
        points = x[first : first + points_at_once]
        extremes = _extremes(net, points, steps.split(vertices_at_once))
        moved = [
            low != high if win else (low <= 0) & (high > 0)
            for (low, high), win in zip(extremes, net.winner, strict=True)
        ]
        counts[first : first + len(points)] = torch.stack([units.sum(1) for units in moved], 1)
        neurons[first : first + len(points)] = torch.stack([net.neurons(i, m) for i, m in enumerate(moved)], 1)
        broken |= torch.stack([low.sum(dtype=torch.float32) for low, _ in extremes]).isnan()  # NaN spreads to sums
    check_numbers(net, broken)
    return counts.cpu(), neurons.cpu()


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
        rows = (points.unsqueeze(0) + steps.unsqueeze(1)).flatten(0, 1).to(net.dtype)
        with _FirstMap(rows, points, steps):
            net.run(rows, visit)
    return [found[site] for site in range(len(net.sites))]


class _FirstMap(Functions):
    """Splits a linear map or convolution f of the vertices: f(x + s) = f(x) + f0(s), f0 being f without its bias.

    One pass over n points and one over 2P steps instead of 2P n. Not under autocast, which would round the two parts.
    """

    def __init__(self, rows: Tensor, points: Tensor, steps: Tensor) -> None:
        super().__init__()
        self._rows, self._points, self._steps = rows, points.to(rows.dtype), steps.to(rows.dtype)
        self._fresh = None if rows.is_inference() else rows._version
        if rows.dtype.itemsize < 4 or torch.is_autocast_enabled(rows.device.type):
            self._fresh = None

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getattr(func, "__name__", "") not in _MAPS or not self._is_rows(args[0] if args else None):
            return func(*args, **kwargs)
        rows, weight, *rest = args
        bias = rest.pop(0) if rest else kwargs.pop("bias", None)
        points, steps = (part.reshape(len(part), *rows.shape[1:]) for part in (self._points, self._steps))
        at_points, at_steps = func(points, weight, bias, *rest, **kwargs), func(steps, weight, None, *rest, **kwargs)
        return (at_points.unsqueeze(0) + at_steps.unsqueeze(1)).flatten(0, 1)

    def _is_rows(self, value: Any) -> bool:
        rows = self._rows
        return (
            self._fresh is not None
            and isinstance(value, Tensor)
            and value.data_ptr() == rows.data_ptr()
            and value.dim() > 1
            and len(value) == len(rows)
            and value.numel() == rows.numel()
            and value.is_contiguous()
            and rows._version == self._fresh
        )


_MAPS = ("linear", "conv1d", "conv2d", "conv3d")


class NotNumbersError(InputError):
    """A pre-activation is NaN, as after a training run has diverged."""


def check_numbers(net: Sites, broken: Tensor) -> None:
    """Refuse sites `[S]` where a value was not a number: a comparison with NaN quietly counts nothing."""
    if bool(broken.any()):
        where = net.sites[int(broken.nonzero()[0])]
        raise NotNumbersError(f"pre-activations must be numbers, got NaN at {where.path or 'model'} ({where.op}).")
