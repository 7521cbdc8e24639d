"""Weights of linear maps and convolutions by output and by input channel, whatever their layout."""

from typing import Any

import torch
from torch import Tensor, nn

TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def output_channels(module: Any) -> int:
    return int(module.out_features if isinstance(module, nn.Linear) else module.out_channels)


def input_channels(module: Any) -> int:
    return int(module.in_features if isinstance(module, nn.Linear) else module.in_channels)


def channel_axis(module: Any, output: Tensor) -> int:
    """The axis of a module's output that holds its channels."""
    return output.dim() - 1 if isinstance(module, nn.Linear) else 1


def channel_rows(module: Any, output: Tensor) -> Tensor:
    """`[n, channels]` a module's output, one column per number of its bias."""
    if isinstance(module, nn.LayerNorm):
        return output.reshape(-1, module.weight.numel())
    axis = channel_axis(module, output)
    return output.movedim(axis, -1).reshape(-1, output.shape[axis])


def _by_group(module: Any) -> tuple[Tensor, int, int]:
    """A view `[groups, ...]` of the weight, and the axes of output and input channels in it."""
    weight = module.weight
    groups = getattr(module, "groups", 1)
    view = weight.view(groups, weight.shape[0] // groups, *weight.shape[1:])
    return (view, 2, 1) if isinstance(module, TRANSPOSED) else (view, 1, 2)


def _along(values: Tensor, view: Tensor, axis: int) -> Tensor:
    """One value per channel, shaped to multiply the grouped weight along an axis."""
    shape = [1] * view.dim()
    shape[0], shape[axis] = view.shape[0], view.shape[axis]
    return values.to(view.dtype).reshape(shape)


@torch.no_grad()
def scale_outputs_(module: Any, scale: Tensor) -> None:
    """Multiply what the module computes, weight and bias, by one number per output channel."""
    if isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)):
        view, outputs, _ = _by_group(module)
        view.mul_(_along(scale, view, outputs))
    else:  # a norm: its weight has one number per channel
        module.weight.mul_(scale.to(module.weight.dtype).reshape(module.weight.shape))
    if module.bias is not None:
        module.bias.mul_(scale.to(module.bias.dtype).reshape(module.bias.shape))


@torch.no_grad()
def scale_inputs_(module: Any, scale: Tensor) -> None:
    """Multiply what the module sees by one number per input channel."""
    view, _, inputs = _by_group(module)
    view.mul_(_along(scale, view, inputs))


@torch.no_grad()
def input_weight_sums(module: Any, shift: Tensor) -> Tensor:
    """`[out]` change of the output when each input channel is shifted by a constant, everywhere (no padding)."""
    view, outputs, inputs = _by_group(module)
    shifted = view.double() * _along(shift, view, inputs).double()
    kept = {0, outputs}
    return shifted.sum([axis for axis in range(view.dim()) if axis not in kept]).reshape(-1)


@torch.no_grad()
def add_to_bias_(module: Any, shift: Tensor) -> None:
    """Add to the bias, making one if there is none."""
    if module.bias is None:
        module.bias = nn.Parameter(torch.zeros(output_channels(module)).to(module.weight))
    module.bias.add_(shift.to(module.bias.dtype).reshape(module.bias.shape))
