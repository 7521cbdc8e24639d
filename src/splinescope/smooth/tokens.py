"""`token_geometry`: where each token lies among the folds of each layer's MLP, and how attention spreads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from ..network.readable import check_mode, unwrap
from ..support.checks import check_choice, check_positive, check_whole, running_on
from ..support.display import Result, table
from ..support.drawing import drawn
from ..support.errors import InputError
from ._batches import call_masked, inputs_of, pieces_of
from ._reader import STATISTICS, Reader, Reading, tokens_seen
from .capture import Forward, undisturbed

FEATURES = ("active mean", "active least", "active most", "active std", "nearest least", "nearest mean", "nearest std")
"""The seven per layer of Balestriero, Cosentino and Shekkizhar."""


def token_geometry(
    model: nn.Module, x: Any, *, radius: float = 0.1, mask: Any = None, forward: Forward | None = None,
    gates: Sequence[str] | None = None, window: int | None = None, attention: bool = True,
) -> TokenGeometry:  # fmt: skip
    """Where each token lies among the folds of each layer, from one forward pass.

    A unit of an MLP's first layer (the gate of a gated one) has pre-activation z = w.h + b; its fold is z = 0, and

        d = z / ||w||

    is the token's signed distance to it, in the space of what enters the layer: exact for that layer. Of the units of
    each layer and for each token: the share with d > 0, the least `|d|`, the number with `|d| <= radius`, mean and
    standard deviation of d. Beside them the mean and root mean square of what enters each norm, and per head the
    effective number of tokens that attention looks at, 1 / sum_k p_k^2.

    Gates are found by themselves: an activation whose input a linear layer has just made, of all tokens. The model runs
    in its own dtype, without gradients; statistics are in float32.

    Args:
        model: A module in eval mode, on tokens `[batch, tokens, ...]`; of `transformers` or your own.
        x: Token ids `[B, T]`, embeddings `[B, T, D]`, a mapping as tokenizers give it (its `attention_mask` is
            respected), or an iterable of such batches (a loader; labels beside them are ignored): they run one by one,
            and only the statistics stay.
        radius: Folds nearer than this are counted.
        mask: `[B, T]`, true for tokens and false for padding, left or right; for one batch. Every row needs a token.
            It is handed to the model as `attention_mask`, or as `src_key_padding_mask` (turned round), if it takes one
            of them; else, and with `forward`, it only leaves padding out of the statistics.
        forward: How to call the model, `(model, batch) -> anything`.
        gates: Paths of the linear layers that make the pre-activations, if they are not to be looked for.
        window: Cut longer sequences into pieces of this many tokens, each run by itself; of a mapping every entry
            (they must be `[B, T, ...]`).
        attention: Read attention too; fused attention is then computed with its weights written out.

    Returns:
        Named arrays, with padding as NaN.

    Cost: at most 1.1 forward passes on models of width 256 and more.

    Example:
        >>> import torch, splinescope as ss
        >>> layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        >>> model = torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
        >>> found = ss.token_geometry(model, torch.randn(2, 7, 16))
        >>> found.active.shape, found.features().shape
        ((3, 2, 7), (2, 3, 7))

    Reference: Balestriero, Cosentino, Shekkizhar, "Characterizing Large Language Model Geometry Helps Solve Toxicity
    Detection and Generation", ICML 2024 (the seven features per layer of `TokenGeometry.features`).
    """
    model = unwrap(model)
    check_mode(model)
    radius = check_positive(radius, "radius")
    if window is not None:
        check_whole(window, "window")
    single = isinstance(x, (Tensor, np.ndarray, Mapping)) or hasattr(x, "keys")
    if mask is not None and not single:
        raise InputError("mask belongs to one batch; give batches as mappings with an 'attention_mask'.")
    parts = []
    for batch in [x] if single else inputs_of(x):
        pieces = [
            _read(model, piece, given, radius, forward, gates, attention)
            for piece, given in pieces_of(batch, mask, window)
        ]
        parts.append(_joined(pieces, radius, axis=1))
    if not parts:
        raise InputError("x must hold at least one batch, got none.")
    return _joined(parts, radius, axis=0)


@dataclass(frozen=True, eq=False, repr=False)
class TokenGeometry(Result):
    """Named arrays over layers and tokens; NaN where there is padding. L layers, B rows, T tokens.

    Attributes:
        layers: `[L]` paths of the layers that make the gates' pre-activations.
        mask: `[B, T]` which tokens are real.
        active: `[L, B, T]` share of units with a positive pre-activation.
        nearest: `[L, B, T]` distance to the nearest fold.
        folds: `[L, B, T]` number of folds within `radius`.
        mean, std: `[L, B, T]` of the signed distances to all folds.
        norms: Paths of the norms.
        norm_mean, norm_rms: `[norms, B, T]` of what enters each norm.
        heads: Paths of the modules that attend.
        attention: Per path `[B, heads, T]` effective number of tokens each query looks at.
        radius: Of `folds`.
    """

    layers: tuple[str, ...]
    mask: np.ndarray
    active: np.ndarray
    nearest: np.ndarray
    folds: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    norms: tuple[str, ...]
    norm_mean: np.ndarray
    norm_rms: np.ndarray
    heads: tuple[str, ...]
    attention: tuple[np.ndarray, ...]
    radius: float
    certainty = "exact"
    plot = drawn("smooth.plot_tokens")

    @property
    def assurance(self) -> str:
        return "Exact for each layer's own folds, in the space of what enters it, up to rounding in float32."

    def features(self) -> np.ndarray:
        """`[B, L, 7]` the published features per sequence, in the order of `FEATURES`.

        Over a sequence's tokens: mean, least, most and standard deviation of `active`; least, mean and standard
        deviation of `nearest`. Deviations divide by T - 1 and are 0 for a single token.
        """
        count = self.mask.sum(1)

        def spread(values: np.ndarray) -> np.ndarray:
            centered = values - np.nanmean(values, -1, keepdims=True)
            return np.sqrt(np.nansum(centered**2, -1) / np.maximum(count - 1, 1))

        a, n = self.active.astype(np.float64), self.nearest.astype(np.float64)
        columns = [np.nanmean(a, -1), np.nanmin(a, -1), np.nanmax(a, -1), spread(a),
                   np.nanmin(n, -1), np.nanmean(n, -1), spread(n)]  # fmt: skip
        return np.stack(columns, -1).transpose(1, 0, 2)

    def means(self) -> dict[str, float]:
        """Means over all tokens, per quantity and layer ("nearest/0 h.0.mlp.c_fc"): what a training monitor records."""
        return {
            f"{name}/{i} {path}": float(np.nanmean(getattr(self, name)[i]))
            for name in ("active", "nearest", "folds")
            for i, path in enumerate(self.layers)
        }

    def quantity(self, name: str) -> np.ndarray:
        """`[L, B, T]` by name; "attention" is the mean over heads."""
        check_choice(name, "quantity", (*STATISTICS, "attention"))
        if name != "attention":
            return getattr(self, name)
        if not self.attention:
            raise InputError("attention was not read: the model has none, or attention=False was given.")
        return np.stack([heads.mean(1) for heads in self.attention])

    def _shown(self) -> list[tuple[str, Any]]:
        return [("layers", len(self.layers)), ("tokens", int(self.mask.sum())), ("rows", len(self.mask)),
                ("nearest", float(np.nanmean(self.nearest)))]  # fmt: skip

    def summary(self) -> str:
        """Means per layer, as a table."""
        rows = [("layer", "active", "nearest", f"folds within {self.radius:g}", "std")]
        count = len(self.layers)
        for i in range(count) if count <= 30 else (*range(15), *range(count - 15, count)):
            a, n, f, s = (f"{np.nanmean(array[i]):.4g}" for array in (self.active, self.nearest, self.folds, self.std))
            rows.append((self.layers[i], a, n, f, s))
        return f"{table(rows)}\n{self.assurance}"


def _read(
    model: nn.Module, batch: Any, seen: np.ndarray | None, radius: float, forward: Forward | None,
    gates: Sequence[str] | None, attention: bool,
) -> TokenGeometry:  # fmt: skip
    """One forward pass."""
    first = next(iter(batch.values()), None) if hasattr(batch, "keys") else batch
    if not isinstance(first, Tensor) or first.dim() == 0 or not first.numel():
        raise InputError(f"inputs must be non-empty tensors with the batch axis first, got {type(first).__name__}.")
    rows = len(first)
    reader = Reader(model, rows, radius, gates, attention)
    with undisturbed(model), reader.hooked() as reading, running_on(first):
        if forward is not None:
            forward(model, batch)
        else:
            call_masked(model, batch, seen)
    tokens = tokens_seen(reading)
    seen = np.ones((rows, tokens), bool) if seen is None else seen
    if seen.shape != (rows, tokens):
        raise InputError(f"mask must have shape {(rows, tokens)}, got {seen.shape}.")
    return _result(reading, seen, radius)


def _result(reading: Reading, seen: np.ndarray, radius: float) -> TokenGeometry:
    def stacked(found: list[tuple[str, dict[str, np.ndarray]]], name: str) -> np.ndarray:
        if not found:
            return np.empty((0, *seen.shape), np.float32)
        return np.where(seen, np.stack([values[name] for _, values in found]), np.float32(np.nan))

    norms = [one for one in reading.norms if one[1]["mean"].shape == seen.shape]
    heads = [one for one in reading.attention if one[1].shape[2] == seen.shape[1]]
    return TokenGeometry(
        layers=tuple(path for path, _ in reading.gates),
        mask=seen,
        norms=tuple(path for path, _ in norms),
        norm_mean=stacked(norms, "mean"),
        norm_rms=stacked(norms, "rms"),
        heads=tuple(path for path, _ in heads),
        attention=tuple(np.where(seen[:, None], value, np.float32(np.nan)) for _, value in heads),
        radius=radius,
        **{name: stacked(reading.gates, name) for name in STATISTICS},
    )


def _joined(parts: list[TokenGeometry], radius: float, axis: int) -> TokenGeometry:
    """Pieces of sequences after each other (axis 1), or batches below each other (axis 0), filled up with padding."""
    if len(parts) == 1:
        return parts[0]
    if len({(part.layers, part.norms, part.heads) for part in parts}) > 1:
        raise InputError("every batch must run through the same layers; these differ from batch to batch.")
    longest = max(part.mask.shape[1] for part in parts)

    def join(arrays: list[np.ndarray]) -> np.ndarray:
        if axis == 0:
            arrays = [
                np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, longest - a.shape[-1])], constant_values=np.nan)
                if a.dtype != bool
                else np.pad(a, [(0, 0), (0, longest - a.shape[-1])])
                for a in arrays
            ]
        # rows are the last axis but one of [L, B, T] and [B, T], the first of [B, heads, T]
        return np.concatenate(arrays, -1 if axis == 1 else -2)

    def join_heads(arrays: list[np.ndarray]) -> np.ndarray:
        return np.moveaxis(join([np.moveaxis(a, 0, -2) for a in arrays]), -2, 0)

    return TokenGeometry(
        layers=parts[0].layers,
        mask=join([part.mask for part in parts]),
        norms=parts[0].norms,
        heads=parts[0].heads,
        attention=tuple(join_heads([part.attention[i] for part in parts]) for i in range(len(parts[0].heads))),
        radius=radius,
        **{name: join([getattr(part, name) for part in parts]) for name in (*STATISTICS, "norm_mean", "norm_rms")},
    )
