"""ONNX operators as torch functions: name -> function(arguments), opset 8 and later.

Values are tensors, or plain lists and numbers where a file computes with shapes (Shape, Gather, Concat...).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

Operator = Callable[["Arguments"], Any]

OPERATORS: dict[str, Operator] = {}


class Arguments:
    """Inputs and attributes of one ONNX node."""

    def __init__(self, op: str, inputs: list[Any], attributes: dict[str, Any], opset: int, outputs: int) -> None:
        self.op, self.inputs, self.attributes, self.opset, self.outputs = (
            op,
            inputs,
            attributes,
            opset,
            outputs,
        )

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, i: int) -> Any:
        return self.inputs[i] if i < len(self.inputs) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def plain(self, i: int, name: str, default: Any = None) -> Any:
        """What is an attribute in old files and a constant input in new ones, as a list or number."""
        value = self[i]
        if value is None:
            return self.attributes.get(name, default)
        return value.tolist() if isinstance(value, (Tensor, np.ndarray)) else value


def operator(*names: str) -> Callable[[Operator], Operator]:
    def decorate(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return decorate


def simple(**functions: Callable[..., Any]) -> None:
    """Operators that are one torch function of all their inputs."""

    def lift(function: Callable[..., Any]) -> Operator:
        return lambda a: function(*(tensor(v) for v in a.inputs))

    OPERATORS.update((name, lift(function)) for name, function in functions.items())


def tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else torch.as_tensor(value, dtype=torch.float64)


simple(Relu=torch.relu, Abs=torch.abs, Neg=torch.neg, MatMul=torch.matmul, Sigmoid=torch.sigmoid, Tanh=torch.tanh)
simple(Exp=torch.exp, Softplus=F.softplus, Erf=torch.erf, Sqrt=torch.sqrt, Sign=torch.sign, Pow=torch.pow)


def arithmetic(on_tensors: Callable[..., Any], on_numbers: Callable[..., Any]) -> Operator:
    """Elementwise, also on the lists that shapes are."""

    def run(a: Arguments) -> Any:
        x, y = a[0], a[1]
        if isinstance(x, Tensor) or isinstance(y, Tensor):
            return on_tensors(tensor(x), tensor(y))
        if isinstance(x, list) or isinstance(y, list):
            size = max(len(v) for v in (x, y) if isinstance(v, list))
            xs, ys = ((v * size if len(v) == 1 else v) if isinstance(v, list) else [v] * size for v in (x, y))
            return [on_numbers(p, q) for p, q in zip(xs, ys, strict=True)]
        return on_numbers(x, y)

    return run


OPERATORS["Add"] = arithmetic(torch.add, lambda p, q: p + q)
OPERATORS["Sub"] = arithmetic(torch.sub, lambda p, q: p - q)
OPERATORS["Mul"] = arithmetic(torch.mul, lambda p, q: p * q)
OPERATORS["Div"] = arithmetic(torch.div, lambda p, q: p // q)


@operator("Sum", "Max", "Min")
def reduce_inputs(a: Arguments) -> Tensor:
    combine: Any = {"Sum": torch.add, "Max": torch.maximum, "Min": torch.minimum}[a.op]
    result = tensor(a[0])
    for value in a.inputs[1:]:
        result = combine(result, tensor(value))
    return result


@operator("Gemm")
def gemm(a: Arguments) -> Tensor:
    x = a[0].mT if a.attribute("transA", 0) else a[0]
    weight = a[1] if a.attribute("transB", 0) else a[1].mT
    alpha, beta = a.attribute("alpha", 1.0), a.attribute("beta", 1.0)
    bias = None if a[2] is None else beta * a[2] if beta != 1.0 else a[2]
    if alpha == 1.0 and (bias is None or bias.dim() == 1):
        return F.linear(x, weight, bias)
    product = alpha * F.linear(x, weight)
    return product if bias is None else product + bias


@operator("LeakyRelu")
def leaky_relu(a: Arguments) -> Tensor:
    return F.leaky_relu(a[0], a.attribute("alpha", 0.01))


@operator("PRelu")
def prelu(a: Arguments) -> Tensor:
    x, slope = a[0], tensor(a[1])
    channels = x.shape[1] if x.dim() > 1 else 1
    per_channel = (
        slope.numel() == channels and (slope.dim() == x.dim() - 1 or x.dim() == 2) and slope.shape[0] == channels
    )
    if slope.numel() == 1 or per_channel:
        return F.prelu(x, slope.reshape(-1))
    return torch.relu(x) - slope * torch.relu(-x)


@operator("Clip")
def clip(a: Arguments) -> Tensor:
    low, high = a.plain(1, "min"), a.plain(2, "max")
    return a[0].clamp(number(low, -math.inf), number(high, math.inf))


def number(value: Any, default: float) -> float:
    while isinstance(value, list):
        value = value[0]
    return default if value is None else float(value)


@operator("HardSigmoid")
def hard_sigmoid(a: Arguments) -> Tensor:
    return (a.attribute("alpha", 0.2) * a[0] + a.attribute("beta", 0.5)).clamp(0.0, 1.0)


@operator("Softmax", "LogSoftmax", "ArgMax")
def ending(a: Arguments) -> Tensor:
    function: Any = {"Softmax": torch.softmax, "LogSoftmax": torch.log_softmax, "ArgMax": torch.argmax}[a.op]
    axis = a.attribute("axis", 0 if function is torch.argmax else -1 if a.opset >= 13 else 1)
    return function(a[0], axis)


@operator("Conv")
def conv(a: Arguments) -> Tensor:
    x, weight = a[0], a[1]
    dims = x.dim() - 2
    stride, dilation = spatial(a, "strides", dims), spatial(a, "dilations", dims)
    x, padding = pad_for(a, x, list(weight.shape[2:]), stride, dilation)
    function = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    return function(x, weight, a[2], stride, padding, dilation, a.attribute("group", 1))


@operator("ConvTranspose")
def conv_transpose(a: Arguments) -> Tensor:
    x, weight = a[0], a[1]
    dims = x.dim() - 2
    stride, dilation = spatial(a, "strides", dims), spatial(a, "dilations", dims)
    kernel, extra = list(weight.shape[2:]), a.attribute("output_padding", [0] * dims)
    pads = a.attribute("pads", [0] * 2 * dims)
    if a.attribute("auto_pad", "NOTSET").startswith("SAME") or a.attribute("output_shape") is not None:
        size = a.attribute("output_shape") or [n * s for n, s in zip(x.shape[2:], stride, strict=True)]
        total = [
            s * (n - 1) + e + (k - 1) * d + 1 - out
            for s, n, e, k, d, out in zip(stride, x.shape[2:], extra, kernel, dilation, size[-dims:], strict=True)
        ]
        lower = a.attribute("auto_pad") == "SAME_LOWER"
        begin = [t - t // 2 if lower else t // 2 for t in total]
        pads = begin + [t - b for t, b in zip(total, begin, strict=True)]
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
    whole = function(x, weight, a[2], stride, 0, extra, a.attribute("group", 1), dilation)
    for axis, (begin_pad, end_pad) in enumerate(zip(pads[:dims], pads[dims:], strict=True)):
        whole = whole.narrow(axis + 2, begin_pad, whole.shape[axis + 2] - begin_pad - end_pad)
    return whole


def spatial(a: Arguments, name: str, dims: int) -> list[int]:
    return list(a.attribute(name, [1] * dims))


def pads_of(a: Arguments, x: Tensor, kernel: list[int], stride: list[int], dilation: list[int]) -> list[int]:
    """Begin and end padding per axis, `auto_pad` resolved."""
    dims = len(kernel)
    mode = a.attribute("auto_pad", "NOTSET")
    if mode == "VALID":
        return [0] * 2 * dims
    if mode == "NOTSET":
        return list(a.attribute("pads", [0] * 2 * dims))
    total = []
    for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True):
        total.append(max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0))
    begin = [t - t // 2 if mode == "SAME_LOWER" else t // 2 for t in total]
    return begin + [t - b for t, b in zip(total, begin, strict=True)]


def torch_order(pads: list[int]) -> list[int]:
    """ONNX begins-then-ends as torch's last-axis-first pairs."""
    dims = len(pads) // 2
    return [value for axis in reversed(range(dims)) for value in (pads[axis], pads[axis + dims])]


def pad_for(
    a: Arguments, x: Tensor, kernel: list[int], stride: list[int], dilation: list[int], mode: str = "constant"
) -> tuple[Tensor, list[int]]:
    """The input padded as far as torch cannot do it itself, and the symmetric padding left to torch."""
    pads = pads_of(a, x, kernel, stride, dilation)
    dims = len(kernel)
    if pads[:dims] == pads[dims:] and (
        mode == "constant" or all(2 * p <= k for p, k in zip(pads, kernel, strict=False))
    ):
        return x, pads[:dims]
    return F.pad(x, torch_order(pads), mode=mode), [0] * dims


@operator("MaxPool")
def max_pool(a: Arguments) -> Tensor:
    x, kernel = a[0], a.attribute("kernel_shape")
    dims = len(kernel)
    stride, dilation = spatial(a, "strides", dims), spatial(a, "dilations", dims)
    if set(dilation) == {1}:  # a window that reaches the padding holds the edge too: repeating it changes no maximum
        x, padding = pad_for(a, x, kernel, stride, dilation, mode="replicate")
    else:
        padding = pads_of(a, x, kernel, stride, dilation)[:dims]
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[dims - 1]
    return function(x, kernel, stride, padding, dilation, bool(a.attribute("ceil_mode", 0)))


@operator("AveragePool")
def average_pool(a: Arguments) -> Tensor:
    x, kernel = a[0], a.attribute("kernel_shape")
    dims = len(kernel)
    stride = spatial(a, "strides", dims)
    pads = pads_of(a, x, kernel, stride, [1] * dims)
    function: Any = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[dims - 1]
    ceil, include = bool(a.attribute("ceil_mode", 0)), bool(a.attribute("count_include_pad", 0))
    if pads[:dims] == pads[dims:]:
        return function(x, kernel, stride, pads[:dims], ceil, include)
    whole = function(F.pad(x, torch_order(pads)), kernel, stride, 0, ceil)
    if include:
        return whole
    ones = torch.ones(1, 1, *x.shape[2:], dtype=torch.float64)
    return whole / function(F.pad(ones, torch_order(pads)), kernel, stride, 0, ceil)


@operator("GlobalAveragePool")
def global_average_pool(a: Arguments) -> Tensor:
    return a[0].mean(tuple(range(2, a[0].dim())), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(a: Arguments) -> Tensor:
    return a[0].amax(tuple(range(2, a[0].dim())), keepdim=True)


REDUCTIONS: dict[str, Any] = {
    "ReduceMean": torch.mean,
    "ReduceSum": torch.sum,
    "ReduceMax": torch.amax,
    "ReduceMin": torch.amin,
}


@operator("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
def reduce_axes(a: Arguments) -> Tensor:
    function = REDUCTIONS[a.op]
    axes = a.plain(1, "axes") or list(range(1, a[0].dim()))
    return function(a[0], axes, keepdim=bool(a.attribute("keepdims", 1)))


@operator("BatchNormalization")
def batch_norm(a: Arguments) -> Tensor:
    return F.batch_norm(a[0], a[3], a[4], a[1], a[2], False, 0.0, a.attribute("epsilon", 1e-5))


@operator("Resize", "Upsample")
def resize(a: Arguments) -> Tensor:
    x, upsample = a[0], a.op == "Upsample"
    place = 1 if upsample or a.opset < 11 else 2
    scales, sizes = a.plain(place, "scales"), None if upsample else a.plain(3, "sizes")
    mode = a.attribute("mode", "nearest")
    where = a.attribute("coordinate_transformation_mode", "asymmetric" if upsample or a.opset < 11 else "half_pixel")
    size = sizes[2:] if sizes else [math.floor(n * s) for n, s in zip(x.shape[2:], scales[2:], strict=True)]
    if mode == "nearest":
        whole = all(out % n == 0 for out, n in zip(size, x.shape[2:], strict=True))
        if not whole:
            raise ValueError("nearest resizing is read for whole-number scales only")
        return F.interpolate(x, size=size, mode="nearest")
    if mode != "linear" or where not in {"align_corners", "half_pixel", "pytorch_half_pixel"}:
        raise ValueError(f"resizing with mode {mode!r} and coordinates {where!r} is not read")
    name = ("linear", "bilinear", "trilinear")[x.dim() - 3]
    return F.interpolate(x, size=size, mode=name, align_corners=where == "align_corners")


@operator("DepthToSpace")
def depth_to_space(a: Arguments) -> Tensor:
    x, block = a[0], a.attribute("blocksize")
    if a.attribute("mode", "DCR") == "CRD":
        return F.pixel_shuffle(x, block)
    n, c, h, w = x.shape
    x = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c // block**2, h * block, w * block)
