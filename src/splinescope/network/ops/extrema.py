"""Maximum and minimum of two values, over axes, and sorting of pairs."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .bend import Bend, Given
from .call import Call, Live, Refusal
from .hinges import bend, versus
from .pooling import Windows, competitors, tournament, windows_behind
from .registry import fold

SIGNS = {
    **dict.fromkeys(("maximum", "max", "fmax", "amax"), 1.0),
    **dict.fromkeys(("minimum", "min", "fmin", "amin"), -1.0),
}


def reduced(a: Any, shape: tuple[int, ...]) -> Windows | None:
    """The windows of a reduction over the axes `dim` of rows of this shape; None if the batch axis is among them."""
    dims = a["dim"] if isinstance(a["dim"], (list, tuple)) else [a["dim"]]
    axes = [dim % (len(shape) + 1) - 1 for dim in dims]
    if not axes or -1 in axes:
        return None
    index = np.moveaxis(np.arange(math.prod(shape)).reshape(shape), axes, range(len(axes)))
    return index.reshape(math.prod(shape[axis] for axis in axes), -1)


def _difference(given: Given) -> Tensor:
    return given["self"] - given["other"]


def _table(given: Given) -> Windows | None:
    if given.constant("dim") is None:
        return None  # over everything: not a unit of a row
    return reduced(given, tuple(given["self"].shape[1:]))


def _place(given: Given) -> Tensor | None:
    """Of two tensors, which is larger; over an axis, who wins."""
    table = _table(given)
    return None if table is None or len(table) < 2 else (SIGNS[given.op] * competitors(given["self"], table)).argmax(1)


def _behind(given: Given) -> Tensor | None:
    table = _table(given)
    return None if table is None else windows_behind(given["self"], table, SIGNS[given.op])


OF_TWO = Bend(_difference, _difference)
OVER_AXES = Bend(_place, _behind, winner=True)


@fold("maximum", "minimum", "fmax", "fmin", bend=OF_TWO, role="extreme")
def extremum(call: Call) -> Live:
    """max(a, b) = b + relu(a - b) and min(a, b) = a - relu(a - b)."""
    a, b = call["self"], call["other"]
    if isinstance(a, Live) and isinstance(b, Live):
        return versus(call, a, b, SIGNS[call.op])
    x, bound = (a, "other") if isinstance(a, Live) else (b, "self")
    return bend(call, x, [(call.constant(bound), SIGNS[call.op])])


@fold("amax", "amin", bend=OVER_AXES, role="extreme")
def extremum_over_axes(call: Call) -> Live:
    """A tournament over the axes `dim`."""
    x = call.live()
    call.values_only()
    table = reduced(call, x.shape)
    if table is None:
        raise Refusal("reduces the batch axis; every operation must act on each row by itself.")
    return tournament(call, x, table, SIGNS[call.op])


@fold("max", "min", bend=OVER_AXES, role="extreme")
def extremum_of_either_kind(call: Call) -> Live:
    """`max(a, b)` or `max(a, dim)`; watched, the first is seen as `maximum`."""
    if "other" not in call.arguments:
        return extremum_over_axes(call)
    call.op = f"{call.op}imum"
    return extremum(call)


def _gap(given: Given) -> Tensor | None:
    """First minus second of each pair; None if more than pairs are sorted, or rows."""
    x = given["self"]
    axis = given["dim"] % x.dim()
    return x.select(axis, 0) - x.select(axis, 1) if axis > 0 and x.shape[axis] == 2 else None


@fold("sort", bend=Bend(_gap, _gap, own_shape=True), role="sort")
def sort(call: Call) -> Live:
    """Sorting pairs: (a, b) to (a - d, b + d) with d = relu(a - b). Each pair is one unit."""
    x = call.live()
    call.values_only()
    axis = call["dim"] % (len(x.shape) + 1)
    if axis == 0 or x.shape[axis - 1] != 2:
        raise Refusal("sorts along the batch axis; every operation must act on each row by itself.")
    shape = tuple(n for i, n in enumerate(x.shape) if i != axis - 1)
    descending = bool(call["descending"])

    def gap(z: Tensor) -> Tensor:
        return z.select(axis, 0) - z.select(axis, 1)

    units = math.prod(shape)
    excess = call.fold(
        (x,),
        run=lambda z: gap(z).relu(),
        cuts=lambda z: gap(z).reshape(len(z), units),
        cut_magnitude=lambda m: m.sum(axis).reshape(len(m), units),
        gains=np.ones(units),
        elements=np.arange(units),
        shape=shape,
        suffix=".gap",
    )

    def exchanged(z: Tensor, d: Tensor, sign: float = -1.0) -> Tensor:
        pair = [z.select(axis, 0) + sign * d, z.select(axis, 1) + d]
        return torch.stack(pair[::-1] if descending else pair, axis)

    return call.affine(exchanged, lambda m, d: exchanged(m, d, 1.0), inputs=(x, excess))
