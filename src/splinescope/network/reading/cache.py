"""A module that was traced before is not exported again while it does the same.

Whatever decides on what a module does (an attribute, a closure, a global, an object of any kind) shows in the list of
its operations on three rows: which, with which numbers, on which tensors. Parameters and buffers are named in it by
their paths; `network.network` sees when their values change. A module whose code asks for the batch size is read anew
every time.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from ..watching.intercept import Operators
from ..watching.undisturbed import exportable, state_kept

if TYPE_CHECKING:
    from ..network import SplineNetwork

_READ: weakref.WeakKeyDictionary[nn.Module, tuple[Hashable, SplineNetwork]] = weakref.WeakKeyDictionary()
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def traced_before(
    model: nn.Module, options: Hashable, does: Hashable | None, read: Callable[[], SplineNetwork]
) -> SplineNetwork:
    """The network of a module, from before if options and what it does are the same; read anew if that is unknown."""
    known = _READ.pop(model, None)
    asked = options, does
    network = known[1].attached(model) if known is not None and known[0] == asked else read()
    network.program()  # of today's parameters, for the next time
    if does is not None and not network.asks_for_rows:
        _READ[model] = asked, network.attached(None)
    return network


def what_it_does(model: nn.Module, batch: Tensor) -> Hashable | None:
    """Every operation of a module on three rows like those of a batch; None if it does not run, or not when watched."""
    plain = tuple(
        (path, name, repr(value))
        for path, module in model.named_modules(remove_duplicate=False)
        for name, value in vars(module).items()
        if isinstance(value, _PLAIN)
    )
    x = torch.zeros(3, *batch.shape[1:], dtype=batch.dtype, device=batch.device)
    with state_kept(x.device), exportable(model, share_buffers=False) as twin, torch.no_grad():
        calls = _Calls([("input", x), *_tensors(twin), *_tensors(model)])
        try:
            with calls:
                twin(x)
        except Exception:  # the user's own code: reading it anew says what is wrong
            return None
    return plain, tuple(calls.made)


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from ((f".{path}", tensor) for path, tensor in (*model.named_parameters(), *model.named_buffers()))


class _Calls(Operators):
    """Notes every operation with all that it is given; `made` is the list."""

    def __init__(self, tensors: Iterable[tuple[str, Tensor]]) -> None:
        super().__init__()
        self.made: list[Hashable] = []
        self._names = WeakTensorKeyDictionary()  # weak: values of a large network are let go as it runs
        for path, tensor in tensors:
            self._names[tensor] = path, tensor.shape, tensor.dtype, tensor.device

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.made.append((func, self._key(args), self._key(kwargs)))
        result = func(*args, **kwargs)
        for place, each in enumerate(result if isinstance(result, (list, tuple)) else [result]):
            if isinstance(each, Tensor) and each not in self._names:
                self._names[each] = len(self.made), place
        return result

    def _key(self, value: Any) -> Hashable:
        if isinstance(value, Tensor):
            if value not in self._names:  # made by no operation: known by its numbers
                self._names[value] = len(self.made), _contents(value)
            return self._names[value]
        if isinstance(value, (list, tuple)):
            return tuple(self._key(each) for each in value)
        if isinstance(value, dict):
            return tuple((key, self._key(each)) for key, each in value.items())
        return type(value), repr(value)  # 1, True and 1.0 are equal, 0.0 and -0.0 too, and NaN is not even to itself


def _contents(value: Tensor) -> Hashable:
    if value.layout != torch.strided or value.device.type == "meta":
        return object()  # like no other: what cannot be looked through is read anew
    with torch.utils._python_dispatch._disable_current_modes():
        numbers = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return value.shape, value.dtype, hashlib.sha256(numbers.tobytes()).digest()
