"""Runs a model with some of its functions replaced, wherever and however they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..complexity.watch import module_paths
from . import _functions as table


class Replacing(TorchFunctionMode):
    """Calls of some functions of one tensor become another's; `count` tells how many did."""

    def __init__(
        self, new: Callable[[Tensor, str], Tensor], names: frozenset[str], model: nn.Module, *, by_path: bool
    ) -> None:
        super().__init__()
        self._new, self._names, self._model, self._by_path = new, names, model, by_path
        self._paths: list[str] = []
        self.count = 0

    def __enter__(self) -> Replacing:
        if self._by_path:
            self._watch = module_paths(self._model)
            self._paths = self._watch.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if self._by_path:
            self._watch.__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if table.plain_name(func) not in self._names:
            return func(*args, **kwargs)
        self.count += 1
        x = args[0] if args else kwargs["input"]
        path = self._paths[-1] if self._paths else ""
        if table.writes(func, kwargs):  # what gradients need must not be overwritten
            return x.copy_(self._new(x.clone(), path))
        return self._new(x, path)
