"""`block`: a part of a network by itself, with the activations that really enter it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from .._errors import InputError, UnsupportedModelError
from ..network._export import check_mode, unwrap
from .capture import Forward, PartCall, capture, main_tensor


def block(model: nn.Module, path: str, inputs: Any, *, forward: Forward | None = None, mask: Any = None) -> Block:
    """A part of a network as a network of its own, with what enters it on real inputs.

    Every tool of this package then runs on the part: slices of its input space at three real tokens, tilings, distances
    of the activations to the folds, local complexity, representation geometry. A part that treats each token by itself
    (an MLP) becomes a network of one token `[N, D]`; another one (attention) of whole sequences `[N, T, D]`. Which it
    is, is found by running it both ways.

    Args:
        model: A module in eval mode; the part is copied.
        path: Of the part, e.g. "transformer.h.3.mlp".
        inputs: What the model takes: token ids, embeddings, images, or a mapping.
        forward: How to call the model on them.
        mask: `[B, T]` which tokens are real; the others are left out of `Block.inputs` (of one token each).

    Returns:
        The part, a module of one tensor, whose `inputs` are its activations.

    Example:
        >>> import torch, splinescope as ss
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
        >>> part = ss.block(model, "layers.1.linear1", torch.randn(2, 5, 8))
        >>> part.inputs.shape, part(part.inputs).shape
        (torch.Size([10, 8]), torch.Size([10, 16]))
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"model must be a torch.nn.Module, got {type(model).__name__}.")
    model = unwrap(model)
    check_mode(model)
    _, calls = capture(model, inputs, [path], forward)
    if not calls[path]:
        raise UnsupportedModelError(
            f"{path} was not called with a tensor while the model ran: it is no part of the way."
        )
    if len(calls[path]) > 1:
        raise UnsupportedModelError(
            f"{path} was called {len(calls[path])} times in one pass: what enters it is not one."
        )
    call = calls[path][0]
    x = call.x.detach()
    with torch.no_grad():
        whole = main_tensor(call(call.x))
    if whole is None:
        raise UnsupportedModelError(f"{path} gives no floating-point tensor.")
    if x.dim() == 3 and _by_token(call, x, whole):
        rows = x.flatten(0, 1)
        if mask is not None:
            kept = torch.as_tensor(mask).bool()
            if tuple(kept.shape) != tuple(x.shape[:2]):
                raise InputError(f"mask must have shape {tuple(x.shape[:2])}, got {tuple(kept.shape)}.")
            rows = rows[kept.flatten()]
        return Block(path, copy.deepcopy(call.module), (), {}, rows, by_token=True)
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
        if self.by_token:
            output = main_tensor(self.part(x.unsqueeze(1)))
            assert output is not None
            return output.squeeze(1)
        fill = lambda leaf: x if isinstance(leaf, _Here) else leaf  # noqa: E731
        output = main_tensor(self.part(*tree_map(fill, self._args), **tree_map(fill, self._kwargs)))
        assert output is not None
        return output

    def extra_repr(self) -> str:
        what = "tokens" if self.by_token else "inputs"
        return f"{self.path}: {len(self.inputs)} {what} of shape {tuple(self.inputs.shape[1:])}"


class _Here:
    """Stands for the input among the arguments of a part; known by its type, as copies of a block copy it too."""


def _mark(call: PartCall) -> Any:
    def swap(leaf: Any) -> Any:
        if leaf is call.x:
            return _Here()
        return leaf.detach() if isinstance(leaf, Tensor) else leaf

    return swap


def _by_token(call: PartCall, x: Tensor, whole: Tensor) -> bool:
    """Whether the part gives each token the same when it is alone; one that cannot run on a token alone does not."""
    others = [a for a in (*call.args, *call.kwargs.values()) if isinstance(a, Tensor) and a is not call.x]
    if others or whole.shape[:2] != x.shape[:2]:
        return False
    try:
        with torch.no_grad():
            alone = main_tensor(call.module(x.flatten(0, 1).unsqueeze(1)))
    except Exception:  # it ran on the whole sequences: what fails, in whatever way, is their length (a token mixer)
        return False
    if alone is None or alone.shape[0] != x.shape[0] * x.shape[1]:
        return False
    scale = float(whole.abs().max()) if whole.numel() else 1.0
    tolerance = 64 * torch.finfo(whole.dtype).eps ** 0.75 * scale
    return bool(((alone.squeeze(1) - whole.flatten(0, 1)).abs() <= tolerance).all())
