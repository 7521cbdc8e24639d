"""Torch functions and methods as a forward pass calls them, where an exported graph has other ops or none is known."""

import functools
from typing import Any

import torch

from .registry import untraced

untraced(
    *("moveaxis", "swapaxes", "swapdims", "t", "T", "H", "mH", "expand_as", "hsplit", "vsplit", "dsplit"),
    *("getitem", "take_along_dim", "fliplr", "flipud", "type", "float", "double", "half", "bfloat16", "cpu", "cuda"),
    *("alias", "view_as", "reshape_as", "broadcast_to", "ravel", "real", "imag", "view_as_complex", "view_as_real"),
    "requires_grad",
    role="shape",
)
untraced(
    *("concatenate", "vstack", "column_stack", "nansum", "interpolate", "upsample", "diff", "trace"),
    *("diag", "diag_embed", "block_diag", "fold"),
    *("fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_fft2", "fft_ifft2", "fft_rfft2", "fft_irfft2"),
    *("fft_fftn", "fft_ifftn"),
    role="sum",
)
untraced("setitem", "scatter_add", "masked_select", "masked_scatter", role="placed")
untraced(*("rmatmul", "dot", "inner", "outer", "vdot", "kron", "embedding_bag", "grouped_mm"), role="product")
untraced("addbmm", role="added product")
untraced("radd", role="sum", elementwise=True)
untraced("rmul", role="product", elementwise=True)
untraced("truediv", role="quotient", elementwise=True)
untraced("rdiv", "rpow", kind="refused", elementwise=True)
untraced("empty_like", "new_empty", "new_tensor", kind="constant", role="made")

FACTS = frozenset({
    *("shape", "size", "dim", "ndim", "ndimension", "numel", "nelement", "len", "itemsize", "element_size"),
    *("dtype", "device", "get_device", "layout", "stride", "storage_offset", "data_ptr", "untyped_storage"),
    *("is_leaf", "is_cuda", "is_contiguous", "is_floating_point", "is_complex", "is_nested", "is_sparse", "is_meta"),
    *("is_quantized", "is_mkldnn", "grad", "grad_fn", "names", "hash", "format", "repr"),
})  # fmt: skip
"""What a tensor tells about itself, which is no operation on its values."""

SCALARS = frozenset(("item", "tolist", "numpy", "bool", "int", "index", "equal", "allclose", "array"))
"""What leaves torch: kept, so that the model takes the same way each time."""


def function_name(func: Any) -> str:
    """What a torch function or method is called; an overload of ATen, which exported modules call, without suffix."""
    name: str = getattr(func, "__name__", "")
    return name.partition(".")[0] if isinstance(func, torch._ops.OpOverload) else name


@functools.lru_cache(maxsize=4096)
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
