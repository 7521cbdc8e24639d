"""ONNX operators as torch functions: name -> function(arguments), opset 8 and later.

An operator reads every attribute and input that changes its result; a node with any other is refused by name.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Node:
    """One node of a graph: its module's name, operator, names of inputs ("": not given) and outputs, attributes."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    opset: int


class Arguments:
    """What one ONNX node is given: its inputs, which of them are `live` (depend on that of the network), attributes.

    `lead` is how many axes stand before those of the file, in live values.
    """

    def __init__(self, node: Node, inputs: Sequence[Any], live: Sequence[bool], layout: Layout = "file") -> None:
        self.node, self.op, self.opset, self.live = node, node.op, node.opset, list(live)
        self.outputs = sum(bool(name) for name in node.outputs)
        self.rows = layout == "rows" and any(live)
        self.lead = int(layout == "stacked" and any(live))
        self._inputs, self._read = list(inputs), set[int | str]()

    def results(self) -> dict[str, Tensor]:
        """The node's values by name; an optional output that is not computed has none."""
        result = OPERATORS[self.op](self)
        several = result if isinstance(result, (tuple, list)) else (result,)
        return {name: value for name, value in zip(self.node.outputs, several, strict=False) if name}

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
        return self.node.attributes.get(name, default)

    def plain(self, i: int, name: str, default: Any = None) -> Any:
        """What is an attribute in old files and a constant input in new ones, as a list or number."""
        self._read.add(i)
        value, given = self._inputs[i] if i < len(self._inputs) else None, self.attribute(name, default)
        if value is None:
            return given
        if self.live[i]:
            raise Unread(f"its input {i} ({name}) depends on the network's input; only a constant is read there")
        return value.tolist()

    def unread(self, defaults: dict[str, Any]) -> list[str]:
        """What was given and did not enter the result, attributes at their defaults left out."""
        attributes = [k for k, v in self.node.attributes.items() if not np.array_equal(v, defaults.get(k, ()))]
        inputs = [f"input {i}" for i, v in enumerate(self._inputs) if v is not None and i not in self._read]
        return [name for name in attributes if name not in self._read] + inputs

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
    result = functools.reduce(combine, a.aligned())
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
        begin, end = pads_of(a, x, kernel, stride)
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


def pads_of(a: Arguments, x: Tensor, kernel: list[int], stride: list[int]) -> tuple[list[int], list[int]]:
    """Padding at the beginning and at the end of each axis, `auto_pad` resolved."""
    begin, end = given_pads(a, len(kernel))
    mode = a.attribute("auto_pad", "NOTSET")
    if mode in ("NOTSET", "VALID"):
        return begin, end
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise Unread(f"auto_pad {mode!r}")
    if set(a.attribute("dilations", [1])) != {1}:
        raise Unread("auto_pad together with dilations")
    total = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(x.shape[2:], kernel, stride, strict=True)]
    begin = [t - t // 2 if mode == "SAME_LOWER" else t // 2 for t in total]
    return begin, [t - b for t, b in zip(total, begin, strict=True)]


def torch_order(begin: Sequence[int], end: Sequence[int]) -> list[int]:
    """Padding as torch's pairs, the last axis first; axes at the front that get none are left out."""
    pairs = list(zip(begin, end, strict=True))
    while pairs and pairs[0] == (0, 0):
        pairs.pop(0)
    return [value for pair in reversed(pairs) for value in pair]


@operator("MaxPool", "AveragePool")
def pool(a: Arguments) -> Tensor:
    kernel = list(a.attribute("kernel_shape") or [])
    dims, ceil, average = len(kernel), bool(a.attribute("ceil_mode", 0)), a.op == "AveragePool"
    if not 1 <= dims <= 3 or a.rank(a[0]) != dims + 2:
        raise Unread("windows over one, two or three axes are read")
    stride, dilation = spatial(a, "strides", dims), spatial(a, "dilations", dims)
    if average and set(dilation) != {1}:
        raise Unread("dilations of an average")
    if ceil and a.attribute("auto_pad", "NOTSET") != "NOTSET":
        raise Unread("ceil_mode together with auto_pad")
    include = average and bool(a.attribute("count_include_pad", 0))
    a.attribute("storage_order")  # of the places of maxima, which are not read
    kinds = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d) if average else (F.max_pool1d, F.max_pool2d, F.max_pool3d)
    function: Any = kinds[dims - 1]

    def run(x: Tensor) -> Tensor:
        begin, end = pads_of(a, x, kernel, stride)
        if any(max(b, e) >= k for b, e, k in zip(begin, end, kernel, strict=True)):
            raise ValueError("padding as large as the window")
        if begin == end and all(2 * p <= k for p, k in zip(begin, kernel, strict=True)):
            rest = {"count_include_pad": include} if average else {"dilation": dilation}
            found = function(x, kernel, stride, begin, ceil_mode=ceil, **rest)
            windows = zip(x.shape[2:], found.shape[2:], kernel, stride, begin, dilation, strict=True)
            if any(
                all(not 0 <= i * s - p + j * d < n for j in range(k)) for n, o, k, s, p, d in windows for i in range(o)
            ):
                raise Unread("a window that lies in the padding altogether")  # runtimes differ in its value
            return found
        if ceil or set(dilation) != {1}:
            raise Unread("uneven padding together with ceil_mode or dilations")
        pairs = torch_order(begin, end)
        if not average:  # a window that reaches the padding holds the edge too: repeating it changes no maximum
            pairs += [0] * (2 * dims - len(pairs))
            return function(F.pad(x, pairs, mode="replicate"), kernel, stride)
        whole = function(F.pad(x, pairs), kernel, stride)
        ones = torch.ones(1, 1, *x.shape[2:], dtype=x.dtype)
        return whole if include else whole / function(F.pad(ones, pairs), kernel, stride)

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


HALF_PIXEL = {"half_pixel", "pytorch_half_pixel"}
REPEATING = {"floor": {"asymmetric"}, "round_prefer_floor": HALF_PIXEL, "round_prefer_ceil": HALF_PIXEL}
"""By how it rounds: coordinates by which each old place of an image made larger is the nearest of so many new ones."""


@operator("Resize", "Upsample")
def resize(a: Arguments) -> Tensor:
    """Images made larger by whole numbers."""
    old = a.op == "Upsample" or a.opset < 11
    rank, shape = a.rank(a[0]), list(a[0].shape[a.lead :])
    if not old and len(a) > 1:
        a.plain(1, "roi")  # of tf_crop_and_resize, which is refused
    scales, sizes = a.plain(1 if old else 2, "scales"), None if old else a.plain(3, "sizes")
    sizes = sizes or [n * scale for n, scale in zip(shape, scales or [], strict=True)]
    mode = a.attribute("mode", "nearest")
    where = a.attribute("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    rounding = a.attribute("nearest_mode", "floor" if old else "round_prefer_floor")
    if len(sizes) != rank or not 3 <= rank <= 5 or any(size % n for size, n in zip(sizes, shape, strict=True)):
        raise Unread(f"from sizes {shape} to {sizes}, where images made larger by whole numbers are read")
    if sizes[:2] != shape[:2] or min(sizes) < 1:
        raise Unread(f"from sizes {shape} to {sizes}: other than spatial axes")
    size = [int(n) for n in sizes[2:]]
    if mode == "nearest" and where in REPEATING.get(rounding, ()):
        return a.images(lambda x: F.interpolate(x, size=size, mode="nearest"))
    corners = where == "align_corners"
    if mode != "linear" or not (corners or where in HALF_PIXEL) or 1 in size:
        raise Unread(f"mode {mode!r} with coordinates {where!r} and rounding {rounding!r}")
    linear = ("linear", "bilinear", "trilinear")[rank - 3]
    return a.images(lambda x: F.interpolate(x, size=size, mode=linear, align_corners=corners))


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
