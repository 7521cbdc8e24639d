"""What merging does to the architecture and to the optimizer's groups: norms go, biases come."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from splinescope.normalization._weights import output_channels
from splinescope.normalization.merge_copy import ScaleShift, _replace
from splinescope.support.errors import InputError


@dataclass(frozen=True)
class Structure:
    """What a merged network has in other places than the one with norms.

    Attributes:
        norms: Path of each batch norm, and whether a `ScaleShift` is left in its place; else an identity is.
        biases: Paths of the layers that had none and have one now.
    """

    norms: Mapping[str, bool]
    biases: tuple[str, ...]


def structure_of(model: nn.Module, merged: nn.Module) -> Structure:
    """What was exchanged between a model and its merged copy."""
    norms = [path for path, module in model.named_modules() if isinstance(module, _BatchNorm)]
    left = {path: isinstance(merged.get_submodule(path), ScaleShift) for path in norms}
    made = [
        path
        for path, module in model.named_modules()
        if path not in left and "bias" in module._parameters and module._parameters["bias"] is None
        if merged.get_submodule(path)._parameters["bias"] is not None
    ]
    return Structure(left, tuple(made))


@torch.no_grad()
def restructure_(model: nn.Module, structure: Structure, optimizer: Optimizer | None) -> None:
    """Bring a model with norms into the merged architecture; new parameters are zero, and stand where they will.

    What is new is trained if what it comes from was: it joins that one's group, or none.
    """
    modules = dict(model.named_modules())
    wrong = [path for path in structure.norms if not isinstance(modules.get(path), _BatchNorm)]
    wrong += [path for path in structure.biases if getattr(modules.get(path), "bias", True) is not None]
    if wrong:
        raise InputError(
            "model must be built as the one whose norms were merged was before: with a batch norm at each of "
            f"{', '.join(structure.norms)} and no bias yet at {', '.join(structure.biases) or 'none'}; got another at "
            f"{', '.join(wrong)}."
        )
    for path in structure.biases:
        layer: Any = model.get_submodule(path)
        weight = layer.get_parameter("weight")
        layer.bias = nn.Parameter(weight.new_zeros(output_channels(layer)), requires_grad=weight.requires_grad)
        _join(optimizer, layer.bias, f"{path}.bias", beside=weight)
    for path, scaled in structure.norms.items():
        norm: Any = model.get_submodule(path)
        affine = norm.weight is not None
        replacement: nn.Module = nn.Identity()
        if scaled:
            like = norm.weight if affine else norm.running_mean
            replacement = ScaleShift(like.new_zeros(norm.num_features), like.new_zeros(norm.num_features))
            for name, source in (("scale", norm.weight), ("shift", norm.bias if affine else None)):
                parameter = replacement.get_parameter(name)
                parameter.requires_grad_(source is not None and source.requires_grad)
                _join(optimizer, parameter, f"{path}.{name}", beside=source)
        _leave(optimizer, list(norm.parameters()))
        _replace(model, path, replacement)


def _join(optimizer: Optimizer | None, parameter: nn.Parameter, name: str, beside: nn.Parameter | None) -> None:
    """A new parameter into the group of the one it comes from, if it is to be trained and that one is in a group."""
    if optimizer is None or beside is None or not parameter.requires_grad:
        return
    for group in optimizer.param_groups:
        if any(p is beside for p in group["params"]):
            group["params"].append(parameter)
            if "param_names" in group:
                group["param_names"].append(name)
            return


def _leave(optimizer: Optimizer | None, parameters: list[nn.Parameter]) -> None:
    if optimizer is None:
        return
    gone = {id(p) for p in parameters}
    for group in optimizer.param_groups:
        stays = [id(p) not in gone for p in group["params"]]
        for key in ("params", "param_names"):
            if key in group:
                group[key] = [value for value, kept in zip(group[key], stays, strict=True) if kept]
    for parameter in parameters:
        optimizer.state.pop(parameter, None)


def holds_any(optimizer: Optimizer, model: nn.Module) -> bool:
    """Whether an optimizer trains any parameter of a model."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return any(id(p) in held for p in model.parameters())


def check_optimizer(optimizer: Any, model: nn.Module) -> None:
    """Refuse what does not train the model."""
    if not isinstance(optimizer, Optimizer):
        raise InputError(
            f"optimizer must be the torch optimizer that trains the model, got {type(optimizer).__name__}."
        )
    if not holds_any(optimizer, model):
        raise InputError(
            "optimizer must be the one that trains the model, got one that holds none of its parameters (an averaged "
            "copy follows the trained model: merge that one, and the copy by merge_batchnorm_(copy, x=x) in that step)."
        )


@contextlib.contextmanager
def put_back_on_error(model: nn.Module, optimizer: Optimizer | None) -> Iterator[None]:
    """Modules, parameters, statistics and the optimizer's groups and memory come back if what is inside fails."""
    tables = ("_modules", "_parameters", "_buffers")
    modules = [(m, {t: dict(getattr(m, t)) for t in tables}) for m in model.modules()]
    tracked = [(m, m.track_running_stats) for m in model.modules() if isinstance(m, _BatchNorm)]
    values = [(p, p.detach().clone()) for p in model.parameters()]
    param_groups = [] if optimizer is None else optimizer.param_groups
    lists = {"params", "param_names"}
    groups = [(group, {key: list(group[key]) for key in lists & group.keys()}) for group in param_groups]
    state = {} if optimizer is None else dict(optimizer.state)
    try:
        yield
    except BaseException:
        for module, held in modules:
            for name, table in held.items():
                getattr(module, name).clear()
                getattr(module, name).update(table)
        for norm, flag in tracked:
            norm.track_running_stats = flag
        with torch.no_grad():
            for parameter, value in values:
                parameter.copy_(value)
        for group, held_lists in groups:
            group.update(held_lists)
        if optimizer is not None:
            optimizer.state.clear()
            optimizer.state.update(state)
        raise
