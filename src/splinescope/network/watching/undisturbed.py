"""A model, or a copy, runs and nobody notices: no hook of the user's is called (a warning names them); states stay."""

from __future__ import annotations

import contextlib
import copy
import random
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as of_torch

from ...support.evaluating import evaluating
from ...support.threads import ALONE
from ..readable import floating_like

_OF_ALL = of_torch._global_forward_hooks, of_torch._global_forward_pre_hooks  # torch has no public name for them


class HookWarning(UserWarning):
    """A model has forward hooks, which may change what it returns and are not called."""


def warn_of_hooks(model: nn.Module) -> None:
    """Name the modules whose hooks are left out: what is computed is the model without them."""
    places = [
        path or "the model"
        for path, part in model.named_modules()
        for hooks in (part._forward_hooks, part._forward_pre_hooks)
        if any(map(_of_user, hooks.values()))
    ]
    if any(_of_user(hook) for hooks in _OF_ALL for hook in hooks.values()):
        places.append("all modules")
    if places:
        warnings.warn(
            f"Forward hooks are not called, those of {', '.join(dict.fromkeys(places))}: what is computed is the model "
            "without them. If they change what it returns, write them into forward.",
            HookWarning,
            stacklevel=3,
        )


def _of_user(hook: Any) -> bool:
    """Whether a hook is neither torch's (`spectral_norm`, the check of inputs of exported modules) nor ours."""
    return not str(hook.__module__).startswith(("torch.", "splinescope."))


def hook_tables(module: nn.Module) -> dict[str, dict[int, Any]]:
    """The hook dictionaries of a module that run in forward or backward."""
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {name: vars(module)[name] for name in names if vars(module).get(name)}


def built_in(hooks: dict[int, Any]) -> OrderedDict[int, Any]:
    """Those hooks that torch.nn.utils itself placed (weight_norm, spectral_norm, prune): part of the function."""
    return OrderedDict((key, hook) for key, hook in hooks.items() if type(hook).__module__.startswith("torch.nn.utils"))


@contextlib.contextmanager
def hooks_detached(model: nn.Module) -> Iterator[None]:
    """Take the user's hooks off while the context lasts; no other model is read or watched meanwhile."""
    with ALONE:
        taken = [(module, name, hooks) for module in model.modules() for name, hooks in hook_tables(module).items()]
        try:
            for module, name, hooks in taken:
                vars(module)[name] = built_in(hooks)
            yield
        finally:
            for module, name, hooks in taken:
                vars(module)[name] = hooks


@contextlib.contextmanager
def exportable(model: nn.Module, *, share_buffers: bool = True) -> Iterator[nn.Module]:
    """A structural copy of `model` that shares its tensors (its parameters, if not its buffers) and has no user hooks.

    A model that cannot be copied is exported itself, its hooks taken off and put back.
    """
    memo: dict[int, Any] = {}
    for module in model.modules():
        others = [*module._buffers.values(), *vars(module).values()] if share_buffers else []
        for tensor in [*module._parameters.values(), *others]:
            if isinstance(tensor, Tensor):
                memo[id(tensor)] = tensor
        for hooks in hook_tables(module).values():
            memo[id(hooks)] = built_in(hooks)
    try:
        twin = copied(model, memo)
    except Exception:  # anything an attribute's own __deepcopy__ may raise
        with hooks_detached(model):
            yield model
    else:
        yield twin


def copied(model: nn.Module, memo: dict[int, Any] | None = None) -> Any:
    """A deep copy, without torch's own warnings of what exported modules carry."""
    with ALONE, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return copy.deepcopy(model, memo)


@contextlib.contextmanager
def state_kept(device: torch.device) -> Iterator[None]:
    """Random states and warning filters stay; hooks of all modules, which meet torch's own too, are not called."""
    with ALONE:
        python, kept = random.getstate(), [dict(hooks) for hooks in _OF_ALL]
        numpy = np.random.get_state()  # noqa: NPY002  (the state a model's own code may draw from)
        devices = [device] if device.type == "cuda" else []
        try:
            for hooks in _OF_ALL:
                hooks.clear()
            with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002
            for hooks, before in zip(_OF_ALL, kept, strict=True):
                hooks.update(before)


@contextlib.contextmanager
def as_written(model: nn.Module) -> Iterator[None]:
    """The model as its code says: the user's hooks off, compiled parts uncompiled, or their calls could not be seen."""
    compiled = any(isinstance(getattr(module, "_orig_mod", None), nn.Module) for module in model.modules())
    with hooks_detached(model), torch.compiler.set_stance("force_eager") if compiled else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Where a model runs in evaluation mode and nobody notices: no user's hook, no gradient, random states kept."""
    like = floating_like(model, torch.empty(0))
    with as_written(model), evaluating(model), state_kept(like.device), torch.inference_mode(False), torch.no_grad():
        yield
