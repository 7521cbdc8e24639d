"""Max over sliding and adaptive windows, as a tournament of pairwise maxima."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...support.errors import UnsupportedModelError
from .bend import Bend, Given, behind
from .call import Call, Live, Refusal
from .registry import fold, untraced

Windows = np.ndarray
"""`[k, W]` flat input index of each competitor of each window."""


def sliding(a: Any, size: Sequence[int], out: Sequence[int]) -> list[np.ndarray]:
    """Per axis `[out, k]` the places of a sliding window's competitors; -1 in the padding, which never wins."""
    dims = len(size)
    kernel = per_axis(a["kernel_size"], dims)
    stride, padding, dilation = (
        per_axis(a["stride"] or kernel, dims), per_axis(a["padding"], dims), per_axis(a["dilation"], dims)
    )  # fmt: skip
    axes = []
    for n, count, k, s, p, d in zip(size, out, kernel, stride, padding, dilation, strict=True):
        position = np.arange(count)[:, None] * s - p + np.arange(k)[None, :] * d
        axes.append(np.where((position >= 0) & (position < n), position, -1))
    return axes


def adaptive(a: Any, size: Sequence[int], out: Sequence[int]) -> list[np.ndarray]:
    """Per axis the places of windows [floor(o size / out), ceil((o + 1) size / out))."""
    axes = []
    for n, count in zip(size, out, strict=True):
        start = np.arange(count) * n // count
        stop = -(-(np.arange(count) + 1) * n // count)
        position = start[:, None] + np.arange((stop - start).max())[None, :]
        axes.append(np.where(position < stop[:, None], position, -1))
    return axes


Axes = Callable[[Any, Sequence[int], Sequence[int]], list[np.ndarray]]


def register(op: str, dims: int, axes: Axes, options: tuple[str, ...]) -> None:
    """Enter a max-pool over the last `dims` axes, and its form that returns the winners' places too."""

    def both(given: Given) -> tuple[Tensor, Any]:
        chosen = {name: given[name] for name in options if given[name] not in (None, [])}
        result, place = getattr(F, f"{op}_with_indices")(given["self"], **chosen)
        state = place.int()  # reductions of int64 are many times slower
        return state, (result, place) if given.name.endswith("_with_indices") else result

    def table(given: Given) -> Windows:
        x = given["self"]
        out = both(given)[0].shape[-dims:]
        try:
            return windows(tuple(x.shape[1:]), axes(given, x.shape[-dims:], out))
        except Refusal as refusal:
            raise UnsupportedModelError(f"{op} {refusal}") from refusal

    def state(given: Given) -> Tensor | None:
        return both(given)[0] if len(table(given)) > 1 else None

    def behind_winners(given: Given) -> Tensor:
        return windows_behind(given["self"], table(given), 1.0)

    @fold(op, bend=Bend(state, behind_winners, winner=True, both=both), role="pool")
    def max_pool(call: Call) -> Live:
        x = call.live()
        call.values_only()
        call.op = op
        return tournament(call, x, windows(x.shape, axes(call, x.shape[-dims:], call.shape[-dims:])), 1.0)

    if op.startswith("max"):
        fold(f"{op}_with_indices", role="pool")(max_pool)
    else:
        untraced(f"{op}_with_indices", kind="fold", role="pool")


for _dims in (1, 2, 3):
    register(f"max_pool{_dims}d", _dims, sliding, ("kernel_size", "stride", "padding", "dilation", "ceil_mode"))
    register(f"adaptive_max_pool{_dims}d", _dims, adaptive, ("output_size",))


def windows_behind(x: Tensor, table: Windows, sign: float) -> Tensor:
    """`[N, k, W]`: each competitor of each window of a batch minus its window's winner, times the sign."""
    return behind(sign * competitors(x, table))


def competitors(x: Tensor, table: Windows) -> Tensor:
    """`[N, k, W]` values of a batch at the places of the windows."""
    order = torch.from_numpy(np.ascontiguousarray(table).reshape(-1)).to(x.device)
    return x.flatten(1).index_select(1, order).reshape(len(x), *table.shape)


def per_axis(value: Any, dims: int) -> list[int]:
    """One number per spatial axis."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * dims if len(values) == 1 else values


def windows(shape: tuple[int, ...], axes: Sequence[np.ndarray]) -> Windows:
    """Windows of an input of `shape` from `[out, k]` positions per trailing axis (-1: outside).

    Places outside the input repeat a competitor of the same window, which then meets itself and never cuts.
    """
    dims = len(axes)
    spatial = shape[len(shape) - dims :]
    flat_index = np.zeros((1, 1), dtype=np.int64)
    inside = np.ones((1, 1), dtype=bool)
    for size, position in zip(spatial, axes, strict=True):
        out = len(position)
        flat_index = (flat_index[:, None, :, None] * size + position[None, :, None, :]).reshape(
            len(flat_index) * out, -1
        )
        inside = (inside[:, None, :, None] & (position >= 0)[None, :, None, :]).reshape(len(inside) * out, -1)
    if not inside.any(1).all():
        raise Refusal("has a window that lies in the padding altogether, whose maximum is no number; pad less.")
    first = np.take_along_axis(flat_index, inside.argmax(1)[:, None], 1)
    flat_index = np.where(inside, flat_index, first)
    channels = np.arange(math.prod(shape[: len(shape) - dims]))[:, None, None] * math.prod(spatial)
    return (channels + flat_index).reshape(-1, flat_index.shape[1]).T


def tournament(call: Call, x: Live, index: Windows, sign: float) -> Live:
    """Emit max (sign 1) or min (sign -1) over windows: gather, halve until one is left, end.

    A stage is `[competitors, windows]`, winners of pairs first, then one without an opponent: unit j bends element j.
    """
    k, count = index.shape
    choose = torch.maximum if sign > 0 else torch.minimum
    order = torch.from_numpy(np.ascontiguousarray(index).reshape(-1))

    def gather(z: Tensor) -> Tensor:
        return z.flatten(1).index_select(1, order).reshape(z.shape[0], k, count)

    value = competitors = call.affine(gather, gather, inputs=(x,), shape=(k, count), suffix=".gather")
    stages: list[tuple[str, np.ndarray]] = []
    while value.shape[0] > 1:
        pairs = value.shape[0] // 2
        value = _stage(call, value, choose, sign, len(stages))
        stages.append((value.name, np.tile(np.arange(count), pairs)))
    if stages:
        call.end_tournament(competitors, stages)
    shape = call.shape

    def restore(z: Tensor) -> Tensor:
        return z.reshape(z.shape[0], *shape)

    return call.affine(restore, restore, inputs=(value,))


def _stage(call: Call, value: Live, choose: Any, sign: float, number: int) -> Live:
    competitors, count = value.shape
    half = competitors // 2

    def run(z: Tensor) -> Tensor:
        best = choose(z[:, :half], z[:, half : 2 * half])
        return best if competitors == 2 * half else torch.cat([best, z[:, 2 * half :]], 1)

    return call.fold(
        (value,),
        run,
        cuts=lambda z: (z[:, :half] - z[:, half : 2 * half]).flatten(1),
        cut_magnitude=lambda m: (m[:, :half] + m[:, half : 2 * half]).flatten(1),
        gains=np.full(half * count, sign),
        elements=np.arange(half * count),
        shape=(competitors - half, count),
        suffix=f".stage{number}",
    )
