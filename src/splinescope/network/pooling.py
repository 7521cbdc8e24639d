"""Max over windows or axes, as a tournament of pairwise maxima that ends with a seal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._call import Call, Live, Refusal
from ._registry import fold

Windows = np.ndarray
"""`[k, W]` flat input index of each competitor of each window."""


@fold("max_pool1d", "max_pool2d", "max_pool3d")
@fold("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool(call: Call) -> Live:
    """Max over sliding windows; padding never wins, so it is left out."""
    x = call.live()
    call.values_only()
    dims = int(call.op[len("max_pool")])
    kernel = per_axis(call["kernel_size"], dims)
    stride = per_axis(call["stride"] or kernel, dims)
    padding = per_axis(call["padding"], dims)
    dilation = per_axis(call["dilation"], dims)
    axes = []
    for size, out, k, s, p, d in zip(
        x.shape[-dims:], call.shape[-dims:], kernel, stride, padding, dilation, strict=True
    ):
        position = np.arange(out)[:, None] * s - p + np.arange(k)[None, :] * d
        axes.append(np.where((position >= 0) & (position < size), position, -1))
    return tournament(call, x, windows(x.shape, axes), 1.0)


@fold("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(call: Call) -> Live:
    """Max over windows [floor(o size / out), ceil((o + 1) size / out))."""
    x = call.live()
    call.values_only()
    dims = int(call.op[len("adaptive_max_pool")])
    axes = []
    for size, out in zip(x.shape[-dims:], call.shape[-dims:], strict=True):
        start = np.arange(out) * size // out
        stop = -(-(np.arange(out) + 1) * size // out)
        position = start[:, None] + np.arange((stop - start).max())[None, :]
        axes.append(np.where(position < stop[:, None], position, -1))
    return tournament(call, x, windows(x.shape, axes), 1.0)


@fold("amax", "amin")
def extremum_over_dims(call: Call) -> Live:
    return extremum_over_axes(call, 1.0 if call.op == "amax" else -1.0)


def extremum_over_axes(call: Call, sign: float) -> Live:
    """Max (sign 1) or min (sign -1) over the axes `dim`, the batch axis not among them."""
    x = call.live()
    call.values_only()
    rank = len(x.shape) + 1
    dims = call["dim"] if isinstance(call["dim"], (list, tuple)) else [call["dim"]]
    reduced = [dim % rank - 1 for dim in dims]
    index = np.arange(x.size).reshape(x.shape)
    index = np.moveaxis(index, reduced, range(len(reduced)))
    return tournament(call, x, index.reshape(math.prod(x.shape[axis] for axis in reduced), -1), sign)


@fold("sort")
def sort(call: Call) -> Live:
    """Sorting pairs: (a, b) to (min, max). Each pair is one cut that bends two elements."""
    x = call.live()
    call.values_only()
    axis = call["dim"] % (len(x.shape) + 1) - 1
    if axis < 0 or x.shape[axis] != 2:
        raise Refusal("sorts more than two values; only pairs (an axis of length 2) are supported.")
    first, second = np.moveaxis(np.arange(x.size).reshape(x.shape), axis, 0).reshape(2, -1)
    a, b = torch.from_numpy(first.copy()), torch.from_numpy(second.copy())
    sign = -1.0 if call["descending"] else 1.0

    def cuts(z: Tensor) -> Tensor:
        z = z.flatten(1)
        both = z.index_select(1, a) - z.index_select(1, b)
        return torch.cat([both, both], 1)

    def cut_magnitude(m: Tensor) -> Tensor:
        m = m.flatten(1)
        both = m.index_select(1, a) + m.index_select(1, b)
        return torch.cat([both, both], 1)

    gains = np.repeat([-sign, sign], len(first))
    return call.fold((x,), call.runner(), cuts, cut_magnitude, gains, np.concatenate([first, second]))


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
    first = np.take_along_axis(flat_index, inside.argmax(1)[:, None], 1)
    flat_index = np.where(inside, flat_index, first)
    channels = np.arange(math.prod(shape[: len(shape) - dims]))[:, None, None] * math.prod(spatial)
    return (channels + flat_index).reshape(-1, flat_index.shape[1]).T


def tournament(call: Call, x: Live, index: Windows, sign: float) -> Live:
    """Emit max (sign 1) or min (sign -1) over windows: gather, halve until one is left, seal.

    Every stage has shape [competitors, windows], winners of pairs first, then the one without an opponent if
    their number is odd: unit j of a stage bends element j of its output.
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
        call.seal(competitors, stages)
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
