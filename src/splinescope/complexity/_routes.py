"""How to find the slopes of all units with few passes: along directions that go together, or backwards from units.

In a convolutional network a unit sees a small window of the image at first. Directions that no window holds two of go
through the network in one pass: the square of their sum is the sum of their squares. Which inputs a unit can see is
told by NaN, which every operation hands on; one that swallows it (`where(x > 0, x, 0)`) shows in a second look, with
other signs. Behind the images there are few units, and one backward pass each is less than one forward pass for each
input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..network.watching.sites import Sites
from ..support.errors import UnsupportedModelError


@dataclass(frozen=True)
class Routes:
    """Attributes:
    directions: `[G, *input shape]` sums of unit vectors, or the unit vectors themselves.
    forward: Sites whose slopes come from those.
    backward: Sites whose slopes come from one backward pass per unit.
    """

    directions: Tensor
    forward: tuple[int, ...]
    backward: tuple[int, ...]


def single(net: Sites, shape: tuple[int, ...]) -> Routes:
    """One direction for each input, for all sites."""
    size = math.prod(shape)
    basis = torch.eye(size, dtype=net.dtype, device=net.device).reshape(size, *shape)
    return Routes(basis, tuple(range(len(net.sites))), ())


def planned(net: Sites, row: Tensor, rows_at_once: int) -> Routes:
    """The routes of least passes, of those that the windows of the sites allow; `row` is `[1, *input shape]`."""
    shape = tuple(row.shape[1:])
    if row.dim() not in (3, 4):  # channels of a series or an image; others have no windows
        return single(net, shape)
    seen = _windows(net, row, rows_at_once)
    if seen is None:
        return single(net, shape)
    windows, units = seen
    size, sites = math.prod(shape), range(len(net.sites))
    order = sorted(sites, key=lambda site: math.prod(windows[site]))
    best, cost = ([*sites], [*shape[1:]]), size
    for count in range(len(order) + 1):
        ahead = order[:count]
        steps = [max((windows[site][axis] for site in ahead), default=0) for axis in range(len(shape) - 1)]
        passes = shape[0] * math.prod(steps) + sum(units[site] for site in order[count:])
        if passes < cost:
            best, cost = (ahead, steps), passes
    ahead, steps = best
    directions = _combs(shape, steps).to(net.device, net.dtype)
    return Routes(directions, tuple(sorted(ahead)), tuple(sorted(set(sites) - set(ahead))))


def _windows(net: Sites, row: Tensor, rows_at_once: int) -> tuple[list[tuple[int, ...]], list[int]] | None:
    """Per site, the reach of a unit's inputs along each axis, and its units; None where the model fails on NaN."""
    found = [_ends(net, row, axis, rows_at_once) for axis in range(2, row.dim())]
    if any(ends is None or len(ends) < len(net.sites) for ends in found):
        return None
    along = [[ends[site] for site in range(len(net.sites))] for ends in found if ends is not None]
    spans = [
        [int((last - first + 1).clamp_min(0).max()) if len(first) else 0 for first, last in axis] for axis in along
    ]
    return list(zip(*spans, strict=True)), [len(first) for first, _ in along[0]]


def _ends(net: Sites, row: Tensor, axis: int, rows_at_once: int) -> dict[int, tuple[Tensor, Tensor]] | None:
    """Per site, `[U]` the first and last place along an axis of the input that each unit can see."""
    length = row.shape[axis]
    ends: dict[int, tuple[Tensor, Tensor]] = {}
    for lines in torch.arange(length, device=row.device).split(rows_at_once):
        rows = row.repeat(len(lines), *(1,) * (row.dim() - 1))
        rows.movedim(axis, 1)[torch.arange(len(lines)), lines] = math.nan
        marked: dict[int, Tensor] = {}
        try:
            net.run(rows, lambda site, z, marked=marked: marked.update({site: z.isnan()}), cuts=True)  # type: ignore[misc]
        except (RuntimeError, ValueError, UnsupportedModelError):
            return None
        for site, mark in marked.items():
            seen = mark.reshape(len(lines), -1)
            first = torch.where(seen, lines[:, None], length).amin(0)
            last = torch.where(seen, lines[:, None], -1).amax(0)
            before = ends.get(site, (first, last))
            ends[site] = torch.minimum(before[0], first), torch.maximum(before[1], last)
    return ends


def _combs(shape: tuple[int, ...], steps: list[int]) -> Tensor:
    """`[G, *shape]`: per channel and place within a step, ones at that place of every step."""
    places = [torch.arange(length) % max(step, 1) for length, step in zip(shape[1:], steps, strict=True)]
    teeth = [torch.nn.functional.one_hot(place, max(step, 1)).T for place, step in zip(places, steps, strict=True)]
    grid = teeth[0] if len(teeth) == 1 else torch.einsum("ay,bx->abyx", *teeth).flatten(0, 1)
    channels = torch.eye(shape[0], dtype=grid.dtype)
    return torch.einsum("ck,g...->cgk...", channels, grid).flatten(0, 1)
