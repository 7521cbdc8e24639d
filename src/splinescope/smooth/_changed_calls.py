"""A model run with some of its calls changed: without casts to float32, or with functions replaced by others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from ..network.ops.python_names import FACTS, plain_name, writes
from ..network.watching.intercept import Functions

_FOLLOWS = "_splinescope_follows"
_CASTS = frozenset(("to", "float", "type", "type_as"))


def follow(x: Tensor) -> Tensor:
    """Declare a tensor to be the input; what is made of it keeps its precision."""
    setattr(x, _FOLLOWS, True)
    return x


class Uncast(Functions):
    """Leaves casts from float64 to float32 out where a value depends on the input; `count` tells how many.

    Norms and attention of `transformers` compute in float32 whatever the model's dtype is, which rounds a model of
    float64. Constants and casts to half precision stay as the model makes them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        if not any(getattr(leaf, _FOLLOWS, False) for leaf in given):
            return func(*args, **kwargs)
        name = plain_name(func)
        if name in FACTS:
            return func(*args, **kwargs)
        fine = any(leaf.dtype == torch.float64 and getattr(leaf, _FOLLOWS, False) for leaf in given)
        if fine and kwargs.get("dtype") == torch.float32:  # of softmax, sum, to
            kwargs = {**kwargs, "dtype": torch.float64}
            self.count += 1
        if fine and name in _CASTS and given[0] is args[0]:
            asked = func(args[0].detach().new_empty(0), *args[1:], **kwargs)
            if isinstance(asked, Tensor) and asked.dtype == torch.float32:
                self.count += 1
                return follow(args[0].to(asked.device).clone())
        result = func(*args, **kwargs)
        for leaf in tree_flatten(result)[0]:
            if isinstance(leaf, Tensor):
                follow(leaf)
        if (writes(func, kwargs) or name == "setitem") and isinstance(args[0], Tensor):
            follow(args[0])
        return result


class Replacing(Functions):
    """Calls of some functions of one tensor become another's; `count` tells how many did."""

    def __init__(self, new: Callable[[Tensor], Tensor], names: frozenset[str]) -> None:
        super().__init__()
        self._new, self._names = new, names
        self.count = 0

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if plain_name(func) not in self._names:
            return func(*args, **kwargs)
        self.count += 1
        x = args[0] if args else kwargs["input"]
        if writes(func, kwargs):  # what gradients need must not be overwritten
            return x.copy_(self._new(x.clone()))
        return self._new(x)
