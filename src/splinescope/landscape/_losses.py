"""What all of this part shares about data and losses: checks, batches, and losses as sums over points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import check_whole
from .._errors import InputError, UnsupportedModelError
from ..network._export import check_mode

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


def check_model(model: object) -> nn.Module:
    """The module, refused where its layers are random or mix rows: in training mode, or without running statistics."""
    if not isinstance(model, nn.Module):
        raise InputError(f"model must be a torch.nn.Module, got {type(model).__name__}.")
    check_mode(model)
    for path, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:
            raise UnsupportedModelError(
                f"{path or 'the model'} normalises by the statistics of the batch, so its rows are mixed: give it "
                "running statistics (track_running_stats=True)."
            )
    return model


def check_data(x: Any, y: Any, dtype: torch.dtype, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Inputs `[N, ...]` and targets `[N, ...]` as tensors; class numbers stay whole numbers."""
    inputs, targets = torch.as_tensor(x).detach(), torch.as_tensor(y).detach()
    if inputs.dim() == 0 or len(inputs) == 0:
        raise InputError(f"x must hold at least one point, shape (N, ...), got shape {tuple(inputs.shape)}.")
    if targets.dim() == 0 or len(targets) != len(inputs):
        raise InputError(f"y must have one row per point of x, shape ({len(inputs)}, ...), got {tuple(targets.shape)}.")
    for name, tensor in (("x", inputs), ("y", targets)):
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            bad = int((~tensor.isfinite()).sum())
            raise InputError(f"{name} must be finite, got {bad} NaN or infinite values.")
    targets = targets.to(device, dtype) if targets.is_floating_point() else targets.to(device)
    return inputs.to(device, dtype), targets


def output_shape(model: Callable[[Tensor], Tensor], x: Tensor) -> tuple[int, ...]:
    """Shape of one output, by running the first point of `x` `[N, ...]`, which must fit."""
    try:
        with torch.no_grad():
            return tuple(model(x[:1]).shape[1:])
    except (RuntimeError, ValueError, IndexError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"x must hold points that the model takes, got points of shape {tuple(x.shape[1:])}: {reason}"
        ) from error


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


def along(function: Callable[[Any], Any], at: Any, tangent: Any) -> tuple[Any, Any]:
    """Value of a function and its derivative along a tangent, by forward-mode differentiation."""
    result = torch.func.jvp(function, (at,), (tangent,))
    return result[0], result[1]
