"""The one place where a forward pass is intercepted: calls of torch functions, of ATen ops and of modules.

Everything here acts on the thread that entered it and is gone when its context ends.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from threading import get_ident
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

Hook = Callable[..., Any]


class Functions(TorchFunctionMode):
    """While it lasts, `call` runs in place of every torch function and method; in it, `with self:` intercepts again."""

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of `func(*args, **kwargs)`, or what shall take its place."""
        return func(*args, **kwargs)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.call(func, args, kwargs or {})


class Operators(TorchDispatchMode):
    """While it lasts, `call` runs in place of every ATen op, inside composite functions too."""

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of `func(*args, **kwargs)`, or what shall take its place."""
        return func(*args, **kwargs)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.call(func, args, kwargs or {})


def in_this_thread(hook: Hook) -> Hook:
    """The hook, which does nothing in other threads: they may run the same model meanwhile."""
    thread = get_ident()
    return lambda *args, **kwargs: hook(*args, **kwargs) if get_ident() == thread else None


class Hooked(ExitStack):
    """Hooks on modules in this thread, until the end of the context.

    Args:
        before: (module, hook(module, args)) to be called before the module; what it returns replaces the arguments.
        after: (module, hook(module, args, result)) to be called after it; what it returns replaces the result.
        with_kwargs: Hand hooks the keyword arguments too, after `args`.
    """

    def __init__(
        self, before: Iterable[tuple[nn.Module, Hook]] = (), after: Iterable[tuple[nn.Module, Hook]] = (), *,
        with_kwargs: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        for module, hook in before:
            self.callback(module.register_forward_pre_hook(in_this_thread(hook), with_kwargs=with_kwargs).remove)
        for module, hook in after:
            self.callback(module.register_forward_hook(in_this_thread(hook), with_kwargs=with_kwargs).remove)
