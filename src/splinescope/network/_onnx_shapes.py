"""ONNX operators that reshape, select and join; shapes computed inside a file are plain lists."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ._onnx_ops import Arguments, operator, tensor, torch_order


@operator("Identity", "Dropout", "Cast")
def identity(a: Arguments) -> Any:
    return a[0]


@operator("Constant")
def constant(a: Arguments) -> Any:
    return a.attribute("value")


@operator("Shape")
def shape(a: Arguments) -> list[Any]:
    return list(a[0].shape)


@operator("ConstantOfShape")
def constant_of_shape(a: Arguments) -> Any:
    value = a.attribute("value")
    fill = 0.0 if value is None else value[0] if isinstance(value, list) else value.reshape(-1)[0]
    if isinstance(fill, int):
        return [fill] * a[0][0] if len(a[0]) == 1 else torch.full(a[0], fill)
    return torch.full(a[0], float(fill), dtype=torch.float64)


@operator("Flatten")
def flatten(a: Arguments) -> Tensor:
    x, axis = a[0], a.attribute("axis", 1) % (a[0].dim() + 1)
    return x.reshape(x.shape[0] * math.prod(x.shape[1 : max(axis, 1)]), math.prod(x.shape[max(axis, 1) :]))


@operator("Reshape")
def reshape(a: Arguments) -> Tensor:
    """A leading 1 means the one row the file was written with: here it is the number of rows."""
    x, target = a[0], a.plain(1, "shape")
    if not isinstance(x, Tensor):
        return x
    target = [x.shape[i] if size == 0 else size for i, size in enumerate(target)]
    if target and isinstance(target[0], int) and target[0] == 1:
        target[0] = x.shape[0]
    return x.reshape(target)


@operator("Transpose")
def transpose(a: Arguments) -> Tensor:
    return a[0].permute(a.attribute("perm", list(reversed(range(a[0].dim())))))


@operator("Squeeze")
def squeeze(a: Arguments) -> Any:
    x, axes = a[0], a.plain(1, "axes")
    if isinstance(x, list):
        return x[0]
    axes = [axis % x.dim() for axis in axes] if axes else [i for i in range(1, x.dim()) if x.shape[i] == 1]
    return x.squeeze(tuple(axes))


@operator("Unsqueeze")
def unsqueeze(a: Arguments) -> Any:
    x, axes = a[0], a.plain(1, "axes")
    if not isinstance(x, Tensor):
        return x if isinstance(x, list) else [x]
    for axis in sorted(axis % (x.dim() + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


@operator("Concat")
def concat(a: Arguments) -> Any:
    if all(isinstance(value, list) for value in a.inputs):
        return [item for value in a.inputs for item in value]
    parts = [tensor(value) for value in a.inputs]
    rows = next((p.shape[0] for p in parts if not isinstance(p.shape[0], int)), None)
    if rows is not None:  # constants written for one row
        parts = [p.expand(rows, *p.shape[1:]) if isinstance(p.shape[0], int) else p for p in parts]
    return torch.cat(parts, a.attribute("axis"))


@operator("Gather")
def gather(a: Arguments) -> Any:
    x, index, axis = a[0], a.plain(1, "indices"), a.attribute("axis", 0)
    if isinstance(x, list):
        return [x[i] for i in index] if isinstance(index, list) else x[index]
    if not isinstance(index, list):
        return x.select(axis, index)
    chosen = np.asarray(index)
    flat = x.index_select(axis, torch.as_tensor(chosen.reshape(-1) % x.shape[axis]))
    return flat.reshape(*x.shape[:axis], *chosen.shape, *x.shape[axis + 1 :])


@operator("Slice")
def slice_(a: Arguments) -> Any:
    x, starts, ends = a[0], a.plain(1, "starts"), a.plain(2, "ends")
    axes = a.plain(3, "axes") or list(range(len(starts)))
    steps = a.plain(4, "steps") or [1] * len(starts)
    if isinstance(x, list):
        return x[starts[0] : ends[0] : steps[0]]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = x.shape[axis]
        if step > 0:
            x = x[(slice(None),) * (axis % x.dim()) + (slice(start, end, step),)]
        else:
            order = torch.as_tensor(list(range(size))[start : None if end < -size else end : step])
            x = x.index_select(axis, order)
    return x


@operator("Split")
def split(a: Arguments) -> Any:
    x, axis = a[0], a.attribute("axis", 0)
    sizes = a.plain(1, "split")
    count = a.attribute("num_outputs", a.outputs)
    return x.split(sizes if sizes else -(-x.shape[axis] // count), axis)


@operator("Expand")
def expand(a: Arguments) -> Tensor:
    """ONNX broadcasts both ways; a 1 keeps the size, and leading ones are the rows."""
    x, target = a[0], a.plain(1, "shape")
    sizes = [-1 if isinstance(size, int) and size == 1 else size for size in target]
    return x.expand(sizes)


@operator("Pad")
def pad(a: Arguments) -> Tensor:
    x, pads, value = a[0], a.plain(1, "pads"), a.plain(2, "value", 0.0)
    while isinstance(value, list):
        value = value[0]
    if a[3] is not None:
        axes = a.plain(3, "axes")
        full = [0] * (2 * x.dim())
        for i, axis in enumerate(axes):
            full[axis % x.dim()], full[axis % x.dim() + x.dim()] = pads[i], pads[i + len(axes)]
        pads = full
    mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}[
        a.attribute("mode", "constant")
    ]
    pairs = torch_order(list(pads))
    if mode != "constant":
        pairs = pairs[: 2 * (x.dim() - 2)]
        return F.pad(x, pairs, mode=mode)
    return F.pad(x, pairs[:-2], value=float(value or 0.0))
