"""Local complexity by the linearized distance to each fold: |z| / ||grad_x z|| <= r.

The slopes of all units are found with few passes: along directions that go together, or backwards from units. In a
convolutional network a unit sees a small window of the image at first. Directions that no window holds two of go
through the network in one pass: the square of their sum is the sum of their squares. Which inputs a unit can see is
told by NaN, which every operation hands on; one that swallows it (`where(x > 0, x, 0)`) shows in a second look, with
other signs. Behind the images there are few units, and one backward pass each is less than one forward pass for each
input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ..network.watching.sites import Sites
from ..support.derivatives import plain_kernels
from ..support.errors import UnsupportedModelError
from ..support.progress import Share
from ..support.threads import ALONE
from .humayun2024_frame import check_numbers


def distance_counts(net: Sites, x: Tensor, radius: float, max_bytes: int, share: Share) -> tuple[Tensor, Tensor]:
    """`[N, S]` units of each site with |z(x)| <= radius * ||grad_x z(x)||, and neurons; by the least passes."""
    size = math.prod(x.shape[1:])
    widest = max(size, *(site.units * (9 if win else 1) for site, win in zip(net.sites, net.winner, strict=True)))
    rows = max(1, max_bytes // (2 * widest * torch.finfo(net.dtype).bits // 8))
    routes = single(net, tuple(x.shape[1:])) if len(x) == 0 else _checked_routes(net, x[:1].to(net.dtype), rows)
    counts, neurons = torch.zeros(2, len(x), len(net.sites), dtype=torch.int64, device=net.device)
    broken = torch.zeros(len(net.sites), dtype=torch.bool, device=net.device)
    for first in range(0, len(x), rows):
        share(first / len(x))
        points = x[first : first + rows].to(net.dtype)
        for site, (height, squares) in _slopes(net, points, routes, rows).items():
            broken[site] |= height.isnan().any()
            near = (squares > 0) & (height.square() <= radius**2 * squares)
            if net.winner[site]:
                near = near.any(1)
            counts[first : first + len(points), site] = near.reshape(len(points), -1).sum(1)
            neurons[first : first + len(points), site] = net.neurons(site, near)
    check_numbers(net, broken)
    return counts.cpu(), neurons.cpu()


def _checked_routes(net: Sites, row: Tensor, rows_at_once: int) -> Routes:
    """The best routes, if the directions of each group are apart at this row: their signs then make no difference."""
    routes = planned(net, row, rows_at_once)
    if len(routes.directions) == row[0].numel() or not routes.forward:
        return routes
    signs = torch.randint(0, 2, row.shape[1:], generator=torch.Generator().manual_seed(0)).to(row) * 2 - 1
    one = _slopes(net, row, replace(routes, backward=()), rows_at_once)
    other = _slopes(net, row, replace(routes, directions=routes.directions * signs, backward=()), rows_at_once)
    eps = torch.finfo(torch.promote_types(net.dtype, torch.float32)).eps
    for site in routes.forward:
        (_, a), (_, b) = one[site], other[site]
        if bool(((a - b).abs() > _SAME * eps * (a + b)).any()):
            return single(net, tuple(row.shape[1:]))
    return routes


_SAME = 1e3  # roundings of one number: terms that do not overlap differ by none, or by the order of a few sums


def _slopes(net: Sites, points: Tensor, routes: Routes, rows_at_once: int) -> dict[int, tuple[Tensor, Tensor]]:
    """Per site, z and ||grad z||^2, each `[n, ...]`."""
    found: dict[int, tuple[Tensor, Tensor]] = {}
    if routes.forward:
        directions_at_once = min(len(routes.directions), rows_at_once)
        blocks = routes.directions.split(directions_at_once)
        parts = [
            heights_and_slopes(net, few, blocks, routes.forward)
            for few in points.split(max(1, rows_at_once // directions_at_once))
        ]
        for site in routes.forward:
            found[site] = tuple(torch.cat([part[k][site] for part in parts]) for k in range(2))  # type: ignore[assignment]
    if routes.backward:
        found |= backward_slopes(net, points, routes.backward)
    return found


def backward_slopes(net: Sites, points: Tensor, sites: Sequence[int]) -> dict[int, tuple[Tensor, Tensor]]:
    """Per site, z and ||grad z||^2, each `[n, ...]`, in at least float32: one backward pass per unit."""
    rows, heights = points.clone().requires_grad_(), {}

    def visit(site: int, z: Tensor) -> None:
        if site in sites:
            heights[site] = z.clone()  # the activation may be in place

    with torch.enable_grad(), plain_kernels():
        net.run(rows * 1, visit, cuts=True)
        found = {}
        for site, z in heights.items():
            flat, wide = z.reshape(len(z), -1), torch.promote_types(z.dtype, torch.float32)
            squares = torch.zeros_like(flat, dtype=wide, requires_grad=False)
            for unit in range(flat.shape[1]) if flat.requires_grad else ():
                (slope,) = torch.autograd.grad(flat[:, unit].sum(), rows, retain_graph=True)
                squares[:, unit] = slope.reshape(len(slope), -1).to(wide).square().sum(1)
            found[site] = z.detach().to(wide), squares.reshape(z.shape)
    return found


def heights_and_slopes(
    net: Sites, points: Tensor, blocks: Sequence[Tensor], sites: Sequence[int] | None = None
) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """Per site (of those asked for), z and ||grad z||^2, each `[n, ...]`, in at least float32.

    Forward-mode derivatives: directions go through the network beside the points, several per pass.
    """
    heights: dict[int, Tensor] = {}
    squares: dict[int, Tensor] = {}

    def visit(site: int, z: Tensor) -> None:
        if sites is not None and site not in sites:
            return
        value, tangent = forward_ad.unpack_dual(z)
        shape = (directions, len(points), *z.shape[1:])
        wide = torch.promote_types(z.dtype, torch.float32)
        if site not in heights:
            heights[site] = value.reshape(shape)[0].to(wide, copy=True)  # the activation may be in place
            squares[site] = torch.zeros_like(heights[site])
        if tangent is not None:
            squares[site] += tangent.reshape(shape).to(wide).square().sum(0)

    for tangents in blocks:
        directions = len(tangents)
        rows = points.repeat(directions, *(1,) * (points.dim() - 1))
        with ALONE, forward_ad.dual_level(), plain_kernels():  # one level of tangents for the whole process
            dual = forward_ad.make_dual(rows, tangents.repeat_interleave(len(points), 0))
            try:
                net.run(dual, visit, cuts=True)
            except NotImplementedError as error:
                raise UnsupportedModelError(
                    f"method 'distance' needs forward-mode derivatives, which torch lacks here: "
                    f"{str(error).splitlines()[0]} Use method='frame'."
                ) from error
    return heights, squares


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
