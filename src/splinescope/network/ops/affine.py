"""Layers and arithmetic that are affine in the live values."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..patches import Patches, added, convolved
from ..program import Product
from .activations import SMOOTH
from .call import Call, Curved, Live, Refusal, Rows, absolute
from .pooling import per_axis
from .refused import TRAINING
from .registry import Tails, affine

POWERS = (
    "is smooth, not piecewise affine, so it has no exact tiles; only x**1 is read as it is, and x**2 and x**3 within a "
    "tolerance."
)
_ALIGNED = 8  # numbers of float64 in a cache line

FACTORS = {
    *("input", "weight", "self", "other", "mat1", "mat2", "vec"),
    *("batch1", "batch2", "tensor1", "tensor2", "tensors"),
}
"""Arguments that multiply each other: at most one of them may be live."""
ADDED = ("addmm", "addmv", "baddbmm", "addcmul")
"""Products whose first argument is added to them."""


@affine(
    *("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("matmul", "mm", "mv", "bmm", "einsum", "tensordot"),
    role="product",
)
@affine("mul", "multiply", role="product", elementwise=True)
@affine(*ADDED, role="added product")
def product(call: Call) -> Live:
    """Products with a constant; a product of two live values is quadratic."""
    factors = FACTORS - ({"self"} if call.op in ADDED else set())
    live = sum(leaf_is_live(call, name) for name in factors & call.arguments.keys())
    if live > 1:
        raise Refusal(
            "multiplies two values that both depend on the input (attention, gating, squaring): quadratic, not "
            "piecewise affine; trace the part before it, or make one factor a constant."
        )
    matrix = matrix_product(call)
    if matrix is None:
        return call.affine(linear=_local_convolution(call), convolution=_convolution(call))
    sizes = Product(matrix.weight.abs(), None if matrix.bias is None else matrix.bias.abs(), matrix.missing)
    return call.affine(run=matrix, magnitude=sizes)


def _convolution(call: Call) -> int:
    """How many products of two numbers a convolution takes for one row; 0 for any other product."""
    if not call.op.startswith("conv") or not isinstance(call["weight"], Tensor) or not call.is_live("input"):
        return 0
    if "transpose" in call.op:  # whose products cost twice as much
        return 2 * int(call["weight"].numel()) * math.prod(call["input"].shape[1:])
    return int(call["weight"].numel()) * math.prod(call.shape[1:])


def _local_convolution(call: Call) -> Callable[..., Patches] | None:
    """The linear part of a convolution of images, on patches; None for any other product."""
    if call.op != "conv2d" or not call.is_live("input") or call.rank != 3 or isinstance(call["padding"], str):
        return None
    weight, groups, shape = call["weight"], call["groups"], call.shape
    stride, padding, dilation = (per_axis(call[name], 2) for name in ("stride", "padding", "dilation"))
    return lambda x: convolved(x, weight, stride, padding, dilation, groups, shape)


def matrix_product(call: Call) -> Product | None:
    """The call as a product of the live value with a matrix; None if it is none."""
    if call.op == "linear" and call.is_live("input") and isinstance(call["weight"], Tensor):
        matrix, bias = call["weight"], call["bias"]
    elif call.op in {"matmul", "mm"} and call.is_live("self") and _second(call).ndim == 2:
        matrix, bias = _second(call).T, None
    else:
        return None
    if not (bias is None or isinstance(bias, Tensor)):
        return None
    missing = -matrix.shape[1] % _ALIGNED
    return Product(functional.pad(matrix, (0, missing)) if missing else matrix, bias, missing)


def _second(call: Call) -> Tensor:
    """The right factor of a matrix product."""
    factor: Tensor = call["other" if call.op == "matmul" else "mat2"]
    return factor


def leaf_is_live(call: Call, argument: str) -> int:
    """How many live values an argument holds (einsum takes a list)."""
    value = call[argument]
    items = value if isinstance(value, (list, tuple)) else [value]
    return sum(isinstance(item, Live) for item in items)


@affine("div", "divide", "true_divide", role="quotient", elementwise=True)
def quotient(call: Call) -> Live:
    """Division by a constant."""
    if call.is_live("other"):
        raise Refusal("divides by a value that depends on the input: not piecewise affine.")
    if call.get("rounding_mode") is not None:
        raise Refusal("rounds its quotient: not continuous.")
    return call.affine()


def _sizes(call: Call) -> Callable[[Any, tuple[Tensor, ...]], Any]:
    """The magnitude of an argument, given those of the live ones."""
    positions = {live: i for i, live in enumerate(call.lives)}

    def size_of(value: Any, tensors: tuple[Tensor, ...]) -> Any:
        if isinstance(value, Live):
            return tensors[positions[value]]
        return absolute(value.tensor if isinstance(value, Rows) else value)

    return size_of


@affine("add", "sub", "subtract", "rsub", role="sum", elementwise=True)
def total(call: Call) -> Live:
    """Sums and differences, of live values or constants; magnitudes add."""
    first, second, alpha = call["self"], call["other"], abs(call.get("alpha", 1))
    size_of = _sizes(call)
    images = call.op == "add" and alpha == 1 and len(call.shape) == 3
    local = images and len(call.lives) == 2 and all(live.shape == call.shape for live in call.lives)
    return call.affine(
        magnitude=lambda *m: size_of(first, m) + alpha * size_of(second, m),
        linear=(lambda *x: added([part for part in x if part is not None])) if local else None,
    )


@affine("neg", "negative", role="sum", elementwise=True)
def negation(call: Call) -> Live:
    return call.affine(torch.neg, identity)


@affine(
    *("sum", "mean", "cumsum", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    *("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "_upsample_bilinear2d_aa"),
    role="sum",
)
def average(call: Call) -> Live:
    """Sums with weights that are not negative: the op is its own magnitude."""
    run = call.runner()
    return call.affine(run, run)


@affine("pow", elementwise=True, tails=lambda a: Tails())  # of the second or third power
def power(call: Call) -> Live:
    """The first power of a value is the value; its square and cube are smooth functions of it."""
    if not call.is_live("self") or call.is_live("exponent"):
        raise Refusal(POWERS)
    exponent = call.constant("exponent")
    if isinstance(exponent, (int, float)) and exponent in (2, 3):
        raise Curved(SMOOTH)
    if not bool(torch.as_tensor(exponent == 1).all()):
        raise Refusal(POWERS)
    return call.affine(identity, identity, inputs=call.lives[:1])


@affine("_native_batch_norm_legit_no_training")
@affine("batch_norm", role="sum")
def batch_norm(call: Call) -> Live:
    """Batch norm in eval: `scale * x + shift` per channel, from the running statistics."""
    call.values_only()
    if call.get("training"):
        raise Refusal(TRAINING)
    x = call.live("input")
    mean, variance = call["running_mean"], call["running_var"]
    weight = torch.ones_like(mean) if call["weight"] is None else call["weight"]
    bias = torch.zeros_like(mean) if call["bias"] is None else call["bias"]
    per_channel = (-1,) + (1,) * (len(x.shape) - 1)
    scale = weight / (variance + call["eps"]).sqrt()
    shift = (bias - mean * scale).reshape(per_channel)
    shift_size = (bias.abs() + (mean * scale).abs()).reshape(per_channel)
    scale = scale.reshape(per_channel)
    scale_size = scale.abs()
    linear = (lambda x: x.times(scale)) if len(x.shape) == 3 else None
    return call.affine(lambda x: x * scale + shift, lambda m: m * scale_size + shift_size, linear=linear)


def identity(x: Tensor) -> Tensor:
    return x
