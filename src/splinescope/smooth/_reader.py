"""Reading a transformer while it runs: what enters its gates, its norms and its attention, in one forward pass."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from ..network.ops import operation
from ..network.ops.python_names import plain_name
from ..network.watching.calls import module_paths
from ..network.watching.intercept import Functions, Hook, Hooked
from ..support.errors import InputError, UnsupportedModelError
from ..support.threads import ALONE
from ._held_values import opened
from .capture import part_at

STATISTICS = ("active", "nearest", "folds", "mean", "std")
"""What is known of each layer and token."""

_CACHE_BYTES = 1 << 21  # attention weights worked on together
_QUERIES = 64  # of them in a block, which reads no key beyond the last that one of them sees
_RECENT = 4  # outputs of linear layers that an activation is looked for in


class Reading:
    """Numbers of one forward pass, by kind and then by path in the order of execution."""

    def __init__(self) -> None:
        self.gates: list[tuple[str, dict[str, np.ndarray]]] = []
        self.norms: list[tuple[str, dict[str, np.ndarray]]] = []
        self.attention: list[tuple[str, np.ndarray]] = []


class Reader(Functions):
    """Catches activations of linear layers, softmax and fused attention while a model runs.

    Args:
        model: The model.
        rows: Number of sequences in the batch.
        radius: Folds nearer than this are counted.
        gates: Paths of the linear layers whose outputs are gate pre-activations; found by themselves if None.
        attention: Read the attention weights too.
    """

    def __init__(
        self, model: nn.Module, rows: int, radius: float, gates: Sequence[str] | None, attention: bool
    ) -> None:
        super().__init__()
        self._model, self._rows, self._radius, self._gates, self._attention = model, rows, radius, gates, attention
        self._linear: OrderedDict[int, _Made] = OrderedDict()  # by address
        self._inside: Tensor | None = None
        self._paths: list[str] = []
        self.reading = Reading()

    @contextlib.contextmanager
    def hooked(self) -> Iterator[Reading]:
        """Hooks on and the mode active for the time of the context."""
        before: list[tuple[nn.Module, Hook]] = []
        after: list[tuple[nn.Module, Hook]] = []
        named = {path: part_at(self._model, path) for path in self._gates or ()}
        if others := [f"{path} ({type(part).__name__})" for path, part in named.items() if not is_linear(part)]:
            raise InputError(f"gates must name linear layers, got {', '.join(others)}.")
        wanted = None if self._gates is None else {id(part) for part in named.values()}
        for path, module in self._model.named_modules():
            if is_linear(module):
                if wanted is None or id(module) in wanted:
                    after.append((module, self._linear_hook(path, wanted is not None)))
            elif is_norm(module):
                before.append((module, self._norm_hook(path)))
            elif (
                wanted is None
                and not any(True for _ in module.parameters(recurse=False))
                and not list(module.children())
            ):
                before.append((module, self._enter))
                after.append((module, self._leave))
        try:
            with Hooked(before, after), contextlib.ExitStack() as stack:
                if self._attention:
                    self._paths = stack.enter_context(module_paths(self._model))
                stack.enter_context(self)
                yield self.reading
        finally:
            self._linear.clear()
            self._inside = None

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = _watched(func)
        if name is None:
            return func(*args, **kwargs)
        if name == "multi_head_attention_forward":
            with self:
                return opened(func)(*args, **kwargs)
        if is_activation(name) and self._gates is None and args and isinstance(args[0], Tensor):
            self._activation(args[0])
        if not self._attention:
            return func(*args, **kwargs)
        if name == "softmax":
            weights = func(*args, **kwargs)
            self._weights(weights)
            return weights
        if name == "scaled_dot_product_attention":
            return self._fused(*args, **kwargs)
        return func(*args, **kwargs)

    # gates

    def _linear_hook(self, path: str, named: bool) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if not isinstance(output, Tensor):
                return
            if named:
                self._gate(output, path, module, 0)
                return
            storage = output.untyped_storage()
            made = StorageWeakRef(storage), int(output.storage_offset()), output.shape[-1], path, module
            self._linear[storage.data_ptr()] = made
            if len(self._linear) > _RECENT:
                self._linear.popitem(last=False)

        return _unwatched(hook)

    def _enter(self, module: nn.Module, args: Any) -> None:
        self._inside = args[0] if args and isinstance(args[0], Tensor) else None

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self._inside = None

    def _activation(self, z: Tensor) -> None:
        """An activation: a gate if its input, or that of the module it is in, came from a linear layer."""
        for value in (z, self._inside):
            address = None if value is None else value.untyped_storage().data_ptr()
            found = None if address is None else self._linear.get(address)
            if value is None or address is None or found is None or value.dim() < 2:
                continue
            storage, offset, width, path, module = found
            if storage.expired():  # gone, and another tensor is where it was
                continue
            first = int(value.storage_offset() - offset) % width
            if value.stride(-1) == 1 and first + value.shape[-1] <= width:
                self._gate(value, path, module, first)
                del self._linear[address]
            return

    def _gate(self, z: Tensor, path: str, module: nn.Module, first: int) -> None:
        if z.dim() == 2:
            z = z.reshape(self._rows, -1, z.shape[-1]) if z.shape[0] % self._rows == 0 else z
        if z.dim() != 3 or z.shape[0] != self._rows:
            return  # not per token (a pooled vector, a convolution)
        scale = 1 / weight_norms(module)[first : first + z.shape[-1]].to(z.device)
        self.reading.gates.append((path, gate_statistics(z, scale, self._radius)))

    # norms and attention

    def _norm_hook(self, path: str) -> Any:
        def hook(module: nn.Module, args: Any) -> None:
            x = args[0] if args else None
            if isinstance(x, Tensor) and x.dim() == 3 and x.shape[0] == self._rows:
                x = x.float()
                rms = torch.linalg.vector_norm(x, dim=-1) / x.shape[-1] ** 0.5
                self.reading.norms.append((path, {"mean": x.mean(-1).cpu().numpy(), "rms": rms.cpu().numpy()}))

        return _unwatched(hook)

    def _weights(self, weights: Tensor) -> None:
        """Attention weights `[B, heads, queries, keys]` (or rows and heads in one axis)."""
        if weights.dim() == 3 and weights.shape[0] % self._rows == 0:
            weights = weights.unflatten(0, (self._rows, -1))
        if weights.dim() != 4 or weights.shape[0] != self._rows:
            return
        self._keep(torch.linalg.vector_norm(weights, dim=-1, dtype=torch.float32).square_())

    def _keep(self, squares: Tensor) -> None:
        """Effective numbers of tokens from sums of squared weights."""
        number = torch.where(squares > 0, 1 / squares.clamp_min(1e-30), 0.0)
        self.reading.attention.append((self._paths[-1] if self._paths else "", number.cpu().numpy()))

    def _fused(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:  # fmt: skip
        """Fused attention, its weights written out once."""
        if enable_gqa:
            key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
        if query.dim() != 4 or query.shape[0] != self._rows:
            return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
        result, seen = attend(query, key, value, attn_mask, is_causal, scale)
        self._keep(seen)
        return result


_Made = tuple[StorageWeakRef, int, int, str, nn.Module]
"""What a linear layer made: its memory (not kept alive), the offset in it, the width; the layer's path and itself."""


def is_activation(name: str) -> bool:
    return operation(name).role in ("piecewise", "smooth")


@lru_cache(maxsize=4096)
def _watched(func: Any) -> str | None:
    """The name of a function that is looked at."""
    name = plain_name(func)
    attends = name in ("softmax", "scaled_dot_product_attention", "multi_head_attention_forward")
    return name if attends or is_activation(name) else None


def _unwatched(hook: Any) -> Any:
    """A hook whose own torch calls no mode sees: each would cost what it takes to look at it."""

    def quiet(*given: Any) -> None:
        with torch._C.DisableTorchFunction():
            hook(*given)

    return quiet


def attend(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    """(attention's result `[B, heads, T, D]`, sum of squared weights `[B, heads, T]`), a few heads at a time.

    Their weights stay in the cache. Keys that no query of a block sees are left out: under a causal mask nearly half.
    """
    rows, heads, queries, keys = *query.shape[:3], key.shape[2]
    result = query.new_empty(rows, heads, queries, value.shape[-1])
    squares = torch.empty(rows, heads, queries, device=query.device)
    query = query * (query.shape[-1] ** -0.5 if scale is None else scale)
    added = None  # to the scores: adding -inf takes a tenth of the time of filling it in
    if is_causal:
        added = query.new_full((queries, keys), -torch.inf).triu_(1)
    elif attn_mask is not None and attn_mask.dtype == torch.bool:
        added = query.new_zeros(attn_mask.shape).masked_fill_(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        added = attn_mask
    blocks, blind = _seen_keys(added, queries, keys)
    if added is None or added.numel() == queries * keys:  # the same for all: rows are so many more heads
        query, key, value, result, squares = (
            t.reshape(1, rows * heads, *t.shape[2:]) for t in (query, key, value, result, squares)
        )
    if added is not None:
        added = added.expand(*query.shape[:2], queries, keys)
    for start, end, last in blocks:
        together = max(1, _CACHE_BYTES // (4 * (end - start) * max(last, 1)))
        for row in range(len(query)):
            for head in range(0, query.shape[1], together):
                part = (row, slice(head, head + together))
                at, seen = (*part, slice(start, end)), (*part, slice(last))
                scores = query[at] @ key[seen].transpose(-2, -1)
                if added is not None:
                    scores += added[(*at, slice(last))]
                weights = scores.softmax(-1)
                if blind:
                    weights = weights.nan_to_num_(0.0)  # a query that may see nothing gets nothing
                squares[at] = torch.linalg.vector_norm(weights, dim=-1, dtype=torch.float32).square_()
                result[at] = weights @ value[seen]
    return result.reshape(rows, heads, queries, -1), squares.reshape(rows, heads, queries)


def _seen_keys(added: Tensor | None, queries: int, keys: int) -> tuple[list[tuple[int, int, int]], bool]:
    """(blocks of queries as (start, end, number of keys that matter to them), whether a query may see none)."""
    blocks = [(start, min(start + _QUERIES, queries)) for start in range(0, queries, _QUERIES)]
    if added is None:
        return [(0, queries, keys)], False
    seen = added > -torch.inf
    blind = not bool(seen.any(-1).all())
    if seen.shape[-2:] != (queries, keys):
        return [(0, queries, keys)], blind
    numbers = seen.reshape(-1, queries, keys).any(0) * torch.arange(1, keys + 1, device=seen.device)
    last = numbers.amax(-1).tolist()
    return [(start, end, max(last[start:end])) for start, end in blocks], blind


def is_linear(module: nn.Module) -> bool:
    """A linear layer, or GPT-2's `Conv1D`, which is one with its weight transposed."""
    weight = getattr(module, "weight", None)
    return isinstance(module, nn.Linear) or (type(module).__name__ == "Conv1D" and getattr(weight, "ndim", 0) == 2)


def is_norm(module: nn.Module) -> bool:
    return isinstance(module, (nn.LayerNorm, nn.RMSNorm)) or type(module).__name__.endswith(("RMSNorm", "LayerNorm"))


def weight_norms(module: nn.Module) -> Tensor:
    """`[H]` norms of the units' weight vectors."""
    weight = module.weight.detach().float()  # type: ignore[operator]
    squares: Tensor = (weight * weight).sum(1 if isinstance(module, nn.Linear) else 0)  # ten times vector_norm's speed
    return squares.sqrt().clamp_min(torch.finfo(torch.float32).tiny)


def gate_statistics(z: Tensor, scale: Tensor, radius: float) -> dict[str, np.ndarray]:
    """Per token, of the signed distances d = z / ||w|| over the units: `[B, T]` each, computed in float32.

    active: share of d > 0. nearest: least |d|. folds: number of |d| <= radius. mean, std: of d.
    """
    with ALONE:
        from ._kernels import row_statistics  # numba loads here, on first use

    rows = z.detach().reshape(-1, z.shape[-1]).to("cpu", torch.float32).numpy()
    found = np.empty((len(STATISTICS), len(rows)), np.float32)
    row_statistics(rows, scale.cpu().numpy(), radius, found)
    return {name: row.reshape(z.shape[:2]) for name, row in zip(STATISTICS, found, strict=True)}


def tokens_seen(reading: Reading) -> int:
    """The number of tokens; gates that see fewer (a pooled vector) are left out. An error where none was seen."""
    if not reading.gates:
        raise UnsupportedModelError(
            "No activation of a linear layer was seen on tokens [batch, tokens, units] while the model ran. Name the "
            "linear layers that make the gates' pre-activations with gates=, or check that the batch axis is first."
        )
    tokens = max(values["active"].shape[1] for _, values in reading.gates)
    reading.gates = [one for one in reading.gates if one[1]["active"].shape[1] == tokens]
    return tokens
