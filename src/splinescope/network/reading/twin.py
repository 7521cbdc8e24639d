"""A copy of a module that can be run and exported in its stead: the user's own never notices."""

from __future__ import annotations

import contextlib
import copy
import functools
import types
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from splinescope.support.threads import ALONE

from ..watching.undisturbed import built_in, hook_tables, hooks_detached


@contextlib.contextmanager
def exportable(model: nn.Module, *, share_buffers: bool = True) -> Iterator[nn.Module]:
    """A structural copy of `model` that shares its tensors (its parameters, if not its buffers) and has no user hooks.

    A model that cannot be copied is exported itself, its hooks taken off and put back.
    """
    light = _light_copy(model, share_buffers)
    if light is not None:
        yield light
        return
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


def _light_copy(model: nn.Module, share_buffers: bool) -> nn.Module | None:
    """A copy as deep as it must be, in a fifth of `copy.deepcopy`'s time; None if an attribute may be written into.

    Modules and their tables are new, so that what a forward pass sets stays in the copy; numbers, words and the like
    cannot be written into, and lists and dicts of those are copied.
    """
    twins: dict[int, nn.Module] = {}
    tensors: dict[int, Tensor] = {}

    def own(tensor: Tensor | None) -> Tensor | None:
        if tensor is None or share_buffers:
            return tensor
        return tensors.setdefault(id(tensor), tensor.detach().clone())

    modules = list(model.modules())
    for module in modules:
        if not _copied_plainly(type(module)):  # type: ignore[arg-type]
            return None
        attributes = dict(vars(module))
        for name, value in attributes.items():
            if name in _TABLES:
                attributes[name] = value.copy()
            elif name not in OF_TORCH and not isinstance(value, _ATOMS):
                if type(value) not in (list, tuple, dict) or not all(isinstance(v, _ATOMS) for v in _inside(value)):
                    return None
                attributes[name] = value if type(value) is tuple else value.copy()
        attributes["_buffers"] = {name: own(buffer) for name, buffer in module._buffers.items()}
        attributes.update({name: built_in(hooks) for name, hooks in hook_tables(module).items()})
        twin = object.__new__(type(module))
        vars(twin).update(attributes)
        twins[id(module)] = twin
    for module in modules:
        children = twins[id(module)]._modules
        children.update({name: twins[id(child)] for name, child in children.items() if child is not None})
    return twins[id(model)]


@functools.cache
def _copied_plainly(kind: Any) -> bool:
    """Whether instances are their attributes and nothing else: no way of copying of their own, no slots."""
    own = [each for each in kind.__mro__[:-1] if not each.__module__.startswith("torch.nn.modules.")]
    names = {"__copy__", "__deepcopy__", "__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__slots__"}
    return not any(names & vars(each).keys() for each in own)


def _inside(value: Any) -> list[Any]:
    return [*value, *value.values()] if isinstance(value, dict) else list(value)


OF_TORCH = frozenset(vars(nn.Module()))
_TABLES = frozenset({"_parameters", "_modules", "_non_persistent_buffers_set"})
_ATOMS = (
    *(bool, int, float, complex, str, bytes, type(None), type, torch.dtype, torch.device, torch.Size),
    *(types.FunctionType, types.BuiltinFunctionType),
)
