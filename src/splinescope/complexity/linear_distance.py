"""Local complexity by the linearized distance to each fold: |z| / ||grad_x z|| <= r."""

import math
from collections.abc import Sequence

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
    """`[N, S]` units of each site with |z(x)| <= radius * ||grad_x z(x)||, and neurons; one direction per input."""
    shape, size = tuple(x.shape[1:]), math.prod(x.shape[1:])
    widest = max(size, *(site.units * (9 if win else 1) for site, win in zip(net.sites, net.winner, strict=True)))
    rows = max(1, max_bytes // (2 * widest * torch.finfo(net.dtype).bits // 8))
    together = min(size, rows)
    blocks = torch.eye(size, dtype=net.dtype, device=net.device).reshape(size, *shape).split(together)
    counts, neurons = torch.zeros(2, len(x), len(net.sites), dtype=torch.int64, device=net.device)
    broken = torch.zeros(len(net.sites), dtype=torch.bool, device=net.device)
    step = max(1, rows // together)
    for first in range(0, len(x), step):
        share(first / len(x))
        points = x[first : first + step].to(net.dtype)
        heights, squares = heights_and_slopes(net, points, blocks)
        for site, height in heights.items():
            broken[site] |= height.isnan().any()
            near = (squares[site] > 0) & (height.square() <= radius**2 * squares[site])
            if net.winner[site]:
                near = near.any(1)
            counts[first : first + len(points), site] = near.reshape(len(points), -1).sum(1)
            neurons[first : first + len(points), site] = net.neurons(site, near)
    check_numbers(net, broken)
    return counts.cpu(), neurons.cpu()


def heights_and_slopes(
    net: Sites, points: Tensor, blocks: Sequence[Tensor]
) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """Per site, z and ||grad z||^2, each `[n, ...]`, in at least float32.

    Forward-mode derivatives: directions go through the network beside the points, several per pass.
    """
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
