"""What all of this part shares about data: checks, batches; the losses themselves are in `support.losses`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ..support.checks import as_rows, check_whole
from ..support.derivatives import first_line
from ..support.errors import InputError, UnsupportedModelError
from ..support.losses import Mean

Loss = str | Mean
"""A name of the package's losses, or a function (outputs, targets) -> mean over the rows."""


def check_data(
    x: Any, y: Any, dtype: torch.dtype, device: torch.device | str = "cpu", *, whole: bool = False
) -> tuple[Tensor, Tensor]:
    """Inputs `[N, ...]` and targets `[N, ...]` as tensors; class numbers stay whole numbers.

    Whole-number inputs become floats unless `whole`: see `fitting_inputs`.
    """
    inputs, targets = as_rows(x, "x"), as_rows(y, "y")
    if inputs.dim() == 0 or len(inputs) == 0:
        raise InputError(f"x must hold at least one point, shape (N, ...), got shape {tuple(inputs.shape)}.")
    if targets.dim() == 0 or len(targets) != len(inputs):
        raise InputError(f"y must have one row per point of x, shape ({len(inputs)}, ...), got {tuple(targets.shape)}.")
    for name, tensor in (("x", inputs), ("y", targets)):
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            bad = int((~tensor.isfinite()).sum())
            raise InputError(f"{name} must be finite, got {bad} NaN or infinite values.")
    targets = targets.to(device, dtype) if targets.is_floating_point() else targets.to(device)
    return inputs.to(device) if whole and not inputs.is_floating_point() else inputs.to(device, dtype), targets


def fitting_inputs(model: Callable[[Tensor], Tensor], x: Tensor, dtype: torch.dtype) -> tuple[Tensor, tuple[int, ...]]:
    """`x` as the model takes it, and the shape of one output, by running the first point.

    Whole numbers stay whole where the model takes them so (token ids); a model that does not (pixels as bytes into a
    convolution) gets floats.
    """
    if not x.is_floating_point():
        try:
            return x, _shape(model, x)
        except InputError as whole:
            try:
                return x.to(dtype), _shape(model, x.to(dtype))
            except InputError as floats:
                raise InputError(f"as whole numbers: {whole} As floats: {floats}") from floats
    return x, _shape(model, x)


def _shape(model: Callable[[Tensor], Tensor], x: Tensor) -> tuple[int, ...]:
    try:
        with torch.no_grad():
            result = model(x[:1])
    except UnsupportedModelError:
        raise  # it runs, and which of its outputs is meant is not known
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise InputError(
            f"x must hold points that the model takes, got {x.dtype} points of shape {tuple(x.shape[1:])}: "
            f"{first_line(error)}"
        ) from error
    if not isinstance(result, Tensor) or result.dim() == 0 or len(result) != 1:
        got = f"shape {tuple(result.shape)} for one point" if isinstance(result, Tensor) else type(result).__name__
        raise InputError(f"the model must return a tensor with a row per point, got {got}.")
    return tuple(result.shape[1:])


def batches(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The data, `size` points at a time."""
    for start in range(0, len(x), size):
        yield x[start : start + size], y[start : start + size]


def check_batch_size(batch_size: int | None, default: int) -> int:
    if batch_size is None:
        return default
    return check_whole(batch_size, "batch_size")
