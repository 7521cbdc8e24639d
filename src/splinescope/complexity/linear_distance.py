"""Local complexity by the linearised distance to each fold: |z| / ||grad_x z|| <= r."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from .._errors import UnsupportedModelError
from .._progress import Share
from ._sites import Sites
from .humayun2024_frame import check_numbers


def distance_counts(net: Sites, x: Tensor, radius: float, max_bytes: int, share: Share) -> tuple[Tensor, Tensor]:
    """`[N, S]` units of each site with |z(x)| <= radius * ||grad_x z(x)||; and neurons.

    Forward-mode derivatives: the unit vectors of input space go through the network beside the points, several per
    pass, and only the sum of squares per point and unit is kept. D + 1 directions cost about 2 D forward passes per
    point; no Jacobian is stored.
    """
    size = math.prod(x.shape[1:])
    widest = max(size, *(site.units * (9 if win else 1) for site, win in zip(net.sites, net.winner, strict=True)))
    rows = max(1, max_bytes // (2 * widest * torch.finfo(net.dtype).bits // 8))
    directions_at_once = min(size, rows)
    points_at_once = max(1, rows // directions_at_once)
    basis = torch.eye(size, dtype=net.dtype, device=net.device).reshape(size, *x.shape[1:])
    counts, neurons = torch.zeros(2, len(x), len(net.sites), dtype=torch.int64, device=net.device)
    broken = torch.zeros(len(net.sites), dtype=torch.bool, device=net.device)
    for first in range(0, len(x), points_at_once):
        share(first / len(x))
        points = x[first : first + points_at_once].to(net.dtype)
        heights, squares = heights_and_slopes(net, points, basis.split(directions_at_once))
        for site, height in heights.items():
            broken[site] |= height.isnan().any()
            near = (squares[site] > 0) & (height.square() <= radius**2 * squares[site])
            if net.winner[site]:
                near = near.any(1)
            counts[first : first + len(points), site] = near.flatten(1).sum(1)
            neurons[first : first + len(points), site] = net.neurons(site, near)
    check_numbers(net, broken)
    return counts.cpu(), neurons.cpu()


def heights_and_slopes(
    net: Sites, points: Tensor, blocks: tuple[Tensor, ...]
) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """Per site, z and ||grad z||^2, each `[n, ...]`, in at least float32."""
    heights: dict[int, Tensor] = {}
    squares: dict[int, Tensor] = {}

    def visit(site: int, z: Tensor) -> None:
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
        with forward_ad.dual_level(), sdpa_kernel(SDPBackend.MATH):
            dual = forward_ad.make_dual(rows, tangents.repeat_interleave(len(points), 0))
            try:
                net.run(dual, visit, cuts=True)
            except NotImplementedError as error:
                raise UnsupportedModelError(
                    f"method 'distance' needs forward-mode derivatives, which torch lacks here: "
                    f"{str(error).splitlines()[0]} Use method='frame'."
                ) from error
    return heights, squares
