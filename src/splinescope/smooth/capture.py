"""What enters the parts of a model: their calls, caught in one forward pass."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from ..network.watching.intercept import Hooked, in_this_thread
from ..network.watching.undisturbed import as_written
from ..support.errors import InputError

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
    with as_written(model), torch.inference_mode(False), torch.no_grad():
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

    def seeing(path: str) -> Any:
        def see(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            args, kwargs = tree_map(_without_caches, args), {k: _without_caches(v) for k, v in kwargs.items()}
            tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor) and a.is_floating_point()]
            if tensors:
                calls[path].append(PartCall(path, module, tensors[0], args, kwargs))

        return see

    with undisturbed(model), contextlib.ExitStack() as stack:
        for path, part in parts.items():
            stack.enter_context(_watching(part, seeing(path)))
        output = (forward or plain_call)(model, x)
    return output, calls


@contextlib.contextmanager
def _watching(part: nn.Module, see: Callable[..., None]) -> Iterator[None]:
    """`see(part, args, kwargs)` before every call of a part."""
    owner = part.owner if isinstance(part, Method) else part
    # the hook that does nothing: with one, torch's encoder layers run as they are written
    with Hooked(before=[(owner, see if owner is part else lambda *_: None)], with_kwargs=True):
        if not isinstance(part, Method):
            yield
            return

        told = in_this_thread(see)

        def call(*args: Any, **kwargs: Any) -> Any:
            told(part, args, kwargs)
            return part(*args, **kwargs)

        vars(owner)[part.name] = call
        try:
            yield
        finally:
            del vars(owner)[part.name]


class Method(nn.Module):
    """A method of a module as a part of its own: `nn.TransformerEncoderLayer` has its MLP in `_ff_block`."""

    def __init__(self, owner: nn.Module, name: str) -> None:
        super().__init__()
        self.owner, self.name = owner, name
        self.train(owner.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(type(self.owner), self.name)(self.owner, *args, **kwargs)


def part_at(model: nn.Module, path: str) -> nn.Module:
    """The module at a path, or the method of a module, or an error that names near ones."""
    try:
        return model.get_submodule(path)
    except AttributeError as error:
        owner, _, name = path.rpartition(".")
        found = dict(model.named_modules()).get(owner)
        if inspect.isfunction(getattr(type(found), name, None)) and not hasattr(nn.Module, name):
            assert found is not None
            return Method(found, name)
        import difflib

        known = [name for name, _ in model.named_modules() if name]
        near = difflib.get_close_matches(path, known, n=3, cutoff=0.3) or known[:5]
        raise InputError(
            f"path must name a part of the model, got {path!r}; there are {', '.join(near)}, ..."
        ) from error


def _without_caches(value: Any) -> Any:
    """None for a key-value cache (it grows with every call), False for the wish to use one."""
    return None if hasattr(value, "get_seq_length") and hasattr(value, "update") else value
