"""Whose parameters move: models and networks read from files alike, and which parameters an argument means."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..network import SplineNetwork
from ..network.files.onnx import OnnxNetwork
from ..network.module import module_of
from ..network.outputs import Picked
from ..network.readable import check_mode
from ..support.errors import InputError, UnsupportedModelError, did_you_mean

Model = nn.Module | SplineNetwork
"""What every function here takes: a module, or what `trace` and `load` make."""

Layers = str | Sequence[str] | None
"""A module path ("layer1.0.conv1"), parameter paths, or None for all parameters."""


def check_model(model: object) -> nn.Module:
    """The module, refused where its layers are random or mix rows: in training mode, or without running statistics."""
    whole = module_of(model)
    check_mode(whole)
    for path, module in whole.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:
            raise UnsupportedModelError(
                f"{path or 'the model'} normalizes by the statistics of the batch, so its rows are mixed: give it "
                "running statistics (track_running_stats=True)."
            )
    return whole


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """Floating-point parameters by path; of a network read from a file, its constants but those that prepare inputs."""
    named: dict[str, Tensor] = {path: p for path, p in model.named_parameters() if p.is_floating_point()}
    whole = model.whole if isinstance(model, Picked) else model
    if not named and isinstance(whole, OnnxNetwork):
        named = {path: whole.get_buffer(path) for path in whole.trained()}
    return named or {path: b for path, b in model.named_buffers() if b.is_floating_point()}


def precision_of(model: nn.Module) -> torch.dtype:
    """The dtype of the parameters; float32 of a model without any."""
    return next((p.dtype for p in parameters_of(model).values()), torch.float32)


def device_of(model: nn.Module) -> torch.device:
    """Where the parameters are."""
    return next((p.device for p in parameters_of(model).values()), torch.device("cpu"))


def submodule(model: nn.Module, path: str) -> nn.Module:
    """A module by path; an error lists the possible ones."""
    modules = dict(model.named_modules())
    if not isinstance(path, str) or path not in modules:
        near = did_you_mean(path, [*filter(None, modules), *parameters_of(model)])
        raise InputError(f"layer must be a module path ({', '.join(filter(None, modules))}), got {path!r}{near}")
    return modules[path]


def chosen_parameters(model: nn.Module, layer: Layers) -> list[str]:
    """Paths of the parameters a layer argument means, in the model's order."""
    names = list(parameters_of(model))
    if layer is None:
        chosen = names
    elif isinstance(layer, str) and layer not in names:
        submodule(model, layer)
        chosen = [name for name in names if layer == "" or name.startswith(f"{layer}.")]  # "" is the model itself
    else:
        wanted = [layer] if isinstance(layer, str) else list(layer)
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise InputError(f"layer must name parameters, got {unknown[0]!r}; there are: {', '.join(names)}.")
        chosen = [name for name in names if name in wanted]
    if not chosen:
        has = f"; parameters are: {', '.join(names)}" if names and layer is not None else ""
        raise InputError(f"layer must have parameters, got {layer!r}, which has none{has}.")
    return chosen


def state_in(model: nn.Module, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Parameters and buffers by path, copied to a dtype; whole-number buffers as they are."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {k: v.detach().to(dtype, copy=True) if v.is_floating_point() else v.clone() for k, v in state.items()}
