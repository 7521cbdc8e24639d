"""Sampled loss surfaces along one or two directions, of any loss, on a grid: what the pictures are made of."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from .._checks import check_choice, check_whole
from .._errors import InputError
from ._losses import Loss, batches, check_batch_size, check_model, summed
from ._moved import Direction
from ._section_inputs import checked_span
from .hessian import prepare

_TOGETHER = 16  # grid points evaluated at once


@dataclass(frozen=True, eq=False)
class Surface:
    """Losses on a grid: a sampling, exact at the grid points and silent in between (see `loss_section` for pieces).

    Attributes:
        axes: The grid, one ascending array per direction.
        losses: `[n]` or `[n, m]` mean loss at each grid point, first direction first.
        path: `[T, d]` coordinates of a training path, or None.
    """

    axes: tuple[np.ndarray, ...]
    losses: np.ndarray
    path: np.ndarray | None = None

    @property
    def label(self) -> str:
        """What the picture of it says."""
        return f"sampled at {self.losses.size} points"

    @property
    def spread(self) -> float:
        """Largest over smallest loss on the grid."""
        least = float(self.losses.min())
        return float(self.losses.max()) / least if least > 0 else float("inf")

    @property
    def nonconvex_fraction(self) -> float:
        """Share of inner grid points where the second differences have a negative eigenvalue; an estimate.

        Negative means below -1e-3 times the largest eigenvalue in size: in 2-D of those at the point, in 1-D of those
        on the whole grid. Where the surface is flat to float32 in all directions this counts rounding: sample such
        surfaces with `dtype=torch.float64`.
        """
        steps = [axis[1] - axis[0] for axis in self.axes]
        f = self.losses
        if f.ndim == 1:
            second = np.diff(f, 2)
            return float((second < -1e-3 * np.abs(second).max()).mean())
        inner = f[1:-1, 1:-1]
        xx = (f[2:, 1:-1] - 2 * inner + f[:-2, 1:-1]) / steps[0] ** 2
        yy = (f[1:-1, 2:] - 2 * inner + f[1:-1, :-2]) / steps[1] ** 2
        xy = (f[2:, 2:] - f[2:, :-2] - f[:-2, 2:] + f[:-2, :-2]) / (4 * steps[0] * steps[1])
        middle, radius = 0.5 * (xx + yy), np.hypot(0.5 * (xx - yy), xy)
        low, high = middle - radius, middle + radius
        return float((low < -1e-3 * np.maximum(np.abs(low), np.abs(high))).mean())


def loss_surface(
    model: nn.Module,
    x: Any,
    y: Any,
    directions: Direction | Sequence[Direction],
    *,
    span: float | tuple[float, float] = 1.0,
    points: int = 41,
    loss: Loss = "cross_entropy",
    batch_norm: Literal["fixed", "reestimate"] = "fixed",
    batch_size: int | None = None,
    dtype: torch.dtype | None = None,
    path: np.ndarray | None = None,
    progress: Callable[[float], None] | None = None,
) -> Surface:
    """The mean loss over data on a grid of parameters `theta0 + sum_i t_i d_i`.

    Args:
        model: Any module in eval mode; it is not changed.
        x: `[N, ...]` inputs.
        y: Targets that fit the loss.
        directions: One or two mappings from parameter path to change (see `random_directions`).
        span: The grid covers `[-span, span]` (or a pair low, high) in each coordinate.
        points: Grid points per axis.
        loss: "cross_entropy", "squared", or a function (outputs, targets) -> mean over rows.
        batch_norm: "fixed" keeps the running statistics; "reestimate" takes, at each grid point, the mean and variance
            of each batch norm's input over this data (batches of one size averaged), as after a training epoch there.
        batch_size: Data points per pass; memory grows with it, not with N. Default 256.
        dtype: Precision; that of the parameters by default.
        path: `[T, d]` coordinates of a training path to carry along (see `principal_directions`).
        progress: Called with the share done.

    Cost: one forward pass of the data per grid point (two with re-estimation), several points at a time by `vmap`.
    """
    check_choice(batch_norm, "batch_norm", ("fixed", "reestimate"))
    points = check_whole(points, "points", least=3)
    model = check_model(model)
    given: list[Any] = list(directions) if isinstance(directions, (list, tuple)) else [directions]
    if len(given) not in (1, 2):
        raise InputError(f"directions must be one or two, got {len(given)}.")
    low, high = checked_span(span)
    precision = dtype or next((p.dtype for p in model.parameters()), torch.float32)
    moving, frozen, inputs, targets = prepare(model, x, y, loss, None, precision)
    family = [_fitting(direction, moving) for direction in given]
    size = check_batch_size(batch_size, 256)
    axis = np.linspace(low, high, points)
    grid = np.stack(np.meshgrid(*[axis] * len(family), indexing="ij"), -1).reshape(-1, len(family))
    total = summed(loss)
    losses = np.empty(len(grid))
    if batch_norm == "reestimate":
        evaluate = _Reestimating(model, frozen)
    together = _TOGETHER if batch_norm == "fixed" else 1
    with torch.no_grad():
        for start in range(0, len(grid), together):
            t = torch.from_numpy(grid[start : start + together]).to(inputs)
            if batch_norm == "fixed":
                found = _fixed(model, moving, frozen, family, t, inputs, targets, size, total)
            else:
                found = evaluate(_moved(moving, family, t[0]), inputs, targets, size, total)
            losses[start : start + len(t)] = found.cpu().double().numpy() / len(inputs)
            if progress is not None:
                progress(min(1.0, (start + len(t)) / len(grid)))
    return Surface((axis,) * len(family), losses.reshape((len(axis),) * len(family)), path)


def _fitting(direction: Any, moving: dict[str, Tensor]) -> dict[str, Tensor]:
    if not hasattr(direction, "items"):
        raise InputError(f"each direction must map parameter paths to changes, got {type(direction).__name__}.")
    result = {}
    for name, change in direction.items():
        if name not in moving:
            raise InputError(f"directions must name parameters, got {name!r}; there are: {', '.join(moving)}.")
        change = torch.as_tensor(change).detach().to(moving[name])
        if change.shape != moving[name].shape:
            raise InputError(
                f"the direction of {name} must have its shape {tuple(moving[name].shape)}, got {tuple(change.shape)}."
            )
        if not bool(change.isfinite().all()):
            raise InputError(f"the direction of {name} must be finite.")
        result[name] = change
    if not result:
        raise InputError("each direction must move at least one parameter, got an empty mapping.")
    return result


def _moved(moving: dict[str, Tensor], family: Sequence[dict[str, Tensor]], t: Tensor) -> dict[str, Tensor]:
    """Parameters at coordinates t `[d]`."""
    result = dict(moving)
    for amount, direction in zip(t, family, strict=True):
        for name, change in direction.items():
            result[name] = result[name] + amount * change
    return result


def _fixed(
    model: nn.Module, moving: dict[str, Tensor], frozen: dict[str, Tensor], family: Sequence[dict[str, Tensor]],
    t: Tensor, x: Tensor, y: Tensor, size: int, total: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:  # fmt: skip
    """Summed losses at several t `[B, d]`, running statistics as they are."""
    losses = torch.zeros(len(t), dtype=x.dtype, device=x.device)
    for xs, ys in batches(x, y, size):

        def one(t: Tensor, xs: Tensor = xs, ys: Tensor = ys) -> Tensor:
            return total(functional_call(model, {**frozen, **_moved(moving, family, t)}, (xs,)), ys)

        losses += vmap(one)(t)
    return losses


class _Reestimating:
    """Losses with the statistics of batch norm taken anew from the data at each set of parameters."""

    def __init__(self, model: nn.Module, frozen: dict[str, Tensor]) -> None:
        self._frozen = frozen
        self._model = copy.deepcopy(model)
        norms = {path: m for path, m in self._model.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)}
        if not norms:
            raise InputError("batch_norm='reestimate' needs a model with batch norm; this one has none: use 'fixed'.")
        self._norms = list(norms.values())
        self._statistics = [f"{path}.{name}".lstrip(".") for path, m in norms.items() for name, _ in m.named_buffers()]
        for norm in self._norms:
            norm.momentum = None  # running statistics become the plain average over batches

    def __call__(
        self, parameters: dict[str, Tensor], x: Tensor, y: Tensor, size: int, total: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        state = {name: value.clone() for name, value in self._frozen.items()}
        for name in self._statistics:
            state[name].zero_()
        for norm in self._norms:
            norm.training = True
        for xs in x.tensor_split(-(-len(x) // size)):  # of nearly one size: the last rows must not count for a batch
            try:
                functional_call(self._model, {**state, **parameters}, (xs,))
            except ValueError as error:  # torch: more than 1 value per channel
                raise InputError(
                    f"batch_norm='reestimate' needs batches of at least 2 points for their variance, got {len(xs)}: "
                    f"{error}"
                ) from error
        for norm in self._norms:
            norm.training = False
        parts = [
            total(functional_call(self._model, {**state, **parameters}, (xs,)), ys) for xs, ys in batches(x, y, size)
        ]
        return torch.stack(parts).sum(0, keepdim=True)
