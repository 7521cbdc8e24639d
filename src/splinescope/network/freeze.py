"""Layer, group, instance and RMS norms with their statistics held fixed, hence affine."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from splinescope.support.checks import as_rows
from splinescope.support.errors import InputError

from .readable import unwrap
from .watching.intercept import Hooked
from .watching.undisturbed import copied

Norm = nn.LayerNorm | nn.GroupNorm | nn.RMSNorm | nn.modules.instancenorm._InstanceNorm


class FrozenNorm(nn.Module):
    """`(x - mean) / sqrt(variance + eps) * weight + bias` with constants mean and variance."""

    mean: Tensor
    variance: Tensor

    def __init__(self, norm: Norm, mean: Tensor, variance: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight, getattr(norm, "bias", None)
        self.eps = norm.eps if norm.eps is not None else torch.finfo(mean.dtype).eps
        self.per_channel = not isinstance(norm, (nn.LayerNorm, nn.RMSNorm))
        self.register_buffer("mean", mean)
        self.register_buffer("variance", variance)

    def forward(self, x: Tensor) -> Tensor:
        y = (x - self.mean) / torch.sqrt(self.variance + self.eps)
        shape = (-1,) + (1,) * (x.dim() - 2) if self.per_channel else None
        for parameter, combine in ((self.weight, torch.mul), (self.bias, torch.add)):
            if parameter is not None:
                y = combine(y, parameter if shape is None else parameter.reshape(shape))
        return y


def freeze_statistics(model: nn.Module, x: Any) -> nn.Module:
    """A copy of `model` whose LayerNorm, GroupNorm, InstanceNorm and RMSNorm use fixed statistics.

    Each such norm keeps the mean and variance it computes on the rows of `x`, averaged over the rows, so it becomes
    affine and the copy can be traced. For one row x, the copy agrees with the model at x; elsewhere it is an estimate.

    Args:
        model: Any module; it is left as it is.
        x: A batch `[N, ...]` of inputs.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.LayerNorm(8), torch.nn.ReLU())
        >>> x = torch.ones(1, 2)
        >>> torch.allclose(freeze_statistics(model, x)(x), model(x))
        True
    """
    rows = as_rows(x, "x")
    frozen = copied(unwrap(model))
    kinds = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.instancenorm._InstanceNorm)
    norms = {path: norm for path, norm in frozen.named_modules() if isinstance(norm, kinds)}
    measured: dict[str, tuple[Tensor, Tensor]] = {}

    def watch(path: str) -> Any:
        def hook(norm: Any, inputs: tuple[Tensor, ...]) -> None:
            if path in measured:
                raise InputError(
                    f"{path} is used more than once in a forward pass: its statistics differ from use to use."
                )
            measured[path] = statistics(norm, inputs[0])

        return hook

    with torch.no_grad(), Hooked(before=[(norm, watch(path)) for path, norm in norms.items()]):
        frozen(rows)
    for path, (mean, variance) in measured.items():
        parent, _, name = path.rpartition(".")
        replacement = FrozenNorm(norms[path], mean, variance).train(norms[path].training)
        if path == "":
            return replacement
        setattr(frozen.get_submodule(parent), name, replacement)
    return frozen


def statistics(norm: Norm, x: Tensor) -> tuple[Tensor, Tensor]:
    """The norm's own mean and variance, averaged over the rows of `x`, in a shape that broadcasts to one row."""
    if isinstance(norm, (nn.LayerNorm, nn.RMSNorm)):
        axes = tuple(range(-len(norm.normalized_shape), 0))
        if isinstance(norm, nn.RMSNorm):
            square = x.square().mean(axes, keepdim=True).mean(0)
            return torch.zeros_like(square), square
        return x.mean(axes, keepdim=True).mean(0), x.var(axes, correction=0, keepdim=True).mean(0)
    if isinstance(norm, nn.modules.instancenorm._InstanceNorm) and norm.running_mean is not None and not norm.training:
        shape = (-1,) + (1,) * (x.dim() - 2)
        return norm.running_mean.reshape(shape).clone(), norm.running_var.reshape(shape).clone()  # type: ignore[union-attr]
    groups = norm.num_groups if isinstance(norm, nn.GroupNorm) else x.shape[1]
    grouped = x.reshape(x.shape[0], groups, -1)
    per_channel = (x.shape[1], *(1,) * (x.dim() - 2))
    repeats = x.shape[1] // groups

    def spread(value: Tensor) -> Tensor:
        return value.mean(0).repeat_interleave(repeats).reshape(per_channel)

    return spread(grouped.mean(2)), spread(grouped.var(2, correction=0))
