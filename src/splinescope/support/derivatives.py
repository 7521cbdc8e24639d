"""Derivatives of functions of batches whose rows do not see each other: columns, transposes and whole Jacobians.

`function` takes `[N, *in]` to `[N, ...]`; the Jacobian of a row is `[m, n]`, m and n the numbers of one output
and one input. A forward-mode pass with a tangent in every row gives a column of every row's Jacobian, a reverse pass
a row of each.
"""

import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap

from .errors import InputError
from .threads import ALONE, SharedSetting

_TOGETHER = 32  # vectors that go through together


@cache
def load_forward_mode() -> None:
    """torch builds its forward-mode rules on first use, with a warning about its own use of torch.jit."""
    with ALONE, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("torch._decomp.decompositions_for_jvp")


@contextmanager
def differentiating(what: str, runs: Callable[[], Any]) -> Iterator[None]:
    """Where networks are differentiated: plain kernels, and torch's refusals as one sentence about `what`.

    Whether an error is about derivatives is found out by trying: `runs` computes what is differentiated, as it is. If
    that fails, its own error is the one that is seen; so is any other than torch's two kinds, and a lack of memory.
    """
    with plain_kernels():
        try:
            yield
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except (NotImplementedError, RuntimeError) as error:
            with torch.no_grad():
                runs()
            raise InputError(f"{what} runs, but could not be differentiated: {first_line(error)}") from error


@contextmanager
def _plain_kernels() -> Iterator[None]:
    """Attention by its plain kernel while it lasts.

    torch's fast kernels of attention (and of whole transformer layers) have no forward mode and no second derivatives;
    the plain ones compute the same function.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


plain_kernels = SharedSetting(_plain_kernels)


def first_line(error: Exception) -> str:
    """What an error says, without its pages."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def along(function: Callable[[Any], Any], at: Any, tangent: Any) -> tuple[Any, Any]:
    """Value of a function of tensors (or of dicts of them) and its derivative along a tangent; forward mode."""
    load_forward_mode()
    with ALONE:  # torch has one level of tangents for the whole process
        value, slope = jvp(function, (at,), (tangent,))[:2]
    return value, slope


def columns(function: Callable[[Tensor], Tensor], at: Tensor, tangents: Tensor) -> Tensor:
    """`[N, b, m]` derivatives of each row's flat outputs along tangents `[b, N or 1, *in]`, forward mode."""
    shaped = tangents.expand(-1, len(at), *tangents.shape[2:])
    with torch.no_grad():
        return vmap(lambda tangent: along(lambda x: function(x).flatten(1), at, tangent)[1], out_dims=1)(shaped)


def pull_back(function: Callable[[Tensor], Tensor], at: Tensor) -> Callable[[Tensor], Tensor]:
    """The function from `u` `[N, b, m]` to `J^T u` `[N, b, n]`, reverse mode."""
    transpose = vjp(lambda x: function(x).flatten(1), at)[1]
    return lambda u: vmap(lambda row: transpose(row)[0], in_dims=1, out_dims=1)(u).flatten(2)


def row_jacobians(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """`[N, m, n]` Jacobian of each row of the output by the same row of the input.

    One reverse pass of all rows per output number, or one forward pass per input number where these are fewer.
    """
    values, backward, *_ = vjp(lambda rows: function(rows).flatten(1), at)
    outputs, inputs = values.shape[1], at[0].numel()
    if inputs < outputs:
        units = torch.eye(inputs, dtype=at.dtype, device=at.device).reshape(inputs, 1, *at.shape[1:])
        parts = [columns(function, at, part) for part in units.split(_TOGETHER)]
        return torch.cat(parts, 1).mT.detach()
    units = torch.eye(outputs, dtype=values.dtype, device=values.device)
    slopes = vmap(lambda unit: backward(unit.expand(values.shape))[0], chunk_size=_TOGETHER)(units)
    return slopes.flatten(2).transpose(0, 1).detach()
