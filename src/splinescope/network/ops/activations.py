"""Elementwise folds by their hinges `(at, gain)`: where they bend, and by how much their slope grows there.

A new one is a few lines here and one in tests/network/ops/operations.py.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .bend import Arguments, Hinge, hinged
from .call import Call, Live, Refusal
from .hinges import JUMP, activation, bend, soft
from .registry import Tails, fold, refuse

WITHIN = (  # of what `tessellate(..., tolerance=)` takes, and of that alone
    "not piecewise affine, so it has no exact tiles; tessellate(model, view, tolerance=1e-3) tiles a network within a "
    "tolerance of it. Or use a piecewise-affine activation (ReLU, LeakyReLU, Hardtanh...)."
)
SMOOTH, QUADRATIC = f"is smooth, {WITHIN}", f"is piecewise quadratic, {WITHIN}"
CURVED = "is not piecewise affine, so it has no tiles, nor any within a tolerance; use piecewise-affine functions."


@activation("relu", ramp=True)
def relu(a: Arguments) -> list[Hinge]:
    return [(0.0, 1.0)]


@activation("leaky_relu", ramp=True)
def leaky_relu(a: Arguments) -> list[Hinge]:
    return [(0.0, 1.0 - a["negative_slope"])]


@activation("prelu", ramp=True)
def prelu(a: Arguments) -> list[Hinge]:
    """Slope `weight` per channel below zero; negative slopes fold more than they bend."""
    weight = a.constant("weight").reshape(-1)
    if weight.numel() > 1:
        weight = weight.reshape(-1, *(1,) * (a.rank - 1))
    return [(0.0, 1.0 - weight)]


@activation("abs", "absolute", ramp=True)
def absolute_value(a: Arguments) -> list[Hinge]:
    return [(0.0, 2.0)]


@activation("relu6")
def relu6(a: Arguments) -> list[Hinge]:
    return [(0.0, 1.0), (6.0, -1.0)]


@activation("hardsigmoid")
def hardsigmoid(a: Arguments) -> list[Hinge]:
    return [(-3.0, 1 / 6), (3.0, -1 / 6)]


@activation("softshrink")
def softshrink(a: Arguments) -> list[Hinge]:
    """Slopes 1, 0, 1."""
    bound = a["lambd"]
    return [(-bound, -1.0), (bound, 1.0)]


@activation("threshold")
def threshold(a: Arguments) -> list[Hinge]:
    """Below the threshold a value of its own: a jump, unless that value is the threshold."""
    return [(a["threshold"], 1.0 if a["threshold"] == a["value"] else None)]


@activation("hardtanh", "clamp", "clip", "clamp_min", "clamp_max")
def clamp(a: Arguments) -> list[Hinge]:
    """Two hinges, at the lower and the upper bound; where they cross over, the upper bound wins."""
    low, high = _bound(a, "min_val", "min", -math.inf), _bound(a, "max_val", "max", math.inf)
    if isinstance(low, torch.Tensor) or isinstance(high, torch.Tensor):
        between = (torch.as_tensor(low) < torch.as_tensor(high)).to(torch.float64)
        return [(low, between), (high, -between)]
    return [(low, float(low < high)), (high, -float(low < high))]


def _bound(a: Arguments, module_name: str, name: str, default: float) -> Any:
    for given in (a.constant(module_name), a.constant(name)):
        if given is not None:
            return given
    return default


def _rrelu(a: Arguments) -> list[Hinge]:
    """In eval the slope is the middle of its range."""
    return [(0.0, 1.0 - (a["lower"] + a["upper"]) / 2)]


@fold("rrelu", bend=hinged(_rrelu), role="piecewise", elementwise=True, ramp=True)
def rrelu(call: Call) -> Live:
    if call["training"]:
        raise Refusal("is random in training mode; call model.eval() first.")
    return bend(call, call.live(), _rrelu(call))


def _elu(a: Mapping[str, Any]) -> Tails:
    alpha, scale = (float(a.get(name, 1)) for name in ("alpha", "scale"))
    return Tails((0.0, -alpha * scale), (scale, 0.0), kinks=(0.0,))


def _softplus(a: Mapping[str, Any]) -> Tails:
    """Torch's goes over to x at its threshold, with a jump."""
    beta, threshold = float(a.get("beta", 1)), float(a.get("threshold", 20))

    def everywhere(x: Tensor) -> Tensor:
        return torch.logaddexp(beta * x, torch.zeros_like(x)) / beta

    return Tails(ZERO, LINE, jump=float(np.log1p(np.exp(-threshold)) / beta), run=everywhere)


ZERO, ONE, MINUS_ONE, LINE = (0.0, 0.0), (0.0, 1.0), (0.0, -1.0), (1.0, 0.0)
_SELU = 1.0507009873554805  # scale of torch's SELU, whose alpha is 1.67...

refuse(JUMP, "hardshrink", bend=hinged(softshrink), role="piecewise", elementwise=True)
soft(SMOOTH, "gelu", "silu", "mish", tails=Tails(ZERO, LINE))
soft(SMOOTH, "elu", tails=_elu)
soft(SMOOTH, "celu", tails=lambda a: Tails((0.0, -float(a.get("alpha", 1))), LINE, kinks=(0.0,)))
soft(SMOOTH, "selu", tails=Tails((0.0, -_SELU * 1.6732632423543772), (_SELU, 0.0), kinks=(0.0,)))
soft(SMOOTH, "softplus", tails=_softplus)
soft(SMOOTH, "log_sigmoid", tails=Tails(LINE, ZERO))
soft(SMOOTH, "erf", tails=Tails(MINUS_ONE, ONE))
soft(SMOOTH, "softsign", "splinescope.softsign", tails=Tails(MINUS_ONE, ONE, kinks=(0.0,)))
soft(SMOOTH, "atan", "arctan", tails=Tails((0.0, -np.pi / 2), (0.0, np.pi / 2)))
soft(SMOOTH, "tanhshrink", at=(-1.0, 1.0))  # where its asymptotes x + 1 and x - 1 meet zero
soft(QUADRATIC, "hardswish", at=(-3.0, 3.0), tails=Tails(ZERO, LINE, kinks=(-3.0, 3.0)))
soft(SMOOTH, "exp", at=(), role="curve", tails=Tails(ZERO, None))
soft(SMOOTH, "expm1", at=(), role="curve", tails=Tails(MINUS_ONE, None))
soft(SMOOTH, "sin", "cos", at=(), role="curve", tails=Tails())
refuse(SMOOTH, "square", kind="smooth", elementwise=True, tails=lambda a: Tails())
