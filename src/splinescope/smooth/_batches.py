"""Batches of tokens: what a loader gives, masks of padding, and long sequences cut into windows."""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from ..support.checks import as_rows
from ..support.errors import InputError
from .capture import plain_call

_MASK = "attention_mask"


def inputs_of(batches: Any) -> Iterator[Any]:
    """The batches of a loader or list, without the labels that may follow them."""
    if isinstance(batches, Dataset) or not isinstance(batches, Iterable):
        yield as_rows(batches, "inputs")  # refused: its items are rows, not batches
        return
    for batch in batches:
        labeled = isinstance(batch, (tuple, list)) and len(batch) > 0 and isinstance(batch[0], Tensor)
        yield batch[0] if labeled else batch


def pieces_of(batch: Any, mask: Any, window: int | None) -> Iterator[tuple[Any, np.ndarray | None]]:
    """(inputs, mask) of the pieces of one batch."""
    if hasattr(batch, "keys"):
        if mask is not None and batch.get(_MASK) is not None:
            raise InputError(f"mask and the mapping's {_MASK!r} say the same thing: give one of them.")
        mask = batch.get(_MASK) if mask is None else mask
    else:
        batch = as_rows(batch, "batch")
    seen = None if mask is None else _checked(mask)
    tokens = _token_count(batch)
    if window is None or tokens is None or tokens <= window:
        yield batch, seen
        return
    for start in range(0, tokens, window):
        part = slice(start, start + window)
        yield _cut(batch, part, tokens), None if seen is None else seen[:, part]


def call_masked(model: nn.Module, batch: Any, seen: np.ndarray | None) -> None:
    """Run the model on a batch, with the mask of padding if it takes one and the batch does not bring it."""
    if seen is None or (hasattr(batch, "keys") and batch.get(_MASK) is not None):
        plain_call(model, batch)
        return
    first = next(iter(batch.values())) if hasattr(batch, "keys") else batch
    taken = inspect.signature(model.forward).parameters
    mask = torch.from_numpy(seen).to(first.device)
    if _MASK in taken:
        extra = {_MASK: mask.long()}  # as tokenizers give it
    elif "src_key_padding_mask" in taken:
        extra = {"src_key_padding_mask": ~mask}
    else:
        extra = {}
    if extra and mask.shape != (expected := (len(first), _token_count(batch))):
        raise InputError(f"mask must have shape {expected}, got {tuple(mask.shape)}.")
    if hasattr(batch, "keys"):
        model(**batch, **extra)
    else:
        model(batch, **extra)


def _checked(mask: Any) -> np.ndarray:
    try:
        seen = np.asarray(torch.as_tensor(mask).cpu()).astype(bool)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"mask must be an array of shape (batch, tokens), got {type(mask).__name__}.") from error
    if seen.ndim != 2:
        raise InputError(f"mask must have shape (batch, tokens), got {seen.shape}.")
    if not seen.any(1).all():
        empty = np.flatnonzero(~seen.any(1))[:5].tolist()
        raise InputError(f"mask must leave at least one token in every row; rows {empty} have none.")
    return seen


def _token_count(batch: Any) -> int | None:
    """The length of the token axis, the second one; of a mapping that of its ids, or else of its first tensor."""
    if not hasattr(batch, "keys"):
        return batch.shape[1] if batch.dim() > 1 else None
    named = [batch[name] for name in ("input_ids", "inputs_embeds") if name in batch.keys()]  # noqa: SIM118
    tensors = [value for value in (*named, *batch.values()) if isinstance(value, Tensor) and value.dim() > 1]
    return tensors[0].shape[1] if tensors else None


def _cut(batch: Any, part: slice, tokens: int) -> Any:
    if not hasattr(batch, "keys"):
        return batch[:, part]
    cut: dict[str, Any] = {}
    for name, value in batch.items():
        if isinstance(value, Tensor) and value.dim() > 0:
            if value.dim() < 2 or value.shape[1] != tokens:
                raise InputError(
                    f"window cuts entries of shape (batch, {tokens}, ...), and {name!r} has shape "
                    f"{tuple(value.shape)}: leave it out, or cut the mapping yourself and give the pieces one by one."
                )
            value = value[:, part]
        cut[name] = value
    return cut
