"""Takes off the squashing function a generator ends in (tanh, sigmoid...), as it runs, without touching the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_SQUASHING: frozenset[Any] = frozenset(
    {
        torch.tanh,
        torch.sigmoid,
        torch.softmax,
        torch.special.expit,
        torch.nn.functional.tanh,
        torch.nn.functional.sigmoid,
        torch.nn.functional.softmax,
        torch.nn.functional.log_softmax,
        torch.log_softmax,
        Tensor.tanh,
        Tensor.sigmoid,
        Tensor.softmax,
        Tensor.log_softmax,
    }
)
_RESHAPING: frozenset[Any] = frozenset(
    {
        torch.reshape,
        torch.flatten,
        torch.unflatten,
        torch.squeeze,
        torch.unsqueeze,
        torch.permute,
        torch.transpose,
        Tensor.reshape,
        Tensor.view,
        Tensor.flatten,
        Tensor.unflatten,
        Tensor.squeeze,
        Tensor.unsqueeze,
        Tensor.permute,
        Tensor.transpose,
        Tensor.contiguous,
    }
)


class _Watch(TorchFunctionMode):
    """Remembers the last squashing call as (its input, its output), carried through reshapes."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Tensor | None = None
        self.after: Any = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        keywords = kwargs or {}
        value = args[0] if args else keywords.get("input")
        if func in _SQUASHING:
            self.before, self.after = value, func(*args, **keywords)
            return self.after
        result = func(*args, **keywords)
        if func in _RESHAPING and value is self.after and self.before is not None:
            self.before, self.after = func(self.before, *args[1:], **keywords), result
        return result


def before_ending(function: Callable[..., Tensor]) -> Callable[..., Tensor | None]:
    """`function`, returning what went into its last squashing call; None where it does not end in one.

    Works on plain tensors and under `torch.func` transforms alike: the calls are watched at the Python level, so
    a functional `torch.sigmoid` in `forward` is found as well as an `nn.Sigmoid`.
    """

    def run(*args: Any) -> Tensor | None:
        with _Watch() as watch:
            result = function(*args)
        return watch.before if watch.after is result else None

    return run
