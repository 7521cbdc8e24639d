"""What all of this part shares about data and losses: checks, batches, and losses as sums over points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import as_rows, check_whole
from .._derivatives import first_line
from .._errors import InputError, UnsupportedModelError

Loss = str | Callable[[Tensor, Tensor], Tensor]
"""A name of `LOSSES`, or a function (outputs, targets) -> mean over the rows."""


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    """Sum over the points of the squared distance of output and target."""
    return (outputs - targets).square().sum()


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Sum over the points of the cross-entropy of the logits with class numbers."""
    return nn.functional.cross_entropy(outputs, targets, reduction="sum")


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"squared": squared, "cross_entropy": cross_entropy}


def summed(loss: Loss) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss as a sum over the rows of a batch, so that batches add up."""
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise InputError(f"loss must be one of {', '.join(map(repr, LOSSES))} or a function, got {loss!r}.")
        return LOSSES[loss]
    if not callable(loss):
        raise InputError(f"loss must be one of {', '.join(map(repr, LOSSES))} or a function, got {loss!r}.")
    mean = loss
    return lambda outputs, targets: mean(outputs, targets) * len(outputs)


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


def check_targets(loss: Loss, outputs: tuple[int, ...], targets: Tensor) -> Tensor:
    """Targets that fit the named loss and one output of the network of this shape."""
    if loss == "squared":
        if targets.shape[1:] != outputs:
            hint = "; for class numbers use torch.nn.functional.one_hot" if not targets.is_floating_point() else ""
            raise InputError(
                f"y must have the shape of the outputs for the squared error, (N, {', '.join(map(str, outputs))}), "
                f"got {tuple(targets.shape)}{hint}."
            )
        return targets if targets.is_floating_point() else targets.to(torch.float64)
    if loss == "cross_entropy":
        if targets.is_floating_point() or targets.dim() != 1:
            raise InputError(
                f"y must be class numbers of shape (N,) for the cross-entropy, got {targets.dtype} of shape "
                f"{tuple(targets.shape)}."
            )
        if len(outputs) != 1 or int(targets.min()) < 0 or int(targets.max()) >= outputs[0]:
            raise InputError(
                f"y must hold class numbers from 0 to {outputs[0] - 1 if outputs else 0}, got numbers from "
                f"{int(targets.min())} to {int(targets.max())} for outputs of shape {outputs}."
            )
    return targets


def batches(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The data, `size` points at a time."""
    for start in range(0, len(x), size):
        yield x[start : start + size], y[start : start + size]


def check_batch_size(batch_size: int | None, default: int) -> int:
    if batch_size is None:
        return default
    return check_whole(batch_size, "batch_size")
