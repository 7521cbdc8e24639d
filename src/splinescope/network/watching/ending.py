"""Takes off the squashing function a generator ends in (tanh, sigmoid...), as it runs, without touching the module."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ..ops import operation
from ..ops.python_names import plain_name, writes
from .intercept import Functions


class _Watch(Functions):
    """Remembers the last squashing call as (its input, its output), carried through reshapes."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Tensor | None = None
        self.after: Any = None

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value = args[0] if args else kwargs.get("input")
        known, result = operation(plain_name(func)), func(*args, **kwargs)
        if writes(func, kwargs):  # what went in is gone
            return result
        if known.squashes:
            self.before, self.after = value, result
        elif known.role == "shape" and self.before is not None and value is self.after and _as_many(result, value):
            self.before, self.after = func(self.before, *args[1:], **kwargs), result
        return result


def _as_many(result: Any, value: Tensor) -> bool:
    """Whether the result is one tensor of as many numbers: none was dropped or repeated."""
    return isinstance(result, Tensor) and result.numel() == value.numel()


def before_ending(function: Callable[..., Tensor]) -> Callable[..., Tensor | None]:
    """`function`, returning what went into its last squashing call; None where it does not end in one."""

    def run(*args: Any) -> Tensor | None:
        with _Watch() as watch:
            result = function(*args)
        return watch.before if watch.after is result else None

    return run
