"""Watching a model's forward pass: which functions it calls, in which module, and what they do to its input."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from ..ops import operation
from ..ops.bend import Given, is_coarser
from ..ops.composed import written_out
from ..ops.python_names import function_name
from ..ops.registry import Operation
from .intercept import Functions


class Watch(Functions):
    """Reports every call that bends before it runs (it may be in place) and, if asked, its result after.

    `see` may return the call's result, where it has computed it on the way. `hides` is told the names of calls that
    run a whole recurrent layer, whose activations do not show.
    """

    def __init__(
        self,
        see: Callable[[Operation, Given], Any],
        saw: Callable[[Any], None] | None = None,
        hides: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self._see = see
        self._saw = saw
        self._hides = hides

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        written = written_out(func, args, kwargs)
        if written is not None:
            with self:  # its parts are watched
                return written()
        found = reading(func, args, kwargs)
        if found is None:
            if self._hides is not None and operation(function_name(func)).kind == "recurrent":
                self._hides(function_name(func))
            return func(*args, **kwargs)
        result = self._see(*found)
        if result is None:
            result = func(*args, **kwargs)
        if self._saw is not None:
            self._saw(result)
        return result


class Composed(Functions):
    """Runs functions that are made of others (sorting, norms) as what they are made of."""

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        written = written_out(func, args, kwargs)
        return func(*args, **kwargs) if written is None else written()


def reading(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Operation, Given] | None:
    """What the table knows of a call of a torch function or method, if it bends; None if nothing bends there."""
    name = function_name(func)
    first = args[0] if args else kwargs.get("input")
    if not isinstance(first, Tensor) or not first.is_floating_point() or first.dim() == 0:
        return None
    second = args[1] if len(args) > 1 else kwargs.get("other")
    two = name in ("max", "min") and isinstance(second, Tensor)
    found = operation(f"{name}imum" if two else name.removesuffix("_with_indices"))
    return None if found.bend is None else (found, Given(name, found.name, args, kwargs))


@contextlib.contextmanager
def without_weight_gradients(model: nn.Module) -> Iterator[None]:
    """No gradients by parameters while it lasts: what has a gradient depends on the input."""
    moving = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in moving:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in moving:
            parameter.requires_grad_(True)


class RoundsOrJumps(Functions):
    """Notices a call on values that depend on the input (have gradients) which rounds them or jumps."""

    def __init__(self, precision: torch.dtype) -> None:
        super().__init__()
        self.precision, self.seen = precision, False

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        live = any(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
        rounds = isinstance(result, Tensor) and is_coarser(result.dtype, self.precision)
        self.seen = self.seen or (live and (rounds or operation(function_name(func)).kind == "jump"))
        return result


@contextlib.contextmanager
def module_paths(model: nn.Module) -> Iterator[list[str]]:
    """A stack of the paths of the modules that this thread runs, by which they are called, the innermost last."""
    names = {id(module): path for path, module in model.named_modules()}
    running: list[nn.Module] = []
    stack: list[str] = []
    here = threading.get_ident()

    def enter(module: nn.Module, args: Any) -> None:
        if threading.get_ident() != here:  # a hook of all modules is called by other threads too
            return
        path = names.get(id(module), stack[-1] if stack else "")
        if running:
            children = running[-1]._modules.items()
            local = next((name for name, child in children if child is module), None)
            path = path if local is None else f"{stack[-1]}.{local}".lstrip(".")
        running.append(module)
        stack.append(path)

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        if threading.get_ident() == here:
            running.pop()
            stack.pop()

    handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()
