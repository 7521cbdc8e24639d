"""Watching a model's forward pass: which functions it calls, in which module, and what they do to its input."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from ..network.bend import Given, function_name, makes_steps, reading
from ..network.registry import Operation, operation


@contextlib.contextmanager
def uncompiled(model: nn.Module) -> Iterator[None]:
    """Run compiled submodules as they were written, or their functions could not be seen."""
    if not any(isinstance(getattr(module, "_orig_mod", None), nn.Module) for module in model.modules()):
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


class Watch(TorchFunctionMode):
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

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
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


@contextlib.contextmanager
def constant(model: nn.Module) -> Iterator[None]:
    """No gradients by parameters while it lasts: what has a gradient depends on the input."""
    moving = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in moving:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in moving:
            parameter.requires_grad_(True)


class Steps(TorchFunctionMode):
    """Notices a call on values that depend on the input (have gradients) which rounds them or jumps."""

    def __init__(self, precision: torch.dtype) -> None:
        super().__init__()
        self.precision, self.seen = precision, False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        live = any(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
        self.seen = self.seen or (live and makes_steps(func, result, self.precision))
        return result


@contextlib.contextmanager
def module_paths(model: nn.Module) -> Iterator[list[str]]:
    """A stack of the paths of the modules being run, the innermost last.

    A module that has several paths has the one by which it is called, as in what `trace` reads.
    """
    names = {id(module): path for path, module in model.named_modules()}
    running: list[nn.Module] = []
    stack: list[str] = []

    def enter(module: nn.Module, args: Any) -> None:
        path = names.get(id(module), stack[-1] if stack else "")
        if running:
            children = running[-1]._modules.items()
            local = next((name for name, child in children if child is module), None)
            path = path if local is None else f"{stack[-1]}.{local}".lstrip(".")
        running.append(module)
        stack.append(path)

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        running.pop()
        stack.pop()

    handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()
