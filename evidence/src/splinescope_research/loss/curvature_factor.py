"""The factor of a Gauss-Newton matrix, written down: `A` with `A^T A` the curvature of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from splinescope.landscape.hessian import prepare
from splinescope.landscape.inputs import Layers, Model, check_model
from splinescope.support.derivatives import differentiating
from splinescope.support.losses import LOSSES, named_loss
from splinescope.support.progress import Progress, stepping

_FACTOR_NUMBERS = 64 << 20  # numbers held while it is made (512 MB)


def curvature_factor(
    model: Model,
    x: Any,
    y: Any,
    *,
    loss: str = "squared",
    layer: Layers = None,
    progress: Progress | bool | None = None,
) -> np.ndarray:
    """The matrix `A` `[N C, P]` with GGN = `A^T A`: its squared singular values are the curvatures.

    Dense: `sqrt(2/N) J` for the squared error, `sqrt(1/N) S_n J_n` with `S_n^T S_n = diag(p) - p p^T` for the
    cross-entropy, and so on for every named loss. Cost: C backward passes of all points, and N C P numbers; `progress`
    as in `tessellate`.
    """
    named_loss(loss, functions=False)
    module = check_model(model)
    moving, frozen, inputs, *_ = prepare(module, x, y, loss, layer, torch.float64)
    return dense_factor(module, moving, frozen, inputs, loss, 256, progress)


def dense_factor(
    model: nn.Module,
    moving: dict[str, Tensor],
    frozen: dict[str, Tensor],
    x: Tensor,
    loss: str,
    size: int,
    progress: Progress | bool | None = False,
) -> np.ndarray:
    """The factor, some points at a time: each point has its own gradients, so a pass serves all of them."""
    parameters = sum(p.numel() for p in moving.values())

    def of_point(point: Tensor) -> tuple[Tensor, Tensor]:
        values, backward, *_ = vjp(lambda p: functional_call(model, {**frozen, **p}, (point[None],)).flatten(), moving)
        units = torch.eye(len(values), dtype=values.dtype, device=values.device)
        slopes = vmap(lambda unit: backward(unit)[0])(units)
        return values, torch.cat([slopes[name].flatten(1) for name in moving], 1)

    parts = []
    with differentiating("the model", lambda: functional_call(model, {**frozen, **moving}, (x,))):
        outputs = vjp(lambda p: functional_call(model, {**frozen, **p}, (x[:1],)), moving)[0].numel()
        together = max(1, min(size, _FACTOR_NUMBERS // (8 * outputs * parameters)))
        for start in stepping(range(0, len(x), together), progress, "gradients of points"):
            values, J = (t.detach() for t in _of_points(of_point, x[start : start + together]))
            if loss != "squared":
                J = LOSSES[loss].root(values).mT @ J
            parts.append(J.flatten(0, 1).to("cpu", torch.float64).numpy())
    return np.concatenate(parts) * np.sqrt((2.0 if loss == "squared" else 1.0) / len(x))


def _of_points(one: Callable[[Tensor], tuple[Tensor, Tensor]], x: Tensor) -> tuple[Tensor, Tensor]:
    """`one` at all points at once where torch batches its ops rightly (of PReLU it does not), else one by one."""
    try:
        together = vmap(one)(x)
        right = all(torch.allclose(together[1][i], one(x[i])[1], rtol=1e-6, atol=1e-12) for i in (0, len(x) - 1))
    except RuntimeError:
        right = False
    if right:
        return together
    values, slopes = zip(*(one(point) for point in x), strict=True)
    return torch.stack(values), torch.stack(slopes)
