"""A module that was traced before is not exported again.

What was read is kept beside the live module, weakly, and used again if nothing that can be seen of it has changed (its
structure, its attributes, the code of its methods and the globals that this uses) and the module still does, on random
rows and on rows of the inputs at hand, what was read: that shows what cannot be seen. A module whose code asks for the
batch size is tried on as many sizes as when it was read. Parameters and buffers are no part of this: they are read anew
for every program.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from .twin import OF_TORCH

if TYPE_CHECKING:
    from ._network import SplineNetwork

_READ: weakref.WeakKeyDictionary[nn.Module, tuple[Hashable, SplineNetwork]] = weakref.WeakKeyDictionary()
_DEPTH = 8  # of containers and objects within each other; what is deeper is told apart by identity
_MOST_NUMBERS = 1 << 20  # of a tensor whose contents are compared
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


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
    """All that can be seen of a module but the values of its parameters and buffers."""
    code, parts = _Code(model), []
    looked = _Looked(code.names)
    for path, module in model.named_modules(remove_duplicate=False):
        attributes = tuple((name, looked.at(value)) for name, value in vars(module).items() if name not in OF_TORCH)
        tensors = tuple(
            (name, None if value is None else (value.shape, value.dtype, value.device))
            for table in (module._parameters, module._buffers)
            for name, value in table.items()
        )
        hooks = tuple(looked.at(dict(table)) for table in (module._forward_hooks, module._forward_pre_hooks))
        kind = type(module)
        parts.append((path, kind, kind.forward, module.training, attributes, tensors, hooks))
    written = tuple((function.__code__, looked.at(function.__defaults__)) for function in code.functions)
    return tuple(parts), written, tuple(looked.at(value) for value in code.values)


class _Code:
    """The Python that a forward pass may run, as far as names tell: from `forward` of every class that is not torch's.

    Attributes:
        functions: Those methods and functions.
        names: All names of attributes and globals in them.
        values: What they close over, and the globals that they name, functions aside.
    """

    def __init__(self, model: nn.Module) -> None:
        self.functions: list[types.FunctionType] = []
        self.names: set[str] = set()
        self.values: list[Any] = []
        kinds = dict.fromkeys(each for module in model.modules() for each in type(module).__mro__ if _is_own(each))
        self._methods = [vars(kind) for kind in kinds]
        for forward in (vars(each).get("forward") for each in (*model.modules(), *kinds)):
            self._follow(forward)

    def _follow(self, called: Any) -> None:
        function = getattr(called, "fget", None) or getattr(called, "__func__", called)  # of a property, of a method
        if not isinstance(function, types.FunctionType) or not _is_own(function) or function in self.functions:
            return
        self.functions.append(function)
        self.values += [cell.cell_contents for cell in function.__closure__ or () if cell != _EMPTY]
        for name in {name for code in _codes(function.__code__) for name in code.co_names}:
            self.names.add(name)
            for table in self._methods:
                self._follow(table.get(name))
            value = function.__globals__.get(name)
            if isinstance(value, types.FunctionType):
                self._follow(value)
            elif value is not None:
                self.values.append(value)


def _is_own(written: Any) -> bool:
    """Whether a class or function is not one of torch or of Python."""
    return not str(written.__module__).startswith(("torch.", "builtins"))


class _Looked:
    """What was seen of values in one go: each is looked at once, however many modules share it.

    Of an object, the attributes whose names the code has: a trainer that a module knows is not looked through.
    """

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self._seen: dict[int, Hashable] = {}

    def at(self, value: Any, depth: int = _DEPTH) -> Hashable:
        """What of a value can be told apart: by contents where it has any that can be read, else by identity."""
        if isinstance(value, _PLAIN):
            return type(value), repr(
                value
            )  # 1, True and 1.0 are equal, 0.0 and -0.0 too, and NaN is not even to itself
        if isinstance(value, (Tensor, np.ndarray)):
            return _contents(value)
        if isinstance(value, (type, types.ModuleType, nn.Module)) or depth == 0:
            return type(value), id(value)
        if id(value) not in self._seen:
            self._seen[id(value)] = type(value), id(value)  # if it holds itself
            self._seen[id(value)] = type(value), self._inside(value, depth - 1)
        return self._seen[id(value)]

    def _inside(self, value: Any, depth: int) -> Hashable:
        if isinstance(value, (list, tuple, set, frozenset)):
            return tuple(self.at(each, depth) for each in value)
        if isinstance(value, dict):
            return tuple((self.at(key, depth), self.at(each, depth)) for key, each in value.items())
        inside = getattr(value, "__dict__", None)
        if isinstance(inside, dict) and not isinstance(value, (types.FunctionType, types.MethodType)):
            used = ((name, self.at(inside[name], depth)) for name in inside if name in self._names)
            return id(value), tuple(used)
        return id(value)


_EMPTY = types.CellType()


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of a function and of those written inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _contents(value: Tensor | np.ndarray) -> Hashable:
    """A tensor that is no parameter: by its numbers, unless they are very many or not at hand."""
    if isinstance(value, np.ndarray):
        held = value.tobytes() if value.size <= _MOST_NUMBERS and value.dtype != object else id(value)
        return value.shape, value.dtype, held
    about = type(value), value.shape, value.dtype, value.device
    if value.layout != torch.strided or value.device.type == "meta" or value.numel() > _MOST_NUMBERS:
        return about, id(value), value._version
    numbers = value.detach().cpu().reshape(-1).contiguous()
    return about, numbers.view(torch.uint8).numpy().tobytes() if numbers.numel() else b""
