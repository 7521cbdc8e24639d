"""The torch functions at which a network bends, and what tells on which side of its folds a row is.

For most of them it is the sign of the pre-activation. A smooth activation (GELU, SiLU, sigmoid) bends softly about
zero: the sign of its gate is counted. For a max over a window it is the winner's place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..network.pooling import per_axis, windows


class Bend(NamedTuple):
    """How to read a call `func(*args, **kwargs)`.

    Attributes:
        state: The call's arguments to a tensor: values whose sign matters, or, if `winner`, indices.
        cuts: For a winner: the arguments to `[N, k, U]`, each competitor's value minus the winner's.
        winner: Whether `state` holds indices of winners.
        smooth: Whether the function is smooth, so that its fold is soft.
    """

    state: Callable[..., Tensor | None]
    cuts: Callable[..., Tensor | None]
    winner: bool = False
    smooth: bool = False


def _sign(state: Callable[..., Tensor | None], *, smooth: bool = False) -> Bend:
    return Bend(state, state, smooth=smooth)


def _input(input: Tensor, *_: Any, **__: Any) -> Tensor:
    return input


def _gate(input: Tensor, dim: int = -1) -> Tensor:
    return input.chunk(2, dim)[1]


def _bounds(input: Tensor, low: Any, high: Any) -> Tensor | None:
    """`[..., 2]` or `[..., 1]`: the distances to the bounds that are there."""
    parts = [input - bound for bound in (low, high) if bound is not None]
    return torch.stack(parts, -1) if parts else None


def _clamp(input: Tensor, min: Any = None, max: Any = None, **_: Any) -> Tensor | None:
    return _bounds(input, min, max)


def _clamp_max(input: Tensor, max: Any) -> Tensor | None:
    return _bounds(input, None, max)


def _hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor | None:
    return _bounds(input, min_val, max_val)


def _shrink(input: Tensor, lambd: float = 0.5) -> Tensor | None:
    return _bounds(input, -lambd, lambd)


def _threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    return input - threshold


def _difference(input: Tensor, other: Tensor, **_: Any) -> Tensor:
    return input - other


def _between(low: float, high: float) -> Callable[..., Tensor | None]:
    return lambda input, *_, **__: _bounds(input, low, high)


def _reduced(sign: int) -> Bend:
    """max, min, amax, amin: over an axis (a choice) or, for max and min, of two tensors (a sign)."""

    def competitors(input: Tensor, dim: Any = None, *_: Any, **kwargs: Any) -> Tensor | None:
        dims = dim if isinstance(dim, (tuple, list)) else [dim]
        if dim is None or not dims or 0 in [d % input.dim() for d in dims]:
            return None  # over everything, or over the batch: not a unit of a row
        return sign * input.movedim(list(dims), list(range(1, 1 + len(dims)))).flatten(1, len(dims))

    def state(*args: Any, **kwargs: Any) -> Tensor | None:
        values = competitors(*args, **kwargs)
        return None if values is None else values.argmax(1)

    def cuts(*args: Any, **kwargs: Any) -> Tensor | None:
        values = competitors(*args, **kwargs)
        return None if values is None else _behind(values)

    return Bend(state, cuts, winner=True)


def _behind(values: Tensor) -> Tensor:
    """`[N, k, U]`: each of `[N, k, ...]` competitors minus the winner over axis 1."""
    values = values.flatten(2) if values.dim() > 2 else values.unsqueeze(-1)
    return values - values.gather(1, values.argmax(1, keepdim=True))


def _pool(dims: int) -> Bend:
    def indices(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Tensor:  # fmt: skip
        pool = getattr(F, f"max_pool{dims}d_with_indices")
        place: Tensor = pool(input, kernel_size, stride or None, padding, dilation, ceil_mode)[1]
        return place

    def cuts(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Tensor:  # fmt: skip
        out = indices(input.detach(), kernel_size, stride, padding, dilation, ceil_mode).shape[-dims:]
        kernel = per_axis(kernel_size, dims)
        steps = zip(
            input.shape[-dims:], out, kernel, per_axis(stride or kernel, dims), per_axis(padding, dims),
            per_axis(dilation, dims), strict=True,
        )  # fmt: skip
        axes = []
        for size, count, k, s, p, d in steps:
            position = np.arange(count)[:, None] * s - p + np.arange(k)[None, :] * d
            axes.append(np.where((position >= 0) & (position < size), position, -1))
        return _windows_behind(input, axes)

    return Bend(indices, cuts, winner=True)


def _adaptive_pool(dims: int) -> Bend:
    def indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Tensor:
        pool = getattr(F, f"adaptive_max_pool{dims}d_with_indices")
        place: Tensor = pool(input, output_size)[1]
        return place

    def cuts(input: Tensor, output_size: Any, return_indices: bool = False) -> Tensor:
        axes = []
        for size, out in zip(input.shape[-dims:], indices(input.detach(), output_size).shape[-dims:], strict=True):
            start = np.arange(out) * size // out
            stop = -(-(np.arange(out) + 1) * size // out)
            position = start[:, None] + np.arange((stop - start).max())[None, :]
            axes.append(np.where(position < stop[:, None], position, -1))
        return _windows_behind(input, axes)

    return Bend(indices, cuts, winner=True)


def _windows_behind(input: Tensor, axes: list[np.ndarray]) -> Tensor:
    table = windows(tuple(input.shape[1:]), axes)
    order = torch.from_numpy(np.ascontiguousarray(table).reshape(-1)).to(input.device)
    values = input.flatten(1).index_select(1, order).reshape(len(input), *table.shape)
    return _behind(values)


BENDS: dict[str, Bend] = {
    **{
        name: _sign(_input)
        for name in ("relu", "relu_", "leaky_relu", "leaky_relu_", "prelu", "rrelu", "rrelu_", "abs", "absolute")
    },
    **{
        name: _sign(_input, smooth=True)
        for name in (
            "elu", "elu_", "selu", "selu_", "celu", "celu_", "gelu", "silu", "mish", "softplus", "logsigmoid",
            "softsign", "sigmoid", "sigmoid_", "tanh", "tanh_", "erf",
        )
    },
    "glu": _sign(_gate, smooth=True),
    "relu6": _sign(_between(0.0, 6.0)),
    "hardsigmoid": _sign(_between(-3.0, 3.0)),
    "hardswish": _sign(_between(-3.0, 3.0)),
    "hardtanh": _sign(_hardtanh),
    "hardtanh_": _sign(_hardtanh),
    **{name: _sign(_clamp) for name in ("clamp", "clamp_", "clip", "clip_", "clamp_min", "clamp_min_")},
    "clamp_max": _sign(_clamp_max),
    "clamp_max_": _sign(_clamp_max),
    "hardshrink": _sign(_shrink),
    "softshrink": _sign(_shrink),
    "threshold": _sign(_threshold),
    "threshold_": _sign(_threshold),
    **{name: _sign(_difference) for name in ("maximum", "minimum", "fmax", "fmin")},
    "max": _reduced(1),
    "min": _reduced(-1),
    "amax": _reduced(1),
    "amin": _reduced(-1),
    **{f"max_pool{dims}d": _pool(dims) for dims in (1, 2, 3)},
    **{f"adaptive_max_pool{dims}d": _adaptive_pool(dims) for dims in (1, 2, 3)},
}  # fmt: skip
"""Name of a torch function or tensor method -> how to read a call of it."""

_PAIRS = _sign(_difference)


def bend_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bend | None:
    """How to read this call, or None if nothing bends there."""
    bend = BENDS.get(getattr(func, "__name__", ""))
    first = args[0] if args else kwargs.get("input")
    if bend is None or not isinstance(first, Tensor) or not first.is_floating_point() or first.dim() == 0:
        return None
    second = args[1] if len(args) > 1 else kwargs.get("other")
    if func.__name__ in ("max", "min") and isinstance(second, Tensor):
        return _PAIRS
    return bend
