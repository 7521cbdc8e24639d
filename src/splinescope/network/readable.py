"""The module that is meant, and whether it can be read: its mode, its kind, its statistics, an example for it."""

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ..support.checks import as_rows, check_module
from ..support.errors import InputError, UnsupportedModelError
from .program import Program, Smooth

T = TypeVar("T")


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside DataParallel, DistributedDataParallel and torch.compile wrappers."""
    check_module(model, read=False)
    while True:
        if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), nn.Module):
            model = model._orig_mod  # type: ignore[assignment]
        else:
            return model


def floating_like(model: nn.Module, otherwise: T) -> Tensor | T:
    """A tensor of the dtype and on the device that a model computes in; `otherwise` for one without any."""
    return next((t for t in [*model.parameters(), *model.buffers()] if t.is_floating_point()), otherwise)


def as_batch(model: nn.Module, example: Any) -> Tensor:
    """`example` as a batch of at least two rows in the dtype and on the device of the model."""
    if isinstance(example, (tuple, dict)):
        raise InputError(
            f"example must be one batch (tensor or array), got a {type(example).__name__}: only models of one "
            "input can be traced; wrap the model in a module that fixes its other inputs."
        )
    batch = as_rows(example, "example")
    if not batch.is_floating_point():
        raise InputError(
            f"example must hold floating-point numbers, got {batch.dtype}: a network of integer or complex inputs "
            "has no tiles; trace the part after its embedding."
        )
    if batch.dim() == 0 or batch.shape[0] == 0:
        raise InputError(f"example must be a batch of at least one row, got shape {tuple(batch.shape)}.")
    # of a model without numbers of its own: as given, but numpy's float64 is nobody's choice
    like = floating_like(model, torch.empty(0) if isinstance(example, np.ndarray) else batch)
    if like.device.type == "meta":
        raise UnsupportedModelError("The model has shapes but no numbers (device 'meta'): load its weights first.")
    return (batch if len(batch) > 1 else batch[[0, 0]]).to(dtype=like.dtype, device=like.device)


def check_statistics(model: nn.Module) -> None:
    """Refuse batch norms that keep no statistics: they take those of the batch in evaluation mode too."""
    norms = [(path, m) for path, m in model.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if names := _named([(path, norm) for path, norm in norms if norm.running_mean is None]):
        raise UnsupportedModelError(
            f"These layers keep no running statistics, so a row's answer depends on its batch: {names}. Make them "
            "with track_running_stats=True."
        )


def _named(layers: list[tuple[str, nn.Module]]) -> str:
    return ", ".join(f"{path or 'it'} ({type(module).__name__})" for path, module in layers)


def check_mode(model: nn.Module) -> None:
    """Refuse layers that act differently in training, naming all of them."""
    moving = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd, nn.RReLU)
    trained = [(path, m) for path, m in model.named_modules() if m.training and isinstance(m, moving)]
    if names := _named([(path, m) for path, m in trained if getattr(m, "p", 1.0) > 0]):
        raise UnsupportedModelError(
            "These layers are in training mode, where they mix the rows of a batch or are random, so the network "
            f"is not piecewise affine: {names}. Call model.eval() first."
        )
    check_readable(model)
    lazy = [path for path, p in model.named_parameters() if isinstance(p, nn.UninitializedParameter)]
    if lazy:
        raise UnsupportedModelError(f"Parameters not initialized yet: {', '.join(lazy)}. Run the model once first.")


def check_readable(model: nn.Module, *, scripted: bool = False, quantized: bool = False) -> None:
    """Refuse scripted and quantized models (but those allowed) by what they are, naming their outermost such parts."""
    allowed = {reason for reason, allow in ((SCRIPTED, scripted), (QUANTIZED, quantized)) if allow}
    modules = dict(model.named_modules())
    found = {path: hidden(module) for path, module in modules.items()}
    unreadable = {path: reason for path, reason in found.items() if reason is not None and reason not in allowed}
    outer = [path for path in unreadable if not path or path.rpartition(".")[0] not in unreadable]
    if outer:
        reasons = dict.fromkeys(unreadable[path] for path in outer)
        parts = [f"{_named([(p, modules[p]) for p in outer if unreadable[p] == why])} {why}" for why in reasons]
        raise UnsupportedModelError(f"The model cannot be read: {'; '.join(parts)}.")


SCRIPTED = "is a ScriptModule, which hides its operations: give the torch.nn.Module that it was made from"
QUANTIZED = "is quantized: it rounds, so its output is made of steps, not of affine pieces; give the float model"


def hidden(module: nn.Module) -> str | None:
    """Why nothing of a module can be read, for the kinds of which torch shows too little."""
    if isinstance(module, torch.jit.ScriptModule):
        return SCRIPTED
    if "quantized" in type(module).__module__ and type(module).__module__.startswith("torch."):
        return QUANTIZED
    return None


def check_exact(program: Program, instead: str) -> Program:
    """The program itself; one with smooth steps is refused, and `instead` says what takes it."""
    if soft := [step.site for step in program.steps if isinstance(step, Smooth)]:
        where = ", ".join(f"{site.path or 'model'} ({site.op})" for site in soft[:5])
        raise UnsupportedModelError(f"The network's smooth activations have no exact tiles: {where}. {instead}")
    return program
