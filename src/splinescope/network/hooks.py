"""Forward hooks of the user's: none is called, since it may keep or log what it sees; those that matter are named."""

from __future__ import annotations

import dis
import re
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from torch import nn
from torch.nn.modules import module

from .twin import built_in

_RETURN_NOTHING = {"append", "appendleft", "extend", "update", "write", "info", "debug"}  # and no method of tensors

_OF_ALL = module._global_forward_hooks, module._global_forward_pre_hooks  # torch has no public name for them


class HookWarning(UserWarning):
    """A forward hook may change what a module returns, and is not called."""


def warn_of_hooks(model: nn.Module) -> None:
    """Name the hooks that may change what a model does: what is computed is the model without them."""
    places = [
        path or "the model"
        for path, part in model.named_modules()
        for hooks in (part._forward_hooks, part._forward_pre_hooks)
        if any(_may_change(hook) for key, hook in hooks.items() if key not in built_in(hooks))
    ]
    if any(_may_change(hook) for hooks in _OF_ALL for hook in hooks.values()):
        places.append("all modules")
    if places:
        warnings.warn(
            f"Forward hooks are not called, and those of {', '.join(dict.fromkeys(places))} may return something else "
            "than their module does: what is computed is the model without them. If they are part of it, write them "
            "into forward; if they only watch, let them return None.",
            HookWarning,
            stacklevel=3,
        )


@contextmanager
def hooks_of_all_detached() -> Iterator[None]:
    """Without the hooks that were registered for all modules."""
    kept = [dict(hooks) for hooks in _OF_ALL]
    try:
        for hooks in _OF_ALL:
            hooks.clear()
        yield
    finally:
        for hooks, before in zip(_OF_ALL, kept, strict=True):
            hooks.update(before)


def _may_change(hook: Any) -> bool:
    """Whether a hook may return something, or write into what it is given.

    Not if all it returns is None, or what `list.append` and the like return, and it calls no method in place (`add_`).
    """
    function = getattr(hook, "__func__", hook)
    if str(getattr(function, "__module__", "")).startswith("torch."):  # exported modules check their input by one
        return False
    if not isinstance(function, types.FunctionType):
        return True
    steps = list(dis.Bytecode(function))
    called: set[str] = set()  # names of attributes in the present statement
    for before, step in pairwise(steps):
        if step.opname == "RETURN_CONST" and step.argval is not None:
            return True
        if step.opname == "RETURN_VALUE":
            # what is jumped to has more than one value: `y if a else None`
            nothing = before.opname == "LOAD_CONST" and before.argval is None and not step.is_jump_target
            if not nothing and not (before.opname.startswith("CALL") and called & _RETURN_NOTHING):
                return True
        if step.opname in ("LOAD_METHOD", "LOAD_ATTR"):
            called.add(str(step.argval))
            if re.search(r"[^_]_$", str(step.argval)):
                return True
        elif step.opname.startswith(("POP_TOP", "STORE_", "RETURN_")):
            called.clear()
    return False
