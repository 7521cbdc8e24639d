"""`block`: a part of a network by itself, with the activations that really enter it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from ..network.readable import check_mode, unwrap
from ..support.checks import refuse_collections
from ..support.errors import InputError, UnsupportedModelError
from .capture import Forward, PartCall, capture, main_tensor


def block(model: nn.Module, path: str, x: Any, *, forward: Forward | None = None, mask: Any = None) -> Block:
    """A part of a network as a network of its own, with what enters it on real inputs.

    Every tool of this package then runs on the part. One that gives single tokens the same as among others (an MLP,
    seen by running it both ways) becomes a network of one token `[N, D]`; any other of whole sequences `[N, T, D]`.

    Args:
        model: A module in eval mode; the part is copied.
        path: Of the part, e.g. "transformer.h.3.mlp"; or of a method, e.g. "layers.3._ff_block", the MLP of a
            `nn.TransformerEncoderLayer`.
        x: What the model takes: token ids, embeddings, images, or a mapping.
        forward: How to call the model on them.
        mask: `[B, T]` which tokens are real; the others are left out of `Block.inputs` (of one token each).

    Example:
        >>> import torch, splinescope as ss
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
        >>> part = ss.smooth.block(model, "layers.1._ff_block", torch.randn(2, 5, 8))
        >>> part.inputs.shape, part(part.inputs).shape
        (torch.Size([10, 8]), torch.Size([10, 8]))
    """
    refuse_collections(x, "x")
    if isinstance(x, Iterator):
        raise InputError("x must be one input of the model, got an iterator: give one batch of it.")
    model = unwrap(model)
    check_mode(model)
    _, calls = capture(model, x, [path], forward)
    if len(calls[path]) != 1:
        times = len(calls[path])
        raise UnsupportedModelError(f"{path} must be called once with a tensor as the model runs, got {times} calls.")
    (call,) = calls[path]
    x = call.x.detach()
    with torch.no_grad():
        whole = main_tensor(call(call.x))
    if whole is None:
        raise UnsupportedModelError(f"{path} gives no floating-point tensor.")
    form = _form_of_tokens(call, x, whole) if x.dim() == 3 else None
    if form is not None:
        rows = x.flatten(0, 1)
        if mask is not None:
            kept = torch.as_tensor(mask).bool()
            if tuple(kept.shape) != tuple(x.shape[:2]):
                raise InputError(f"mask must have shape {tuple(x.shape[:2])}, got {tuple(kept.shape)}.")
            if not bool(kept.any()):
                raise InputError("mask must leave at least one token, got none.")
            rows = rows[kept.flatten()]
        return Block(path, copy.deepcopy(call.module), (_Here(form),), {}, rows, by_token=True)
    args, kwargs = tree_map(_mark(call), call.args), tree_map(_mark(call), call.kwargs)
    if any(isinstance(a, Tensor) and a.dim() > 1 and len(a) == len(x) > 1 for a in (*args, *kwargs.values())):
        raise UnsupportedModelError(
            f"{path} takes other tensors beside its input, one per row: give inputs of one row."
        )
    return Block(path, copy.deepcopy(call.module), args, kwargs, x, by_token=False)


class Block(nn.Module):
    """A part of a network by itself; made by `block`.

    Attributes:
        path: Where it was.
        inputs: What entered it: `[N, D]` tokens, or `[B, ...]` whole inputs.
        by_token: Whether a row is one token.
    """

    def __init__(self, path: str, part: nn.Module, args: Any, kwargs: Any, inputs: Tensor, *, by_token: bool) -> None:
        super().__init__()
        self.path, self.part, self.inputs, self.by_token = path, part, inputs, by_token
        self._args, self._kwargs = args, kwargs
        self.train(part.training)

    def forward(self, x: Tensor) -> Tensor:
        fill = lambda leaf: x.unflatten(0, leaf.form) if isinstance(leaf, _Here) else leaf  # noqa: E731
        output = main_tensor(self.part(*tree_map(fill, self._args), **tree_map(fill, self._kwargs)))
        assert output is not None
        return output.flatten(0, 1) if self.by_token and output.dim() > x.dim() else output

    def _apply(self, fn: Any, recurse: bool = True) -> Block:
        """What entered goes where the weights go: to another dtype or device."""
        super()._apply(fn, recurse)
        move = lambda leaf: fn(leaf) if isinstance(leaf, Tensor) else leaf  # noqa: E731
        self.inputs, self._args, self._kwargs = tree_map(move, (self.inputs, self._args, self._kwargs))
        return self

    def extra_repr(self) -> str:
        what = "tokens" if self.by_token else "inputs"
        return f"{self.path}: {len(self.inputs)} {what} of shape {tuple(self.inputs.shape[1:])}"


class _Here:
    """Stands for the input, whose rows become `form`, among the arguments of a part; copies of a block copy it too."""

    def __init__(self, form: tuple[int, ...] = (-1,)) -> None:
        self.form = form


def _mark(call: PartCall) -> Any:
    def swap(leaf: Any) -> Any:
        if leaf is call.x:
            return _Here()
        return leaf.detach() if isinstance(leaf, Tensor) else leaf

    return swap


def _form_of_tokens(call: PartCall, x: Tensor, whole: Tensor) -> tuple[int, ...] | None:
    """How rows of single tokens enter a part that gives them the same as among others: as they are where it takes them
    so (its units then have no axis of tokens), or as sequences of one. None where tokens matter to each other.
    """
    others = [a for a in (*call.args, *call.kwargs.values()) if isinstance(a, Tensor) and a is not call.x]
    if others or whole.shape[:2] != x.shape[:2]:
        return None
    rows, found = x.flatten(0, 1), None
    for form in ((-1, 1), (-1,)):
        try:
            with torch.no_grad():
                alone = main_tensor(call.module(rows.unflatten(0, form)))
        except Exception:  # a layer over tokens or channels cannot run on one, and its message may be of any kind
            return found
        if alone is None or alone.numel() != whole.numel() or not _same(alone.reshape(whole.shape), whole):
            return found
        found = form
    return found


def _same(a: Tensor, b: Tensor) -> bool:
    """Equal up to rounding."""
    largest = float(b.abs().max()) if b.numel() else 1.0
    return bool(((a - b).abs() <= 64 * torch.finfo(b.dtype).eps ** 0.75 * largest).all())
