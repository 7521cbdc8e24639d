"""Which of a model's outputs is meant: by index or by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from splinescope.support.checks import check_module
from splinescope.support.errors import InputError, UnsupportedModelError

from .readable import unwrap
from .watching.undisturbed import built_in

Output = int | str | None
"""Index of a tensor among a model's outputs, or its name: a key, a field, or a path such as "boxes.0"."""


class SeveralOutputs(UnsupportedModelError):
    """A model returns several tensors, as `listed`, and which one is meant was not said."""

    def __init__(self, listed: str, first: int | str, how: str = "give pick_output(model, {0!r}) instead of the model"):
        super().__init__(f"The model returns {listed}. Choose one, by index or by name: {how.format(first)}.")
        self.listed, self.first = listed, first


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
    """Position of the meant output among all leaves; only those with a shape are tensors of the input."""
    tensors = [i for i, shape in enumerate(shapes) if shape is not None]
    if not tensors:
        raise UnsupportedModelError("The model must return a tensor that depends on its input; it returns none.")
    listed = ", ".join(f"{names[i] or i} {_shape(shapes[i] or ())}" for i in tensors)
    if output is None:
        if len(tensors) > 1:
            first = names[tensors[0]]
            raise SeveralOutputs(f"{len(tensors)} tensors: {listed}", int(first) if first.isdigit() else first)
        return tensors[0]
    _check_kind(output)
    matches = [i for i in tensors if names[i] == str(output)]
    if not matches and isinstance(output, int) and -len(tensors) <= output < len(tensors):
        matches = [tensors[output]]
    if not matches:
        raise InputError(f"output must be one of the model's outputs, {listed}; got {output!r}.")
    return matches[0]


def _shape(shape: tuple[Any, ...]) -> str:
    return f"({', '.join(str(n) if isinstance(n, int) else 'N' for n in shape)})"


def one_tensor(result: Any, output: Output = None) -> Tensor:
    """The tensor that is meant in what a model returned: itself, its only one, or the chosen one of several."""
    if isinstance(result, Tensor) and output is None:
        return result
    leaves = leaves_of(result)
    shapes = [tuple(leaf.shape) if isinstance(leaf, Tensor) else None for _, leaf in leaves]
    return leaves[choose_output([name for name, _ in leaves], shapes, output)][1]


class Picked(nn.Module):
    """A model of which one output is meant; see `pick_output`. `trace` looks through it.

    Its tables of parameters, buffers and children are the model's own, so that paths are the same, and so is its mode.
    Hooks on the model itself (not on its parts) do not run, but for those that torch.nn.utils placed.
    """

    whole: nn.Module

    def __init__(self, model: nn.Module, output: Output = None) -> None:
        model = unwrap(model)
        mode = model.training
        self.__dict__["whole"] = model  # beside the table of children: it is no part of this, but the same
        super().__init__()
        self.training = mode
        for table in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[table] = getattr(model, table)
        self.output = output

    @property
    def training(self) -> bool:
        """The model's own mode."""
        return self.whole.training

    @training.setter
    def training(self, mode: bool) -> None:
        self.whole.training = mode

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        for hook in built_in(self.whole._forward_pre_hooks).values():
            hook(self.whole, args)
        return one_tensor(self.whole.forward(*args, **kwargs), self.output)


def pick_output(model: nn.Module, output: int | str) -> nn.Module:
    """A model of several outputs (a tuple, a dict, a data class) as one that returns the chosen tensor.

    Parameters are the model's own, by the same paths. `trace`, `load` and `tessellate` take the same choice as
    `output=`, and the command line as `--pick`.

    Args:
        model: Any module but a scripted one.
        output: Index of a tensor among the outputs, or its name: a key, a field, or a path such as "boxes.0". One that
            does not exist is refused when the module is first called.

    Example:
        >>> import torch, splinescope as ss
        >>> layer = torch.nn.GRU(2, 3)  # returns (states, last state)
        >>> ss.pick_output(layer, 0)(torch.zeros(5, 1, 2)).shape
        torch.Size([5, 1, 3])
    """
    check_module(model, read=False)
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError(f"model must be a torch.nn.Module that is not scripted, got {type(model).__name__}.")
    _check_kind(output)
    return Picked(model.whole if isinstance(model, Picked) else model, output)


def _check_kind(output: Any) -> None:
    if isinstance(output, bool) or not isinstance(output, (int, str)):
        raise InputError(f"output must be an index or a name, got {output!r}.")
