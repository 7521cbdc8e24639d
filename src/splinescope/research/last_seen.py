"""The first rows of what a model was last called with in training, whatever its arguments are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from ..network.watching.intercept import Hooked
from ..network.watching.module_graph import Run
from ..normalization.merge_in_place import ROWS


class LastSeen:
    """A hook that keeps a few rows of the last batch; a copied or saved model has one that keeps nothing."""

    def __init__(self, model: nn.Module) -> None:
        self._given: tuple[Any, Any] | None = None
        self._handle: Any = Hooked(before=[(model, self._keep)], with_kwargs=True)

    def __getstate__(self) -> dict[str, Any]:
        return {"_given": None, "_handle": None}

    def _keep(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or self._handle is None or not model.training:
            return
        tensors = [leaf for leaf in _pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not tensors or any(not _plain(t) for t in tensors):
            return
        count = len(tensors[0]) if tensors[0].dim() else None

        def first(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            return leaf.detach()[:ROWS].clone() if leaf.dim() and len(leaf) == count else leaf.detach()

        self._given = _pytree.tree_map(first, (args, kwargs))

    def run(self) -> Run | None:
        """How to run a model on what was seen; None if nothing was."""
        if self._given is None:
            return None
        args, kwargs = self._given
        return lambda model: model(*args, **kwargs)

    def stop(self) -> None:
        """Take the hook off and let go of the rows."""
        if self._handle is not None:
            self._handle.remove()
        self._given = self._handle = None


def _plain(tensor: Tensor) -> bool:
    """Whether it holds numbers that outlive the call: neither fake nor inside a transform of torch.func."""
    return type(tensor) in (Tensor, nn.Parameter) and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
