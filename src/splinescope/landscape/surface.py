"""Sampled loss surfaces along one or two directions, of any loss, on a grid: what the pictures are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ..support.checks import check_whole
from ..support.derivatives import first_line, plain_kernels
from ..support.display import Result
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
    """Losses on a grid: a sampling, exact at the grid points and silent in between.

    Attributes:
        axes: The grid, one ascending array per direction.
        losses: `[n]` or `[n, m]` mean loss at each grid point, first direction first.
        path: `[T, d]` coordinates of a training path, or None.
    """

    axes: tuple[np.ndarray, ...]
    losses: np.ndarray
    path: np.ndarray | None = None
    certainty = "estimate"
    plot = drawn("landscape.plot_loss_surface")

    @property
    def assurance(self) -> str:
        return "Losses are exact at the grid points and say nothing of what lies between."

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
    model: Model, x: Any, y: Any, directions: Direction | Sequence[Direction], *,
    span: float | tuple[float, float] = 1.0, resolution: int = 41, loss: Loss = "cross_entropy",
    batch_size: int | None = None, dtype: torch.dtype | None = None, path: np.ndarray | None = None,
    progress: Progress | bool | None = None,
) -> LossSurface:  # fmt: skip
    """The mean loss over data on a grid of parameters `theta0 + sum_i t_i d_i`.

    Args:
        model: Any module in eval mode (or the result of `trace` or `load`); it is not changed.
        x: `[N, ...]` inputs; token ids stay whole numbers.
        y: Targets that fit the loss.
        directions: One or two mappings from parameter path to change (see `random_directions`).
        span: The grid covers `[-span, span]` (or a pair low, high) in each coordinate.
        resolution: Grid points per axis.
        loss: "cross_entropy", "squared", "mse", "bce", or a function (outputs, targets) -> mean over rows.
        batch_size: Data points per pass; memory grows with it, not with N. Default 256.
        dtype: Precision; that of the parameters by default.
        path: `[T, d]` coordinates of a training path to carry along (see `principal_directions`).
        progress: As in `tessellate`.

    Cost: one forward pass of the data per grid point, several points at a time by `vmap`. Batch norm keeps its running
    statistics.
    """
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
    total = _Losses(module, summed(loss))

    def state_at(t: Tensor) -> dict[str, Tensor]:
        state = {**frozen, **moving}
        for amount, direction in zip(t, family, strict=True):
            for name, change in direction.items():
                state[name] = state[name] + amount * change
        return state

    with torch.no_grad(), plain_kernels():
        for start in stepping(range(0, len(grid), _TOGETHER), progress, "loss surface"):
            t = torch.from_numpy(grid[start : start + _TOGETHER]).to(like)
            sums = torch.zeros(len(t), dtype=t.dtype, device=t.device)
            for xs, ys in data:
                sums += total(state_at, t, xs, ys)
            losses[start : start + len(t)] = sums.cpu().double().numpy() / len(inputs)
    return LossSurface((axis,) * len(family), losses.reshape((len(axis),) * len(family)), path)


class _Losses:
    """Summed losses at several states; all at once where torch can batch the model."""

    def __init__(self, model: nn.Module, total: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._model, self._total, self._together = model, total, True

    def __call__(self, state_at: Callable[[Tensor], dict[str, Tensor]], t: Tensor, x: Tensor, y: Tensor) -> Tensor:
        def one(t: Tensor) -> Tensor:
            return self._total(functional_call(self._model, state_at(t), (x,)), y)

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
