"""Which torch functions are linear, which bend, and how one that bends is held: the table behind `held.Holding`.

Names are those of torch functions and tensor methods without underscores at their ends (`add_` and `__iadd__` are
"add"); what is in no table counts as not affine.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHAPES = _names(
    """view reshape flatten unflatten squeeze unsqueeze transpose permute movedim moveaxis swapaxes swapdims t T mT H mH
    contiguous expand expand_as repeat repeat_interleave tile chunk split tensor_split hsplit vsplit dsplit unbind
    getitem select narrow index_select gather take_along_dim flip fliplr flipud roll rot90 to type type_as float double
    half bfloat16 cpu cuda clone alias view_as reshape_as unfold diagonal pixel_shuffle pixel_unshuffle
    channel_shuffle broadcast_to ravel real imag view_as_complex view_as_real requires_grad"""
)
"""The same numbers elsewhere: what came out of an activation still counts as such."""

SUMS = _names(
    """add sub subtract rsub radd neg negative positive cat concat concatenate stack hstack vstack dstack column_stack
    sum mean nansum cumsum pad setitem copy index_put index_add index_copy scatter scatter_add tril triu
    avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    interpolate upsample batch_norm diff trace diag diag_embed block_diag fill zero fold constant_pad_nd index_fill
    masked_select masked_scatter fft_fft fft_ifft fft_rfft fft_irfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 fft_fftn
    fft_ifftn"""
)
"""Affine in all their tensors together."""

PLACED = _names("setitem index_put index_add index_copy index_fill scatter scatter_add masked_select masked_scatter")
"""Those of them that take whole numbers or booleans as places."""

MADE = _names(
    """zeros_like ones_like full_like empty_like rand_like randn_like randint_like new_zeros new_ones new_full new_empty
    new_tensor"""
)
"""Made of the shape and dtype of a tensor, not of its values."""

PRODUCTS = _names(
    """mul multiply rmul matmul rmatmul bmm mm mv dot inner outer vdot einsum linear conv1d conv2d conv3d
    conv_transpose1d conv_transpose2d conv_transpose3d addmm addbmm baddbmm addmv addcmul bilinear tensordot kron
    embedding_bag grouped_mm"""
)
"""Linear in each factor."""

QUOTIENTS = frozenset(("div", "divide", "true_divide", "truediv"))
CHOICES = frozenset(("where", "masked_fill"))

PIECEWISE = _names(
    """relu leaky_relu prelu rrelu abs absolute relu6 hardtanh clamp clip clamp_min clamp_max hardsigmoid threshold
    softshrink hardshrink"""
)
"""Piecewise-affine activations: held by their slope, so that the map is that of the tile."""

SMOOTH = _names(
    """gelu silu mish elu selu celu softplus logsigmoid softsign sigmoid tanh hardswish tanhshrink erf atan
    arctan"""
)
"""Smooth activations phi, held as phi(x) = phi(0) + x gate(x), gate(x) = (phi(x) - phi(0)) / x."""

CURVES = _names("sin cos exp expm1")
"""Smooth functions held as those are, whose zero is no fold."""

ACTIVATIONS = PIECEWISE | SMOOTH

_WRITTEN = _names(
    """add radd sub rsub neg mul rmul multiply div rdiv divide true_divide truediv pow rpow square sqrt rsqrt reciprocal
    log log1p"""
)
ELEMENTWISE = ACTIVATIONS | CURVES | _WRITTEN
"""What acts on each number by itself: of one value and plain numbers they make an activation, written out."""

SCALARS = frozenset(("item", "tolist", "numpy", "bool", "int", "index", "equal", "allclose", "array"))
"""What leaves torch: kept, so that the model takes the same way each time."""

READS = _names(
    """shape dtype device ndim is_leaf layout grad_fn is_cuda itemsize size dim numel len stride hash is_floating_point
    is_contiguous storage_offset data_ptr element_size nelement get_device is_complex format repr is_nested is_sparse
    names grad is_meta is_quantized is_mkldnn untyped_storage"""
)
"""Facts about a tensor that are not its values."""


@lru_cache(maxsize=4096)
def plain_name(func: Any) -> str:
    """ "add" for `add_` and `__iadd__`; a property's own name for its getter."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        name = getattr(func.__self__, "__name__", "")
    if name.startswith("__i") and name[3:-2] in {"add", "sub", "mul", "truediv", "div", "matmul"}:
        name = name[3:-2]
    elif name in {"__rsub__", "__rdiv__", "__rtruediv__"}:
        name = {"__rsub__": "sub", "__rdiv__": "rdiv", "__rtruediv__": "rdiv"}[name]
    return name.strip("_")


def writes(func: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call changes its first argument in place."""
    name = getattr(func, "__name__", "")
    in_place = name.endswith("_") and not name.startswith("__")
    return in_place or (name.startswith("__i") and name != "__index__") or bool(kwargs.get("inplace"))


def opened(func: Any) -> Callable[..., Any]:
    """A composite function of `torch.nn.functional` that lets each torch function it calls be seen.

    Such a function hands itself over as a whole first; its own code with that question answered "no" runs through.
    """
    closed = {name: (lambda *_: False) for name in func.__globals__ if name.startswith("has_torch_function")}
    body = types.FunctionType(
        func.__code__, {**func.__globals__, **closed}, func.__name__, func.__defaults__, func.__closure__
    )
    body.__kwdefaults__ = func.__kwdefaults__
    return body


def slope(func: Any, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """The derivative of an elementwise function at x."""
    with torch.enable_grad():
        z = x.detach().clone().requires_grad_()
        (result,) = torch.autograd.grad(func(z * 1, *args, **kwargs).sum(), z)
    return result


def gate(func: Any, name: str, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """(factor, offset) with func(x) = factor * x + offset, elementwise; see `PIECEWISE` and `SMOOTH`."""
    x = x.detach()
    if name in PIECEWISE:
        factor = slope(func, x, args, kwargs)
        return factor, func(x.clone(), *args, **kwargs) - factor * x
    zero = torch.zeros_like(x)
    offset = func(zero.clone(), *args, **kwargs)
    small = x.abs() < torch.finfo(x.dtype).tiny ** 0.5
    factor = (func(x.clone(), *args, **kwargs) - offset) / x.masked_fill(small, 1.0)
    if bool(small.any()):
        factor = torch.where(small, slope(func, zero, args, kwargs), factor)
    return factor, offset


def attention_weights(
    query: Tensor, key: Tensor, attn_mask: Tensor | None, is_causal: bool, scale: float | None
) -> Tensor:
    """`[..., queries, keys]`: what `scaled_dot_product_attention` weighs its values with."""
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return scores.softmax(-1).nan_to_num(0.0)  # a query that may see nothing gets nothing


def statistics(
    name: str, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[[Tensor], Tensor], Tensor, Tensor | None, Tensor | None]:
    """(centre, scale, weight, bias) of a norm at x: it is `centre(x) * scale * weight + bias`, centring linear.

    `scale` is the reciprocal standard deviation (root mean square for `rms_norm`).
    """
    given = dict(zip(_NORM_ARGUMENTS[name], args, strict=False)) | kwargs
    weight, bias = given.get("weight"), given.get("bias")
    if name in ("layer_norm", "rms_norm"):
        axes = tuple(range(-len(given["normalized_shape"]), 0))
        mean = name == "layer_norm"
        eps = given.get("eps", 1e-5 if mean else None)

        def centre(z: Tensor) -> Tensor:
            return z - z.mean(axes, keepdim=True) if mean else z

        square = centre(x).square().mean(axes, keepdim=True)
        return centre, (square + (torch.finfo(x.dtype).eps if eps is None else eps)).rsqrt(), weight, bias
    groups = given["num_groups"] if name == "group_norm" else x.shape[1]
    grouped = (x.shape[0], groups, -1)

    def centre_groups(z: Tensor) -> Tensor:
        rows = z.reshape(grouped)
        return (rows - rows.mean(2, keepdim=True)).reshape(z.shape)

    square = centre_groups(x).reshape(grouped).square().mean(2, keepdim=True)
    scale = (square + given.get("eps", 1e-5)).rsqrt().expand(x.reshape(grouped).shape).reshape(x.shape)
    per_channel = (-1, *(1,) * (x.dim() - 2))
    weight, bias = (None if p is None else p.reshape(per_channel) for p in (weight, bias))
    return centre_groups, scale, weight, bias


_NORM_ARGUMENTS = {
    "layer_norm": ("normalized_shape", "weight", "bias", "eps"),
    "rms_norm": ("normalized_shape", "weight", "eps"),
    "group_norm": ("num_groups", "weight", "bias", "eps"),
    "instance_norm": ("running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps"),
}
NORMS = frozenset(_NORM_ARGUMENTS)


def winners(name: str, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, int]:
    """(indices, number of axes they run over) of a max-pool's winners at x."""
    dims = int(name.removesuffix("_with_indices")[-2])
    kind = "adaptive_max_pool" if name.startswith("adaptive") else "max_pool"
    kwargs = {key: value for key, value in kwargs.items() if key != "return_indices"}
    names = ("output_size",) if kind.startswith("adaptive") else _POOL_ARGUMENTS
    given = dict(zip(names, args, strict=False)) | kwargs
    _, place = getattr(F, f"{kind}{dims}d_with_indices")(x, **given)
    return place, dims


_POOL_ARGUMENTS = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
POOLS = frozenset(
    f"{kind}max_pool{dims}d{ending}"
    for kind in ("", "adaptive_")
    for dims in (1, 2, 3)
    for ending in ("", "_with_indices")
)
EXTREMES = frozenset(("max", "min", "amax", "amin", "maximum", "minimum", "fmax", "fmin"))
SORTS = frozenset(("sort", "topk"))
