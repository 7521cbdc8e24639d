"""Elementwise folds as steps: an affine function plus hinges `gain * relu(z - at)`; and the maximum of two values."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .bend import Hinge, Hinges, hinged
from .call import Call, Live, Refusal
from .registry import Role, Tails, fold, refuse

JUMP = "is not continuous, so its tiles would not describe it; use relu, clamp, maximum or another continuous op."


def activation(*ops: str, ramp: bool = False) -> Callable[[Hinges], Hinges]:
    """Register elementwise ops by their hinges; a `ramp` has one, at zero, and is the identity above it."""

    def decorate(hinges: Hinges) -> Hinges:
        def rule(call: Call) -> Live:
            return bend(call, call.live(), hinges(call))

        rule.__module__ = hinges.__module__  # whose entry it is
        fold(*ops, bend=hinged(hinges), role="piecewise", elementwise=True, ramp=ramp)(rule)
        return hinges

    return decorate


TailsOf = Callable[[Mapping[str, Any]], Tails]


def soft(
    reason: str, *ops: str, at: Sequence[float] = (0.0,), role: Role = "smooth", tails: Tails | TailsOf | None = None
) -> None:
    """Register smooth elementwise ops, which cannot be lowered; watched, they bend about the places `at`, if any."""
    bends = hinged(lambda arguments: [(place, 1.0) for place in at]) if at else None
    known = (lambda arguments: tails) if isinstance(tails, Tails) else tails
    refuse(reason, *ops, kind="smooth", bend=bends, role=role, elementwise=True, tails=known)


def spread(value: Any, shape: tuple[int, ...]) -> Tensor:
    """A number or constant as a float64 tensor of `shape`."""
    tensor = torch.as_tensor(value, dtype=torch.float64, device="cpu")
    if tensor.dim() > len(shape):
        tensor = tensor.reshape(tensor.shape[tensor.dim() - len(shape) :])
    return tensor.expand(shape)


def flat(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`[N, U]`: a batch broadcast to `[N, *shape]`, one column per element."""
    return x.expand(x.shape[0], *shape).reshape(x.shape[0], math.prod(shape))


def bend(call: Call, x: Live, hinges: Sequence[Hinge], run: Callable[[Tensor], Tensor] | None = None) -> Live:
    """Emit an elementwise op, `run` or the call's own, affine plus `hinges`; those of no gain make no unit."""
    run = run or call.runner()
    if any(gain is None for _, gain in hinges):
        raise Refusal(JUMP)
    shape = call.shape
    at = torch.cat([spread(a, shape).reshape(-1) for a, _ in hinges])
    gain = torch.cat([spread(g, shape).reshape(-1) for _, g in hinges])
    kept = ((gain != 0) & at.isfinite()).nonzero().reshape(-1)
    if len(kept) == 0:
        at_zero = run(torch.zeros(1, *x.shape, dtype=torch.float64)).abs()  # a clamp whose bounds cross is constant
        return call.affine(run, lambda m: m.expand(m.shape[0], *shape) + at_zero, inputs=(x,))
    at, gain, elements = at[kept], gain[kept], kept % math.prod(shape)
    every = len(kept) == len(hinges) * math.prod(shape)
    centered = bool((at == 0).all())
    at_size = at.abs()

    def columns(z: Tensor) -> Tensor:
        z = flat(z, shape)
        if not every:
            return z.index_select(1, elements)
        return z if len(hinges) == 1 else z.repeat(1, len(hinges))

    return call.fold(
        (x,),
        run,
        cuts=columns if centered else (lambda z: columns(z) - at),
        cut_magnitude=columns if centered else (lambda m: columns(m) + at_size),
        gains=gain.numpy(),
        elements=elements.numpy(),
        at=at.numpy() if x.shape == shape else None,
    )


def versus(call: Call, a: Live, b: Live, sign: float) -> Live:
    """Emit max (sign 1) or min (sign -1) of two live values."""
    shape = call.shape
    units = math.prod(shape)
    return call.fold(
        (a, b),
        torch.maximum if sign > 0 else torch.minimum,
        cuts=lambda a, b: flat(a - b, shape),
        cut_magnitude=lambda a, b: flat(a + b, shape),
        gains=np.full(units, sign),
        elements=np.arange(units),
    )
