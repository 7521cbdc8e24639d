"""How a function that is not affine is held at a point: its gate, attention weights, scale or winners."""

import math
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


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


def gate(func: Any, piecewise: bool, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """(factor, offset) with func(x) = factor * x + offset, elementwise.

    A piecewise-affine activation is held by its slope, so that the map is that of the tile; a smooth one, phi, as
    phi(0) + x gate(x) with gate(x) = (phi(x) - phi(0)) / x.
    """
    x = x.detach()
    if piecewise:
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
    """(center, scale, weight, bias) of a norm at x: it is `center(x) * scale * weight + bias`, centering linear.

    `scale` is the reciprocal standard deviation (root mean square for `rms_norm`).
    """
    given = dict(zip(_NORM_ARGUMENTS[name], args, strict=False)) | kwargs
    weight, bias = given.get("weight"), given.get("bias")
    if name in ("layer_norm", "rms_norm"):
        axes = tuple(range(-len(given["normalized_shape"]), 0))
        mean = name == "layer_norm"
        eps = given.get("eps", 1e-5 if mean else None)

        def center(z: Tensor) -> Tensor:
            return z - z.mean(axes, keepdim=True) if mean else z

        square = center(x).square().mean(axes, keepdim=True)
        return center, (square + (torch.finfo(x.dtype).eps if eps is None else eps)).rsqrt(), weight, bias
    groups = given["num_groups"] if name == "group_norm" else x.shape[1]
    grouped = (x.shape[0], groups, -1)

    def center_groups(z: Tensor) -> Tensor:
        rows = z.reshape(grouped)
        return (rows - rows.mean(2, keepdim=True)).reshape(z.shape)

    square = center_groups(x).reshape(grouped).square().mean(2, keepdim=True)
    scale = (square + given.get("eps", 1e-5)).rsqrt().expand(x.reshape(grouped).shape).reshape(x.shape)
    per_channel = (-1, *(1,) * (x.dim() - 2))
    weight, bias = (None if p is None else p.reshape(per_channel) for p in (weight, bias))
    return center_groups, scale, weight, bias


_NORM_ARGUMENTS = {
    "layer_norm": ("normalized_shape", "weight", "bias", "eps"),
    "rms_norm": ("normalized_shape", "weight", "eps"),
    "group_norm": ("num_groups", "weight", "bias", "eps"),
    "instance_norm": ("running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps"),
}


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
