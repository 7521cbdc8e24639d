"""Elementwise folds: each is an affine function plus hinges `gain * relu(z - at)`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._call import Call, Live, Refusal, Rows
from ._registry import fold

Hinge = tuple[Any, Any]
"""(at, gain): numbers, or constants that broadcast to the output's shape."""


@fold("relu")
def relu(call: Call) -> Live:
    return bend(call, call.live(), [(0.0, 1.0)])


@fold("leaky_relu")
def leaky_relu(call: Call) -> Live:
    return bend(call, call.live(), [(0.0, 1.0 - call["negative_slope"])])


@fold("prelu")
def prelu(call: Call) -> Live:
    """Slope `weight` per channel below zero; negative slopes fold more than they bend."""
    x = call.live()
    weight = call["weight"].reshape(-1)
    if weight.numel() > 1:
        weight = weight.reshape(-1, *(1,) * (len(x.shape) - 1))
    return bend(call, x, [(0.0, 1.0 - weight)])


@fold("rrelu")
def rrelu(call: Call) -> Live:
    """In eval the slope is the middle of its range."""
    if call["training"]:
        raise Refusal("is random in training mode; call model.eval() first.")
    return bend(call, call.live(), [(0.0, 1.0 - (call["lower"] + call["upper"]) / 2)])


@fold("abs", "absolute")
def absolute_value(call: Call) -> Live:
    return bend(call, call.live(), [(0.0, 2.0)])


@fold("relu6")
def relu6(call: Call) -> Live:
    return bend(call, call.live(), [(0.0, 1.0), (6.0, -1.0)])


@fold("hardsigmoid")
def hardsigmoid(call: Call) -> Live:
    return bend(call, call.live(), [(-3.0, 1 / 6), (3.0, -1 / 6)])


@fold("hardtanh", "clamp", "clip", "clamp_min", "clamp_max")
def clamp(call: Call) -> Live | Rows:
    """Two hinges, at the lower and the upper bound; where they cross over, the upper bound wins."""
    x = call.live()
    low = call.get("min_val", call.get("min"))
    high = call.get("max_val", call.get("max"))
    low = spread(-math.inf if low is None else low, call.shape)
    high = spread(math.inf if high is None else high, call.shape)
    if bool((low >= high).all()):
        return Rows(high.unsqueeze(0))
    between = (low < high).to(torch.float64)
    return bend(call, x, [(low, between), (high, -between)])


@fold("threshold")
def threshold(call: Call) -> Live:
    if call["threshold"] != call["value"]:
        raise Refusal(
            f"jumps from {call['value']} to {call['threshold']} at its threshold: not continuous; it is "
            "supported where "
            "threshold == value."
        )
    return bend(call, call.live(), [(call["threshold"], 1.0)])


@fold("maximum", "minimum", "max", "min", "fmax", "fmin")
def extremum(call: Call) -> Live:
    """max(a, b) = b + relu(a - b) and min(a, b) = a - relu(a - b); over an axis, a tournament."""
    from .pooling import extremum_over_axes

    sign = 1.0 if call.op in {"maximum", "max", "fmax"} else -1.0
    if "other" not in call.arguments:
        return extremum_over_axes(call, sign)
    a, b = call["self"], call["other"]
    if isinstance(a, Live) and isinstance(b, Live):
        return versus(call, a, b, sign)
    x, bound = (a, b) if isinstance(a, Live) else (b, a)
    return bend(call, x, [(bound, sign)])


def spread(value: Any, shape: tuple[int, ...]) -> Tensor:
    """A number or constant as a float64 tensor of `shape`."""
    if isinstance(value, Live):
        raise Refusal("has a bound that depends on the input; use maximum or minimum.")
    tensor = value.tensor[0] if isinstance(value, Rows) else torch.as_tensor(value, dtype=torch.float64, device="cpu")
    if tensor.dim() > len(shape):
        tensor = tensor.reshape(tensor.shape[tensor.dim() - len(shape) :])
    return tensor.expand(shape)


def flat(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`[N, U]`: a batch broadcast to `[N, *shape]`, one column per element."""
    return x.expand(x.shape[0], *shape).reshape(x.shape[0], math.prod(shape))


def bend(call: Call, x: Live, hinges: Sequence[Hinge]) -> Live:
    """Emit an elementwise op that is affine plus `hinges`; hinges of no gain or at infinity make no unit."""
    shape = call.shape
    at = torch.cat([spread(a, shape).reshape(-1) for a, _ in hinges])
    gain = torch.cat([spread(g, shape).reshape(-1) for _, g in hinges])
    kept = ((gain != 0) & at.isfinite()).nonzero().reshape(-1)
    if len(kept) == 0:
        return call.affine(magnitude=lambda m: m.expand(m.shape[0], *shape), inputs=(x,))
    at, gain, elements = at[kept], gain[kept], kept % math.prod(shape)
    every = len(hinges) == 1 and len(kept) == math.prod(shape)
    centred = bool((at == 0).all())
    at_size = at.abs()

    def columns(z: Tensor) -> Tensor:
        z = flat(z, shape)
        return z if every else z.index_select(1, elements)

    return call.fold(
        (x,),
        call.runner(),
        cuts=columns if centred else (lambda z: columns(z) - at),
        cut_magnitude=columns if centred else (lambda m: columns(m) + at_size),
        gains=gain.numpy(),
        elements=elements.numpy(),
    )


def versus(call: Call, a: Live, b: Live, sign: float) -> Live:
    """Emit max (sign 1) or min (sign -1) of two live values."""
    shape = call.shape
    choose = torch.maximum if sign > 0 else torch.minimum
    units = math.prod(shape)
    return call.fold(
        (a, b),
        choose,
        cuts=lambda a, b: flat(a - b, shape),
        cut_magnitude=lambda a, b: flat(a + b, shape),
        gains=np.full(units, sign),
        elements=np.arange(units),
    )
