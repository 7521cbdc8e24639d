"""A module that was traced before is not exported again.

What was read is kept beside the live module, weakly, and used again if nothing that can be seen of its structure has
changed and the module still does, on two rows, what was read: that shows what cannot be seen (a function it calls, a
number deep in an object). A module whose code asks for the batch size is tried on as many sizes as when it was read.
Parameters are no part of this: they are read anew for every program.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from .twin import OF_TORCH

if TYPE_CHECKING:
    from ._network import SplineNetwork

_READ: weakref.WeakKeyDictionary[nn.Module, tuple[Hashable, SplineNetwork]] = weakref.WeakKeyDictionary()


def traced_before(model: nn.Module, batch: Tensor, output: Any, read: Callable[[], SplineNetwork]) -> SplineNetwork:
    """The network of a module, from before if it still holds, else as `read` makes it."""
    key = (tuple(batch.shape[1:]), batch.dtype, batch.device, output, structure(model))
    known = _READ.get(model)
    if known is not None and known[0] == key:
        network = known[1].attached(model)
        if network.agrees(batch):
            _READ[model] = key, network.attached(None)  # with the program of today's parameters
            return network
    network = read()
    _READ[model] = key, network.attached(None)
    return network


def structure(model: nn.Module) -> Hashable:
    """All that can be seen of a module but the values of its tensors: types, modes, attributes, shapes, hooks."""
    parts: list[Hashable] = []
    for path, module in model.named_modules(remove_duplicate=False):
        attributes = tuple((name, _seen(value)) for name, value in vars(module).items() if name not in OF_TORCH)
        tensors = tuple(
            (name, _seen(value)) for table in (module._parameters, module._buffers) for name, value in table.items()
        )
        hooks = tuple(_seen(table) for table in (module._forward_hooks, module._forward_pre_hooks))
        parts.append((path, type(module), type(module).forward, module.training, attributes, tensors, hooks))
    return tuple(parts)


def _seen(value: Any, depth: int = 3) -> Hashable:
    """What of an attribute can be told apart: plain values by themselves, tensors by kind, objects by identity."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype, value.device
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        return type(value), repr(value)  # 1, True and 1.0 are equal, 0.0 and -0.0 too, and NaN is not even to itself
    if isinstance(value, (list, tuple, set, frozenset)) and depth:
        return type(value), tuple(_seen(each, depth - 1) for each in value)
    if isinstance(value, dict) and depth:
        return type(value), tuple((_seen(key, 0), _seen(each, depth - 1)) for key, each in value.items())
    return type(value), id(value)
