"""ONNX operators as torch functions: name -> function(arguments), opset 8 and later.

An operator reads every attribute and input that changes its result; a node with any other is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

Operator = Callable[["Arguments"], Any]

OPERATORS: dict[str, Operator] = {}

Layout = Literal["file", "rows", "stacked"]
"""How values that depend on the input lie in memory.

"file": as the file says, one row. "rows": many rows in their first axis, of size 1 in the file. "stacked": many rows in
an axis of their own, before those of the file."""


class Unread(Exception):
    """A node asks for something that is not read, or not continuous; the text says what."""


class Arguments:
    """Inputs and attributes of one ONNX node.

    Attributes:
        live: Per input, whether it depends on the input of the network.
        lead: How many axes stand before those of the file, in live values.
    """

    def __init__(
        self,
        op: str,
        inputs: Sequence[Any],
        live: Sequence[bool],
        attributes: dict[str, Any],
        opset: int,
        outputs: int,
        layout: Layout = "file",
    ) -> None:
        self.op, self.live, self.attributes = op, list(live), attributes
        self.opset, self.outputs = opset, outputs
        self.rows = layout == "rows" and any(live)
        self.lead = int(layout == "stacked" and any(live))
        self._inputs = list(inputs)
        self._read: set[int | str] = set()

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, i: int) -> Any:
        """Input i as a tensor, floating ones in float64 beside live ones; None if it is not given."""
        self._read.add(i)
        value = self._inputs[i] if i < len(self._inputs) else None
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value)
        return value.to(torch.float64) if value is not None and any(self.live) and value.is_floating_point() else value

    def attribute(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return self.attributes.get(name, default)

    def plain(self, i: int, name: str, default: Any = None) -> Any:
        """What is an attribute in old files and a constant input in new ones, as a list or number."""
        self._read.update((i, name))
        value = self._inputs[i] if i < len(self._inputs) else None
        if value is None:
            return self.attributes.get(name, default)
        if self.live[i]:
            raise Unread(f"its input {i} ({name}) depends on the network's input; only a constant is read there")
        return value.tolist()

    def unread(self, defaults: dict[str, Any]) -> list[str]:
        """What was given and did not enter the result, attributes at their defaults left out."""
        attributes = [
            name
            for name, value in self.attributes.items()
            if name not in self._read and not np.array_equal(value, defaults.get(name, ()))
        ]
        return attributes + [
            f"input {i}" for i, value in enumerate(self._inputs) if value is not None and i not in self._read
        ]

    # shapes, as the file has them

    def rank(self, x: Tensor) -> int:
        return x.dim() - self.lead

    def axis(self, axis: int, rank: int) -> int:
        """Where an axis of the file is in memory, of a live value with this many in the file."""
        if not -rank <= axis < rank:
            raise ValueError(f"axis {axis} of a value of {rank} axes")
        return axis % rank + self.lead

    def aligned(self) -> list[Tensor]:
        """All inputs, so that torch broadcasts them as ONNX does."""
        given = [self[i] for i in range(len(self))]
        if not self.lead:
            return given
        parts = [x if live else x.unsqueeze(0) for x, live in zip(given, self.live, strict=True)]
        most = max(x.dim() for x in parts)
        return [x.reshape(x.shape[0], *(1,) * (most - x.dim()), *x.shape[1:]) for x in parts]

    def images(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """A function of `[batch, channel, ...]` on the first input."""
        x = self[0]
        if not self.lead:
            return function(x)
        return function(x.flatten(0, 1)).unflatten(0, (-1, x.shape[1]))


def operator(*names: str) -> Callable[[Operator], Operator]:
    def decorate(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return decorate


def simple(**functions: Callable[..., Any]) -> None:
    """Operators that are one torch function of all their inputs, which broadcast."""

    def lift(function: Callable[..., Any]) -> Operator:
        return lambda a: function(*a.aligned())

    OPERATORS.update((name, lift(function)) for name, function in functions.items())


def quotient(x: Tensor, y: Tensor) -> Tensor:
    return torch.div(x, y, rounding_mode=None if x.is_floating_point() else "trunc")


simple(Relu=torch.relu, Abs=torch.abs, Neg=torch.neg, Sigmoid=torch.sigmoid, Tanh=torch.tanh, Sign=torch.sign)
simple(Exp=torch.exp, Softplus=F.softplus, Erf=torch.erf, Sqrt=torch.sqrt, Floor=torch.floor, Ceil=torch.ceil)
simple(Add=torch.add, Sub=torch.sub, Mul=torch.mul, Div=quotient, Where=torch.where)
simple(Equal=torch.eq, Greater=torch.gt, GreaterOrEqual=torch.ge, Less=torch.lt, LessOrEqual=torch.le)
simple(Not=torch.logical_not, And=torch.logical_and, Or=torch.logical_or)


@operator("Pow")
def power(a: Arguments) -> Tensor:
    x, exponent = a.aligned()
    return torch.pow(x, exponent).to(x.dtype)


@operator("Sum", "Mean", "Max", "Min")
def reduce_inputs(a: Arguments) -> Tensor:
    combine: Any = {"Max": torch.maximum, "Min": torch.minimum}.get(a.op, torch.add)
    result, *others = a.aligned()
    for value in others:
        result = combine(result, value)
    return result / len(a) if a.op == "Mean" else result


@operator("MatMul")
def matmul(a: Arguments) -> Tensor:
    x, y = a[0], a[1]
    if not a.lead or (a.live == [True, False] and y.dim() == 2):
        return torch.matmul(x, y)
    if a.live == [False, True] and x.dim() == 2:
        return F.linear(y, x) if y.dim() == 2 else torch.matmul(x, y)
    x, y = (v if live else v.unsqueeze(0) for v, live in zip((x, y), a.live, strict=True))
    row, column = x.dim() == 2, y.dim() == 2
    x, y = x.unsqueeze(1) if row else x, y.unsqueeze(2) if column else y
    most = max(x.dim(), y.dim())
    x, y = (v.reshape(v.shape[0], *(1,) * (most - v.dim()), *v.shape[1:]) for v in (x, y))
    product = torch.matmul(x, y)
    product = product.squeeze(-1) if column else product
    return product.squeeze(-1 if column else -2) if row else product


@operator("Gemm")
def gemm(a: Arguments) -> Tensor:
    if a.rank(a[0]) != 2 or not (a.live[1] or a[1].dim() == 2) or (a.lead and a.live[1] and not a.live[0]):
        raise Unread("its first input must be a matrix, and the one that depends on the network's input")
    x = a[0].mT if a.attribute("transA", 0) else a[0]
    weight = a[1] if a.attribute("transB", 0) else a[1].mT
    alpha, beta, bias = a.attribute("alpha", 1.0), a.attribute("beta", 1.0), a[2]
    bias = bias if bias is None or beta == 1.0 else beta * bias
    if alpha == 1.0 and not a.live[1] and (bias is None or bias.shape == weight.shape[:1]):
        return F.linear(x, weight, bias)
    product = alpha * (torch.matmul(x, weight.mT) if a.live[1] else F.linear(x, weight))
    if bias is None:
        return product
    if not (a.rows or a.lead) and torch.broadcast_shapes(product.shape, bias.shape) != product.shape:
        raise ValueError(f"a bias of shape {tuple(bias.shape)} for a product of shape {tuple(product.shape)}")
    return product + bias


@operator("LeakyRelu")
def leaky_relu(a: Arguments) -> Tensor:
    return F.leaky_relu(a[0], a.attribute("alpha", 0.01))


@operator("PRelu")
def prelu(a: Arguments) -> Tensor:
    x, slope = a[0], a[1]
    if not a.live[1] and slope.dim() <= x.dim() - a.lead:
        per_channel = x.dim() > 1 and slope.dim() == x.dim() - 1 and slope.numel() == slope.shape[0] == x.shape[1]
        if slope.numel() == 1 or (per_channel and not a.lead):
            return F.prelu(x, slope.reshape(-1))
    x, slope = a.aligned()
    if torch.broadcast_shapes(x.shape, slope.shape) != x.shape:
        raise ValueError(f"slopes of shape {tuple(slope.shape)} for values of shape {tuple(x.shape)}")
    return torch.relu(x) - slope * torch.relu(-x)


@operator("Clip")
def clip(a: Arguments) -> Tensor:
    low, high = (number(a.plain(i, name)) for i, name in ((1, "min"), (2, "max")))
    return a[0] if low is None and high is None else a[0].clamp(low, high)


def number(value: Any) -> Any:
    """A number that is written as one, or as a list of one."""
    while isinstance(value, list):
        (value,) = value
    return value


@operator("HardSigmoid")
def hard_sigmoid(a: Arguments) -> Tensor:
    return (a.attribute("alpha", 0.2) * a[0] + a.attribute("beta", 0.5)).clamp(0.0, 1.0)


@operator("Softmax", "LogSoftmax")
def softmax(a: Arguments) -> Tensor:
    """Before opset 13 over all axes from `axis` on."""
    function: Any = {"Softmax": torch.softmax, "LogSoftmax": torch.log_softmax}[a.op]
    x = a[0]
    axis = a.axis(a.attribute("axis", -1 if a.opset >= 13 else 1), a.rank(x))
    if a.opset >= 13 or axis == x.dim() - 1:
        return function(x, axis)
    return function(x.flatten(axis), -1).reshape(x.shape)


@operator("ArgMax")
def argmax(a: Arguments) -> Tensor:
    return a[0].argmax(a.axis(a.attribute("axis", 0), a.rank(a[0])), keepdim=bool(a.attribute("keepdims", 1)))


@operator("TopK")
def topk(a: Arguments) -> Any:
    axis = a.axis(a.attribute("axis", -1), a.rank(a[0]))
    if not a.attribute("sorted", 1):
        raise Unread("sorted = 0 leaves the order open")
    k = a.plain(1, "k")
    if a.opset >= 10 and not (isinstance(k, list) and len(k) == 1):
        raise ValueError(f"k must be a list of one number, got {k}")
    return tuple(a[0].topk(number(k), axis, bool(a.attribute("largest", 1))))


# convolutions and pooling


@operator("Conv")
def conv(a: Arguments) -> Tensor:
    weight, bias, group, kernel, stride, dilation = convolution(a)
    dims = len(kernel)
    function = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]

    def run(x: Tensor) -> Tensor:
        begin, end = pads_of(a, x, kernel, stride, dilation)
        padding = begin if begin == end else [0] * dims
        x = x if begin == end else F.pad(x, torch_order(begin, end))
        return function(x, weight, bias, stride, padding, dilation, group)

    return a.images(run)


def convolution(a: Arguments) -> tuple[Tensor, Tensor | None, int, list[int], list[int], list[int]]:
    """Weight, bias, groups, kernel, strides and dilations of a convolution."""
    weight, kernel = a[1], list(a[1].shape[2:])
    if not 1 <= len(kernel) <= 3 or a.live[1]:
        raise Unread("one, two or three axes are read, and constant weights")
    if a.rank(a[0]) != len(kernel) + 2:
        raise ValueError(f"a batch axis, channels and {len(kernel)} axes are needed, got {a.rank(a[0])} axes in all")
    if a.attribute("kernel_shape", kernel) != kernel:
        raise ValueError(f"kernel_shape {a.attribute('kernel_shape')} for weights of {kernel}")
    stride, dilation = spatial(a, "strides", len(kernel)), spatial(a, "dilations", len(kernel))
    return weight, a[2], a.attribute("group", 1), kernel, stride, dilation


@operator("ConvTranspose")
def conv_transpose(a: Arguments) -> Tensor:
    weight, bias, group, kernel, stride, dilation = convolution(a)
    dims = len(kernel)
    extra = list(a.attribute("output_padding", [0] * dims))
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
    mode, asked = a.attribute("auto_pad", "NOTSET"), a.attribute("output_shape")

    def run(x: Tensor) -> Tensor:
        begin, end = given_pads(a, dims)
        if mode.startswith("SAME") or asked is not None:
            size = list(asked or (n * s for n, s in zip(x.shape[2:], stride, strict=True)))[-dims:]
            total = [
                s * (n - 1) + e + (k - 1) * d + 1 - out
                for s, n, e, k, d, out in zip(stride, x.shape[2:], extra, kernel, dilation, size, strict=True)
            ]
            if min(total) < 0:
                raise Unread("its output is to be larger than the kernel reaches")
            begin = [t // 2 if mode == "SAME_UPPER" else t - t // 2 for t in total]
            end = [t - b for t, b in zip(total, begin, strict=True)]
        whole = function(x, weight, bias, stride, 0, extra, group, dilation)
        for axis, (first, last) in enumerate(zip(begin, end, strict=True)):
            whole = whole.narrow(axis + 2, first, whole.shape[axis + 2] - first - last)
        return whole

    return a.images(run)


def spatial(a: Arguments, name: str, dims: int) -> list[int]:
    values = list(a.attribute(name, [1] * dims))
    if len(values) != dims or min(values) < 1:
        raise ValueError(f"{name} {values} for {dims} axes")
    return values


def given_pads(a: Arguments, dims: int) -> tuple[list[int], list[int]]:
    """Padding as it is written: at the beginning and at the end of each axis."""
    pads = list(a.attribute("pads", [0] * 2 * dims))
    if len(pads) != 2 * dims or min(pads) < 0:
        raise ValueError(f"pads {pads} for {dims} axes")
    if any(pads) and a.attribute("auto_pad", "NOTSET") != "NOTSET":
        raise Unread("pads and auto_pad contradict each other")
    return pads[:dims], pads[dims:]


def pads_of(
    a: Arguments, x: Tensor, kernel: list[int], stride: list[int], dilation: list[int]
) -> tuple[list[int], list[int]]:
    """Padding at the beginning and at the end of each axis, `auto_pad` resolved."""
    begin, end = given_pads(a, len(kernel))
    mode = a.attribute("auto_pad", "NOTSET")
    if mode in ("NOTSET", "VALID"):
        return begin, end
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise Unread(f"auto_pad {mode!r}")
    if set(dilation) != {1}:
        raise Unread("auto_pad together with dilations")
    total = [
        max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    begin = [t - t // 2 if mode == "SAME_LOWER" else t // 2 for t in total]
    return begin, [t - b for t, b in zip(total, begin, strict=True)]


def torch_order(begin: Sequence[int], end: Sequence[int]) -> list[int]:
    """Padding as torch's pairs, the last axis first; axes at the front that get none are left out."""
    pairs = list(zip(begin, end, strict=True))
    while pairs and pairs[0] == (0, 0):
        pairs.pop(0)
    return [value for pair in reversed(pairs) for value in pair]


def pooled_size(n: int, begin: int, end: int, kernel: int, stride: int, ceil: bool) -> int:
    """How many windows there are along an axis; a last one that begins in the padding is none."""
    room = n + begin + end - kernel
    if room < 0:
        raise ValueError("a window larger than what it slides over")
    count = (-(-room // stride) if ceil else room // stride) + 1
    return count - 1 if ceil and (count - 1) * stride >= n + begin else count


def pooling(a: Arguments) -> tuple[list[int], list[int], list[int], bool]:
    kernel = list(a.attribute("kernel_shape") or [])
    dims = len(kernel)
    if not 1 <= dims <= 3 or a.rank(a[0]) != dims + 2:
        raise Unread("windows over one, two or three axes are read")
    ceil = bool(a.attribute("ceil_mode", 0))
    if ceil and a.attribute("auto_pad", "NOTSET") != "NOTSET":
        raise Unread("ceil_mode together with auto_pad")
    return kernel, spatial(a, "strides", dims), spatial(a, "dilations", dims), ceil


def pool_pads(
    a: Arguments, x: Tensor, kernel: list[int], stride: list[int], dilation: list[int]
) -> tuple[list[int], list[int], bool]:
    """Padding at the beginning and at the end of each axis, and whether torch takes it as it is."""
    begin, end = pads_of(a, x, kernel, stride, dilation)
    if any(max(b, e) >= k for b, e, k in zip(begin, end, kernel, strict=True)):
        raise ValueError("padding as large as the window")
    return begin, end, begin == end and all(2 * p <= k for p, k in zip(begin, kernel, strict=True))


@operator("MaxPool")
def max_pool(a: Arguments) -> Tensor:
    kernel, stride, dilation, ceil = pooling(a)
    dims = len(kernel)
    a.attribute("storage_order")  # of the places of maxima, which are not read
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[dims - 1]

    def run(x: Tensor) -> Tensor:
        begin, end, even = pool_pads(a, x, kernel, stride, dilation)
        if even:
            return function(x, kernel, stride, begin, dilation, ceil)
        if set(dilation) != {1}:
            raise Unread("uneven padding together with dilations")
        last = [
            (pooled_size(n, b, e, k, s, ceil) - 1) * s + k - n - b
            for n, b, e, k, s in zip(x.shape[2:], begin, end, kernel, stride, strict=True)
        ]
        # a window that reaches the padding holds the edge too: repeating it changes no maximum
        pairs = [side for pair in zip(begin, last, strict=True) for side in (max(pair[1], 0), pair[0])][::-1]
        x = F.pad(x, pairs, mode="replicate")
        return function(x, kernel, stride)

    return a.images(run)


@operator("AveragePool")
def average_pool(a: Arguments) -> Tensor:
    kernel, stride, dilation, ceil = pooling(a)
    dims, include = len(kernel), bool(a.attribute("count_include_pad", 0))
    if set(dilation) != {1}:
        raise Unread("dilations of an average")
    function: Any = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[dims - 1]

    def run(x: Tensor) -> Tensor:
        begin, end, even = pool_pads(a, x, kernel, stride, dilation)
        if even:
            return function(x, kernel, stride, begin, ceil, include)
        if ceil:
            raise Unread("ceil_mode of an average together with uneven padding")
        pairs = torch_order(begin, end)
        whole = function(F.pad(x, pairs), kernel, stride)
        if include:
            return whole
        ones = torch.ones(1, 1, *x.shape[2:], dtype=x.dtype)
        return whole / function(F.pad(ones, pairs), kernel, stride)

    return a.images(run)


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(a: Arguments) -> Tensor:
    function: Any = torch.mean if a.op == "GlobalAveragePool" else torch.amax
    return function(a[0], tuple(range(2 + a.lead, a[0].dim())), keepdim=True)


def product(x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keepdim)
    return x


REDUCTIONS: dict[str, Any] = {
    "ReduceMean": torch.mean,
    "ReduceSum": torch.sum,
    "ReduceMax": torch.amax,
    "ReduceMin": torch.amin,
    "ReduceL1": lambda x, axes, keepdim: x.abs().sum(axes, keepdim=keepdim),
    "ReduceProd": product,
}


@operator(*REDUCTIONS)
def reduce_axes(a: Arguments) -> Tensor:
    """Over all axes unless some are given; with many rows in the first of them, over the others."""
    axes, keep = a.plain(1, "axes"), bool(a.attribute("keepdims", 1))
    noop = bool(a.attribute("noop_with_empty_axes", 0))
    x = a[0]
    if not axes and noop:
        return x.abs() if a.op == "ReduceL1" else x
    chosen = [a.axis(axis, a.rank(x)) for axis in axes or range(int(a.rows), a.rank(x))]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"axes {axes}")
    return REDUCTIONS[a.op](x, chosen, keepdim=keep) if chosen else x


@operator("BatchNormalization")
def batch_norm(a: Arguments) -> Tensor:
    if a.attribute("training_mode", 0) or a.outputs > 1:
        raise Unread("training mode: it normalizes by the statistics of the batch")
    a.attribute("momentum")  # of training
    if any(a.live[1:]):
        raise Unread("parameters that depend on the network's input")
    scale, shift, mean, variance = (a[i] for i in range(1, 5))
    epsilon = a.attribute("epsilon", 1e-5)
    return a.images(lambda x: F.batch_norm(x, mean, variance, scale, shift, False, 0.0, epsilon))


@operator("Resize", "Upsample")
def resize(a: Arguments) -> Tensor:
    old = a.op == "Upsample" or a.opset < 11
    x, rank = a[0], a.rank(a[0])
    if not old and len(a) > 1:
        a.plain(1, "roi")  # of tf_crop_and_resize, which is refused
    scales, sizes = a.plain(1 if old else 2, "scales"), None if old else a.plain(3, "sizes")
    axes = [a.axis(axis, rank) - a.lead for axis in a.attribute("axes", None) or range(rank)]
    if len(sizes or scales or []) != len(axes):
        raise ValueError(f"{len(sizes or scales or [])} sizes for {len(axes)} axes")
    mode = a.attribute("mode", "nearest")
    where = a.attribute("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    rounding = a.attribute("nearest_mode", "floor" if old else "round_prefer_floor")
    for name in ("cubic_coeff_a", "extrapolation_value"):  # of modes that are refused
        a.attribute(name)
    shape = list(x.shape[a.lead :])
    places: dict[int, tuple[float, int]] = {}  # axis -> (scale, new size), where something changes
    for i, axis in enumerate(axes):
        n = shape[axis]
        out = sizes[i] if sizes else math.floor(np.float32(n) * np.float32(scales[i]))
        scale = out / n if sizes else scales[i]
        if scale != 1:
            places[axis] = scale, out
    if mode == "nearest":
        return _nearest(a, x, places, where, rounding, old)
    names = {3: "linear", 4: "bilinear", 5: "trilinear"}
    if mode != "linear" or where not in {"align_corners", "half_pixel", "pytorch_half_pixel"} or rank not in names:
        raise Unread(f"mode {mode!r} with coordinates {where!r}")
    whole = all(shape[axis] * scale == out and out > 1 for axis, (scale, out) in places.items())
    if not whole or not {0, 1}.isdisjoint(places):
        raise Unread("linear resizing to sizes that are no multiples by the scales, or of other than spatial axes")
    size = [places[axis][1] if axis in places else shape[axis] for axis in range(2, rank)]
    corners = where == "align_corners"
    return a.images(lambda z: F.interpolate(z, size=size, mode=names[rank], align_corners=corners))


def _nearest(
    a: Arguments, x: Tensor, places: dict[int, tuple[float, int]], where: str, rounding: str, old: bool
) -> Tensor:
    """Each axis by the index that each of its new places takes; whole multiples of images by torch's own function."""
    chosen: dict[int, np.ndarray] = {}
    for axis, (scale, out) in places.items():
        n = x.shape[axis + a.lead]
        if old and scale < 1:
            raise Unread("making smaller by an operator of before opset 11")
        chosen[axis] = nearest_index(n, out, scale, where, rounding)
    spatial_axes = range(2, a.rank(x))
    if set(chosen) <= set(spatial_axes) and 3 <= a.rank(x) <= 5:
        sizes = [len(chosen[axis]) if axis in chosen else x.shape[axis + a.lead] for axis in spatial_axes]
        if all(_repeats_each(index, x.shape[axis + a.lead]) for axis, index in chosen.items()):
            return a.images(lambda z: F.interpolate(z, size=sizes, mode="nearest"))
    for axis, index in chosen.items():
        x = x.index_select(axis + a.lead, torch.from_numpy(index))
    return x


def _repeats_each(index: np.ndarray, n: int) -> bool:
    """Whether an index takes each of n places, in order, equally often."""
    return len(index) % n == 0 and np.array_equal(index, np.repeat(np.arange(n), len(index) // n))


def nearest_index(n: int, out: int, scale: float, where: str, rounding: str) -> np.ndarray:
    """`[out]` which of n places each new one takes, in the float32 of ONNX."""
    if out < 1:
        raise ValueError(f"a size of {out}")
    i, by = np.arange(out, dtype=np.float32), np.float32(scale)
    half = np.float32(0.5)
    if where in ("half_pixel", "pytorch_half_pixel"):
        at = (i + half) / by - half if where == "half_pixel" or out > 1 else i * 0
    elif where == "asymmetric":
        at = i / by
    elif where == "align_corners":
        at = i * np.float32(n - 1) / np.float32(out - 1) if out > 1 else i * 0
    else:
        raise Unread(f"coordinates {where!r}")
    rounds: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda z: np.ceil(z - half),
        "round_prefer_ceil": lambda z: np.floor(z + half),
    }
    if rounding not in rounds:
        raise Unread(f"nearest_mode {rounding!r}")
    return rounds[rounding](at).clip(0, n - 1).astype(np.int64)


@operator("DepthToSpace")
def depth_to_space(a: Arguments) -> Tensor:
    block, mode = a.attribute("blocksize"), a.attribute("mode", "DCR")

    def run(x: Tensor) -> Tensor:
        if mode == "CRD":
            return F.pixel_shuffle(x, block)
        n, c, h, w = x.shape
        x = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
        return x.reshape(n, c // block**2, h * block, w * block)

    if mode not in ("DCR", "CRD"):
        raise Unread(f"mode {mode!r}")
    return a.images(run)
