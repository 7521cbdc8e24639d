"""A module that was traced before is not exported again.

What was read is kept beside the live module, weakly, and used again if nothing of its structure has changed and the
module still does, on a few rows, what was read. Parameters are no part of this: they are read anew for every program.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

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
            return network
    network = read()
    _READ[model] = key, network.attached(None)
    return network


def structure(model: nn.Module) -> Hashable:
    """All that can be seen of a module but the values of its tensors: types, modes, plain attributes, shapes."""
    parts: list[Hashable] = []
    for path, module in model.named_modules(remove_duplicate=False):
        plain = tuple((name, value) for name, value in vars(module).items() if isinstance(value, _PLAIN))
        tensors = tuple(
            (name, value if value is None else (value.shape, value.dtype, value.device))
            for table in (module._parameters, module._buffers)
            for name, value in table.items()
        )
        hooks = tuple(len(table) for table in (module._forward_hooks, module._forward_pre_hooks))
        parts.append((path, type(module), id(vars(module).get("forward")), repr(plain), tensors, hooks))
    return tuple(parts)


_PLAIN = (bool, int, float, complex, str, bytes, tuple, list, type(None))
