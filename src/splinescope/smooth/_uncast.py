"""`Uncast`: a model of float64 run in float64 throughout, although its own code casts to float32 on the way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten

from . import _functions as table

_FOLLOWS = "_splinescope_follows"
_CASTS = frozenset(("to", "float", "type", "type_as"))


def follow(x: Tensor) -> Tensor:
    """Declare a tensor to be the input; what is made of it keeps its precision."""
    setattr(x, _FOLLOWS, True)
    return x


class Uncast(TorchFunctionMode):
    """Leaves casts from float64 to float32 out where a value depends on the input.

    Norms and attention of `transformers` compute in float32 whatever the model's dtype is: a guard against half
    precision, which rounds a model of float64. Constants (rotary angles) are left as the model makes them, and so are
    casts to half precision, which a model has on purpose.

    Attributes:
        count: How many casts were left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        if not any(getattr(leaf, _FOLLOWS, False) for leaf in given):
            return func(*args, **kwargs)
        name = table.plain_name(func)
        if name in table.READS:
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
        if (table.writes(func, kwargs) or name == "setitem") and isinstance(args[0], Tensor):
            follow(args[0])
        return result
