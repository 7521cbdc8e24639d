"""Sampled loss surfaces along one or two directions, of any loss, on a grid: what the pictures are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ..network.reading.twin import copied
from ..support.checks import check_choice, check_whole
from ..support.derivatives import first_line, plain_kernels
from ..support.display import Certainty, Result
from ..support.drawing import drawn
from ..support.errors import InputError
from ..support.losses import summed
from ..support.progress import Progress, stepping
from .directions import Direction, check_direction, checked_span
from .hessian import prepare
from .inputs import Loss, Model, batches, check_batch_size, check_model, precision_of

_TOGETHER = 16  # grid points evaluated at once


@dataclass(frozen=True, eq=False, repr=False)
class LossSurface(Result):
    """Losses on a grid: a sampling, exact at the grid points and silent in between (see `loss_section` for pieces).

    Attributes:
        axes: The grid, one ascending array per direction.
        losses: `[n]` or `[n, m]` mean loss at each grid point, first direction first.
        path: `[T, d]` coordinates of a training path, or None.
    """

    axes: tuple[np.ndarray, ...]
    losses: np.ndarray
    path: np.ndarray | None = None
    plot = drawn("landscape.plot_loss_surface")

    @property
    def certainty(self) -> Certainty:
        """ "estimate": exact at the grid points, and silent between them."""
        return "estimate"

    @property
    def assurance(self) -> str:
        return "Losses are exact at the grid points and say nothing of what lies between: see loss_section."

    def _shown(self) -> list[tuple[str, Any]]:
        at = np.unravel_index(int(self.losses.argmin()), self.losses.shape)
        least = tuple(float(axis[i]) for axis, i in zip(self.axes, at, strict=True))
        return [("grid", self.losses.shape), ("from", float(self.axes[0][0])), ("to", float(self.axes[0][-1])),
                ("least", float(self.losses.min())), ("at", least), ("largest", float(self.losses.max())),
                ("nonconvex_fraction", self.nonconvex_fraction)]  # fmt: skip

    @property
    def label(self) -> str:
        """What the picture of it says."""
        return f"sampled at {self.losses.size} points"

    @property
    def nonconvex_fraction(self) -> float:
        """Share of inner grid points where the second differences have a negative eigenvalue; an estimate.

        Negative means below -1e-3 times the largest eigenvalue in size: in 2-D of those at the point, in 1-D of those
        on the whole grid. Where it is flat to float32, rounding counts: sample with `dtype=torch.float64`.
        """
        if min(self.losses.shape) < 3:
            return float("nan")
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
    model: Model,
    x: Any,
    y: Any,
    directions: Direction | Sequence[Direction],
    *,
    span: float | tuple[float, float] = 1.0,
    resolution: int = 41,
    loss: Loss = "cross_entropy",
    batch_norm: Literal["fixed", "reestimate"] = "fixed",
    batch_size: int | None = None,
    dtype: torch.dtype | None = None,
    path: np.ndarray | None = None,
    progress: Progress | bool | None = None,
) -> LossSurface:
    """The mean loss over data on a grid of parameters `theta0 + sum_i t_i d_i`.

    Args:
        model: Any module in eval mode (or the result of `trace` or `load`); it is not changed.
        x: `[N, ...]` inputs; token ids stay whole numbers.
        y: Targets that fit the loss.
        directions: One or two mappings from parameter path to change (see `random_directions`).
        span: The grid covers `[-span, span]` (or a pair low, high) in each coordinate.
        resolution: Grid points per axis.
        loss: "cross_entropy", "squared", "mse", "bce", or a function (outputs, targets) -> mean over rows.
        batch_norm: "fixed" keeps the running statistics; "reestimate" takes, at each grid point, the mean and variance
            of each batch norm's input over this data (batches of one size averaged), as after a training epoch there.
        batch_size: Data points per pass; memory grows with it, not with N. Default 256.
        dtype: Precision; that of the parameters by default.
        path: `[T, d]` coordinates of a training path to carry along (see `principal_directions`).
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Cost: one forward pass of the data per grid point (two with re-estimation), several points at a time by `vmap`.
    """
    check_choice(batch_norm, "batch_norm", ("fixed", "reestimate"))
    resolution = check_whole(resolution, "resolution", least=3)
    module = check_model(model)
    given: list[Any] = list(directions) if isinstance(directions, (list, tuple)) else [directions]
    if len(given) not in (1, 2):
        raise InputError(f"directions must be one or two, got {len(given)}.")
    low, high = checked_span(span)
    moving, frozen, inputs, targets, _ = prepare(module, x, y, loss, None, dtype or precision_of(module))
    shapes = {name: value.shape for name, value in moving.items()}
    family = [{n: c.to(moving[n]) for n, c in check_direction(direction, shapes).items()} for direction in given]
    data = list(batches(inputs, targets, check_batch_size(batch_size)))
    axis = np.linspace(low, high, resolution)
    grid = np.stack(np.meshgrid(*[axis] * len(family), indexing="ij"), -1).reshape(-1, len(family))
    losses = np.empty(len(grid))
    like = next(iter(moving.values()))
    at = (_Reestimating if batch_norm == "reestimate" else _Fixed)(module, summed(loss))
    together = _TOGETHER if batch_norm == "fixed" else 1

    def state_at(t: Tensor) -> State:
        state = {**frozen, **moving}
        for amount, direction in zip(t, family, strict=True):
            for name, change in direction.items():
                state[name] = state[name] + amount * change
        return state

    with torch.no_grad(), plain_kernels():
        for start in stepping(range(0, len(grid), together), progress, "loss surface"):
            t = torch.from_numpy(grid[start : start + together]).to(like)
            losses[start : start + len(t)] = at(state_at, t, data).cpu().double().numpy() / len(inputs)
    return LossSurface((axis,) * len(family), losses.reshape((len(axis),) * len(family)), path)


State = dict[str, Tensor]
Data = list[tuple[Tensor, Tensor]]


class _Fixed:
    """Summed losses at several t `[B, d]`, running statistics as they are; many t at once where torch can."""

    def __init__(self, model: nn.Module, total: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._model, self._total, self._together = model, total, True

    def __call__(self, state_at: Callable[[Tensor], State], t: Tensor, data: Data) -> Tensor:
        losses = torch.zeros(len(t), dtype=t.dtype, device=t.device)
        for xs, ys in data:

            def one(t: Tensor, xs: Tensor = xs, ys: Tensor = ys) -> Tensor:
                return self._total(functional_call(self._model, state_at(t), (xs,)), ys)

            losses += self._all(one, t)
        return losses

    def _all(self, one: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
        if self._together:
            try:
                return vmap(one)(t)
            except (NotImplementedError, RuntimeError):  # an op that torch does not batch: one by one is the same
                self._together = False
        try:
            return torch.stack([one(row) for row in t])
        except torch.OutOfMemoryError:  # says so itself, and is no fault of the data
            raise
        except (NotImplementedError, RuntimeError) as error:
            raise InputError(f"the model or its loss failed on this data: {first_line(error)}") from error


class _Reestimating:
    """Losses with the statistics of batch norm taken anew from the data at each set of parameters."""

    def __init__(self, model: nn.Module, total: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._model, self._total = copied(model), total
        norms = {path: m for path, m in self._model.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)}
        if not norms:
            raise InputError("batch_norm='reestimate' needs a model with batch norm; this one has none: use 'fixed'.")
        self._norms = list(norms.values())
        self._statistics = [f"{path}.{name}".lstrip(".") for path, m in norms.items() for name, _ in m.named_buffers()]
        for norm in self._norms:
            norm.momentum = None  # running statistics become the plain average over batches

    def __call__(self, state_at: Callable[[Tensor], State], t: Tensor, data: Data) -> Tensor:
        state = state_at(t[0])
        for name in self._statistics:
            state[name] = torch.zeros_like(state[name])
        for norm in self._norms:
            norm.training = True
        # of nearly one size: the last rows must not count for a batch
        for xs in torch.cat([xs for xs, _ in data]).tensor_split(len(data)):
            try:
                functional_call(self._model, state, (xs,))
            except ValueError as error:  # torch: more than 1 value per channel
                raise InputError(
                    f"batch_norm='reestimate' needs batches of at least 2 points for their variance, got {len(xs)}: "
                    f"{error}"
                ) from error
        for norm in self._norms:
            norm.training = False
        parts = [self._total(functional_call(self._model, state, (xs,)), ys) for xs, ys in data]
        return torch.stack(parts).sum(0, keepdim=True)
