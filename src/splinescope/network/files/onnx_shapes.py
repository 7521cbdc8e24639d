"""ONNX operators that reshape, select and join, and those that make constants."""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .onnx_ops import Arguments, Unread, number, operator, torch_order

DTYPES = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int32, 7: torch.int64, 9: torch.bool,
    10: torch.float16, 11: torch.float64, 16: torch.bfloat16,
}  # fmt: skip
"""By the numbers of `TensorProto.DataType`."""


@operator("Constant")
def constant(a: Arguments) -> Tensor:
    kinds = {"value": None, "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
             "value_ints": np.int64}  # fmt: skip
    given = [np.array(value, kinds[kind]) for kind in kinds if (value := a.attribute(kind)) is not None]
    if len(given) != 1:
        raise Unread("one value of numbers is needed")
    return torch.from_numpy(given[0])


@operator("Identity")
def identity(a: Arguments) -> Any:
    return a[0]


@operator("Dropout")
def dropout(a: Arguments) -> Any:
    """Nothing, but for training mode, which draws at random."""
    a.attribute("seed")
    if number(a.plain(2, "training_mode", False)) and number(a.plain(1, "ratio", 0.5)):
        raise Unread("training mode is random")
    a.plain(1, "ratio")
    return a[0]


@operator("Cast")
def cast(a: Arguments) -> Any:
    """Of live values to float32 and float64 alone, which are computed with as float64."""
    x, dtype = a[0], DTYPES.get(a.attribute("to"))
    a.attribute("saturate")  # of 8-bit numbers, which are refused
    if dtype is None:
        raise Unread(f"to the type {a.attribute('to')}")
    if not any(a.live):
        return x.to(dtype)
    if dtype not in (torch.float32, torch.float64):
        raise Unread(f"to {str(dtype).removeprefix('torch.')}: rounding is not continuous")
    return x if x.is_floating_point() else x.to(torch.float64)


@operator("Shape")
def shape(a: Arguments) -> Tensor:
    return torch.tensor(list(a[0].shape)[a.attribute("start", 0) : a.attribute("end")], dtype=torch.int64)


@operator("Size")
def size(a: Arguments) -> Tensor:
    return torch.tensor(a[0].numel(), dtype=torch.int64)


@operator("ConstantOfShape")
def constant_of_shape(a: Arguments) -> Tensor:
    value = a.attribute("value")
    fill = torch.zeros(1) if value is None else torch.from_numpy(np.array(value).reshape(-1))
    if fill.numel() != 1:
        raise ValueError(f"{fill.numel()} values to fill with")
    return fill.expand(a.plain(0, "shape"))


@operator("Range")
def range_(a: Arguments) -> Tensor:
    start, limit, delta = (number(a.plain(i, name)) for i, name in enumerate(("start", "limit", "delta")))
    return torch.arange(start, limit, delta, dtype=a[0].dtype)


@operator("Flatten")
def flatten(a: Arguments) -> Tensor:
    x, rank = a[0], a.rank(a[0])
    axis = a.attribute("axis", 1)
    axis = rank if axis == rank else a.axis(axis, rank) - a.lead  # behind the last one too
    if a.rows:  # the rows are those of the first axis, whichever it is
        return x.reshape(x.shape[0] * math.prod(x.shape[1 : max(axis, 1)]), math.prod(x.shape[max(axis, 1) :]))
    sizes = x.shape[a.lead :]
    return x.reshape(*x.shape[: a.lead], math.prod(sizes[:axis]), math.prod(sizes[axis:]))


@operator("Reshape")
def reshape(a: Arguments) -> Tensor:
    """With many rows in the first axis, a leading 1 means the one row that the file was written with."""
    x, target = a[0], list(a.plain(1, "shape"))
    sizes = x.shape[a.lead :]
    if not a.attribute("allowzero", 0):
        target = [sizes[i] if n == 0 else n for i, n in enumerate(target)]
    if a.rows and target and isinstance(target[0], int) and target[0] == 1:
        target[0] = x.shape[0]
    return x.reshape(*x.shape[: a.lead], *target)


@operator("Transpose")
def transpose(a: Arguments) -> Tensor:
    rank = a.rank(a[0])
    order = a.attribute("perm", list(reversed(range(rank))))
    if sorted(order) != list(range(rank)):
        raise ValueError(f"perm {order} of a value of {rank} axes")
    return a[0].permute(*range(a.lead), *(axis + a.lead for axis in order))


@operator("Squeeze")
def squeeze(a: Arguments) -> Any:
    x, axes = a[0], a.plain(1, "axes")
    chosen = [a.axis(axis, a.rank(x)) for axis in axes] if axes else [
        i for i in range(int(a.rows) + a.lead, x.dim()) if x.shape[i] == 1
    ]  # fmt: skip
    if any(x.shape[axis] != 1 for axis in chosen):
        raise ValueError(f"axes {axes} of a value of shape {tuple(x.shape)}")
    return x.squeeze(tuple(chosen))


@operator("Unsqueeze")
def unsqueeze(a: Arguments) -> Any:
    x, axes = a[0], a.plain(1, "axes")
    chosen = sorted(a.axis(axis, a.rank(x) + len(axes)) for axis in axes)
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"axes {axes}")
    for axis in chosen:
        x = x.unsqueeze(axis)
    return x


@operator("Concat")
def concat(a: Arguments) -> Any:
    parts = [a[i] for i in range(len(a))]
    if a.lead or a.rows:  # constants are those of one row
        rows = next(part.shape[0] for part, live in zip(parts, a.live, strict=True) if live)
        parts = [
            part if live else part.expand(rows, *part.shape[int(a.rows) :])
            for part, live in zip(parts, a.live, strict=True)
        ]
    if any(part.dim() != parts[0].dim() for part in parts):
        raise ValueError("values of different numbers of axes")
    return torch.cat(parts, a.axis(a.attribute("axis"), a.rank(parts[0])))


@operator("Gather")
def gather(a: Arguments) -> Any:
    x, index = a[0], a.plain(1, "indices")
    axis = a.axis(a.attribute("axis", 0), a.rank(x))
    chosen, n = np.asarray(index, dtype=np.int64), x.shape[axis]
    if chosen.size and not (-n <= chosen.min() and chosen.max() < n):
        raise ValueError(f"an index of {chosen.max() if chosen.max() >= n else chosen.min()} into {n} places")
    if chosen.ndim == 0:
        return x.select(axis, int(chosen))
    flat = x.index_select(axis, torch.from_numpy(chosen.reshape(-1) % n))
    return flat.reshape(*x.shape[:axis], *chosen.shape, *x.shape[axis + 1 :])


@operator("Slice")
def slice_(a: Arguments) -> Any:
    x, starts, ends = a[0], a.plain(1, "starts"), a.plain(2, "ends")
    axes, steps = a.plain(3, "axes"), a.plain(4, "steps")
    chosen = [a.axis(axis, a.rank(x)) for axis in (range(len(starts)) if axes is None else axes)]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"axes {axes}")
    far = 2**62  # as good as any larger number, which torch would warn of
    for start, end, axis, step in zip(starts, ends, chosen, steps or [1] * len(starts), strict=True):
        if step > 0:
            first, last = (min(max(place, -far), far) for place in (start, end))
            x = x[(slice(None),) * axis + (slice(first, last, min(step, far)),)]
        else:
            if end >= 2**31 - 1:
                raise Unread("a step backwards to an end that stands for any")
            n = x.shape[axis]  # backwards, ONNX starts at the first place where Python starts before it
            order = range(*slice(max(start, -n), end, step).indices(n))
            x = x.index_select(axis, torch.tensor(list(order), dtype=torch.int64))
    return x


@operator("Split")
def split(a: Arguments) -> Any:
    x = a[0]
    axis = a.axis(a.attribute("axis", 0), a.rank(x))
    sizes, count = a.plain(1, "split"), a.attribute("num_outputs")
    n = x.shape[axis]
    if sizes is None:
        if (count is None and (a.opset >= 18 or n % a.outputs)) or count not in (None, a.outputs):
            raise ValueError(f"{n} places in {a.outputs} parts")
        each = -(-n // a.outputs)
        sizes = [each] * (a.outputs - 1) + [n - each * (a.outputs - 1)]
    if len(sizes) != a.outputs or min(sizes) < 0:
        raise ValueError(f"parts of sizes {sizes} for {a.outputs} outputs")
    return x.split(sizes, axis)


@operator("Expand")
def expand(a: Arguments) -> Tensor:
    """ONNX broadcasts both ways; with many rows in the first axis, a leading 1 is those rows."""
    x, target = a[0], list(a.plain(1, "shape"))
    missing = len(target) - a.rank(x)
    if a.rows and missing > 0:
        raise ValueError("axes before that of the rows")
    x = x.reshape(*x.shape[: a.lead], *(1,) * max(missing, 0), *x.shape[a.lead :])
    target = [1] * (a.rank(x) - len(target)) + target
    return x.expand(*(-1,) * a.lead, *(-1 if size == 1 else size for size in target))


@operator("Tile")
def tile(a: Arguments) -> Tensor:
    repeats = a.plain(1, "repeats")
    if len(repeats) != a.rank(a[0]):
        raise ValueError(f"{len(repeats)} repeats for {a.rank(a[0])} axes")
    return a[0].repeat(*(1,) * a.lead, *repeats)


@operator("Pad")
def pad(a: Arguments) -> Tensor:
    x, pads, value = a[0], a.plain(1, "pads"), number(a.plain(2, "value", 0.0))
    rank = a.rank(x)
    axes = a.plain(3, "axes")
    axes = [a.axis(axis, rank) - a.lead for axis in (range(rank) if axes is None else axes)]
    mode = a.attribute("mode", "constant")
    if len(pads) != 2 * len(axes) or len(set(axes)) < len(axes):
        raise ValueError(f"{len(pads)} pads for {len(axes)} axes")
    begin, end = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        begin[axis], end[axis] = pads[i], pads[i + len(axes)]
    if mode == "constant":
        return F.pad(x, torch_order(begin, end), value=value or 0.0)
    if mode not in ("reflect", "edge", "wrap"):
        raise Unread(f"mode {mode!r}")
    for axis, (first, last) in enumerate(zip(begin, end, strict=True)):
        if first or last:
            n = x.shape[axis + a.lead]
            if min(first, last) < 0 or (max(first, last) > n - (mode == "reflect") and mode != "edge"):
                raise ValueError(f"pads of {first} and {last} in mode {mode!r} for {n} places")
            order = np.pad(np.arange(n), (first, last), mode=mode)
            x = x.index_select(axis + a.lead, torch.from_numpy(order))
    return x
