"""Which of a model's outputs is meant: by index or by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from splinescope._errors import InputError, UnsupportedModelError

Output = int | str | None
"""Index of a tensor among a model's outputs, or its name: a key, a field, or a path such as "boxes.0"."""


def leaves_of(outputs: Any) -> list[tuple[str, Any]]:
    """Every leaf of what a model returns, with its path: keys, fields and positions joined by dots."""
    found, _ = _pytree.tree_flatten_with_path(outputs)
    return [(".".join(_name(key) for key in path), leaf) for path, leaf in found]


def _name(key: Any) -> str:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def choose_output(names: list[str], shapes: list[tuple[Any, ...] | None], output: Output) -> int:
    """Position of the meant output among all leaves; only those with a shape are tensors of the input.

    Raises:
        UnsupportedModelError: There are several, and none was chosen.
        InputError: There is no such output.
    """
    tensors = [i for i, shape in enumerate(shapes) if shape is not None]
    if not tensors:
        raise UnsupportedModelError("The model must return a tensor that depends on its input; it returns none.")
    listed = ", ".join(f"{names[i] or i} {_shape(shapes[i])}" for i in tensors)
    if output is None:
        if len(tensors) > 1:
            raise UnsupportedModelError(
                f"The model returns {len(tensors)} tensors: {listed}. Choose one with output=, by index or by name."
            )
        return tensors[0]
    if isinstance(output, bool) or not isinstance(output, (int, str)):
        raise InputError(f"output must be an index or a name, got {output!r}.")
    matches = [i for i in tensors if names[i] == str(output)]
    if not matches and isinstance(output, int) and -len(tensors) <= output < len(tensors):
        matches = [tensors[output]]
    if not matches:
        raise InputError(f"output must be one of the model's outputs, {listed}; got {output!r}.")
    return matches[0]


def _shape(shape: tuple[Any, ...] | None) -> str:
    assert shape is not None
    return f"({', '.join(str(n) if isinstance(n, int) else 'N' for n in shape)})"


class Picked(nn.Module):
    """A model of several outputs, of which one is meant; `trace` looks through it."""

    def __init__(self, model: nn.Module, output: int | str) -> None:
        super().__init__()
        self.model, self.output = model, output

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        leaves = leaves_of(self.model(*args, **kwargs))
        shapes = [tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else None for _, leaf in leaves]
        return leaves[choose_output([name for name, _ in leaves], shapes, self.output)][1]
