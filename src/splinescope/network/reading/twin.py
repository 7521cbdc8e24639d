"""A copy of a module that can be run and exported in its stead: the user's own never notices."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from splinescope.support.threads import ALONE

from ..watching.undisturbed import built_in, hook_tables, hooks_detached


@contextlib.contextmanager
def exportable(model: nn.Module, *, share_buffers: bool = True) -> Iterator[nn.Module]:
    """A structural copy of `model` that shares its tensors (its parameters, if not its buffers) and has no user hooks.

    A model that cannot be copied is exported itself, its hooks taken off and put back.
    """
    memo: dict[int, Any] = {}
    for module in model.modules():
        others = [*module._buffers.values(), *vars(module).values()] if share_buffers else []
        for tensor in [*module._parameters.values(), *others]:
            if isinstance(tensor, Tensor):
                memo[id(tensor)] = tensor
        for hooks in hook_tables(module).values():
            memo[id(hooks)] = built_in(hooks)
    try:
        twin = copied(model, memo)
    except Exception:  # anything an attribute's own __deepcopy__ may raise
        with hooks_detached(model):
            yield model
    else:
        yield twin


def copied(model: nn.Module, memo: dict[int, Any] | None = None) -> Any:
    """A deep copy, without torch's own warnings of what exported modules carry."""
    with ALONE, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return copy.deepcopy(model, memo)
