"""What enters the parts of a model: their calls, caught in one forward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from .._errors import InputError
from ..complexity.watch import uncompiled
from ..network.twin import hooks_detached

Forward = Callable[[Any, Any], Any]
"""How to call a model on its input: `(model, x) -> anything`."""


def plain_call(model: nn.Module, x: Any) -> Any:
    """`model(x)`, or `model(**x)` where x is a mapping, as Hugging Face tokenizers give."""
    return model(**x) if hasattr(x, "keys") else model(x)


def main_tensor(output: Any) -> Tensor | None:
    """The tensor a model or layer is about: itself, `.logits`, `.last_hidden_state`, or the first of a tuple."""
    if isinstance(output, Tensor):
        return output
    for name in ("logits", "last_hidden_state"):
        if isinstance(getattr(output, name, None), Tensor):
            return getattr(output, name)
    if isinstance(output, dict):
        output = tuple(output.values())
    if isinstance(output, (tuple, list)):
        return next((leaf for leaf in output if isinstance(leaf, Tensor) and leaf.is_floating_point()), None)
    return None


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """The model as written (user's hooks off, uncompiled), no gradients; all put back."""
    with hooks_detached(model), uncompiled(model), torch.inference_mode(False), torch.no_grad():
        yield


@dataclass(frozen=True)
class PartCall:
    """One call of a part of a model: `module(*args, **kwargs)` with its main input `x`."""

    path: str
    module: nn.Module
    x: Tensor
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, x: Tensor) -> Any:
        """The part on another main input, all other arguments as they were."""
        swap = lambda leaf: x if leaf is self.x else leaf  # noqa: E731
        return self.module(*tree_map(swap, self.args), **tree_map(swap, self.kwargs))


def part_paths(model: nn.Module) -> tuple[str, ...]:
    """The layers of a model: entries of its outermost module lists, or its children where it has no list."""
    lists = [path for path, m in model.named_modules() if isinstance(m, nn.ModuleList)]
    outermost = [p for p in lists if not any(p.startswith(other + ".") for other in lists if other != p)]
    layers = [f"{path}.{i}" for path in outermost for i in range(len(model.get_submodule(path)))]  # type: ignore[arg-type]
    return tuple(layers or [path for path, _ in model.named_children()])


def capture(
    model: nn.Module, x: Any, paths: Sequence[str], forward: Forward | None = None
) -> tuple[Any, dict[str, list[PartCall]]]:
    """Run the model once; (its output, the calls of the parts at `paths` in order).

    Key-value caches are left out of what is kept, so that a part can be called again.
    """
    parts = {path: part_at(model, path) for path in paths}
    calls: dict[str, list[PartCall]] = {path: [] for path in paths}

    def watch(path: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            args, kwargs = tree_map(_without_caches, args), {k: _without_caches(v) for k, v in kwargs.items()}
            tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor) and a.is_floating_point()]
            if tensors:
                calls[path].append(PartCall(path, module, tensors[0], args, kwargs))

        return hook

    with undisturbed(model):
        handles = [part.register_forward_pre_hook(watch(path), with_kwargs=True) for path, part in parts.items()]
        try:
            output = (forward or plain_call)(model, x)
        finally:
            for handle in handles:
                handle.remove()
    return output, calls


def part_at(model: nn.Module, path: str) -> nn.Module:
    """The module at a path, or an error that names near ones."""
    try:
        return model.get_submodule(path)
    except AttributeError as error:
        import difflib

        known = [name for name, _ in model.named_modules() if name]
        near = difflib.get_close_matches(path, known, n=3, cutoff=0.3) or known[:5]
        raise InputError(
            f"path must name a part of the model, got {path!r}; there are {', '.join(near)}, ..."
        ) from error


def _without_caches(value: Any) -> Any:
    """None for a key-value cache (it grows with every call), False for the wish to use one."""
    return None if hasattr(value, "get_seq_length") and hasattr(value, "update") else value
