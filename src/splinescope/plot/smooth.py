"""Drawings of networks that are not piecewise affine: tokens in layers, reach of local maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..support.checks import check_index
from ..support.errors import InputError
from ._axes import new_axes
from .style import ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..smooth.map_results import Validity
    from ..smooth.tokens import TokenGeometry

_LABELS = {
    "active": "share of active gates",
    "nearest": "distance to the nearest fold",
    "folds": "folds within {radius:g}",
    "mean": "mean signed distance to folds",
    "std": "deviation of distances to folds",
    "attention": "effective number of tokens seen",
}


_LABELED = 100  # tokens; of more, some labels would read like a text that is not there


def plot_tokens(
    geometry: TokenGeometry, quantity: str = "nearest", *, row: int = 0, tokens: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """A heat map of one sequence: layers upwards, tokens to the right, padding left out.

    `quantity` is "active", "nearest", "folds", "mean", "std" or "attention" (mean over heads). `tokens` are labels of
    the row's tokens; their numbers if None, or if there are more than 100.
    """
    values = geometry.quantity(quantity)[:, check_index(row, "row", len(geometry.mask))][:, geometry.mask[row]]
    if tokens is not None and len(tokens) != values.shape[1]:
        raise InputError(f"tokens must be {values.shape[1]} labels, one per token of the row, got {len(tokens)}.")
    count = values.shape[1]
    ax = new_axes(ax, figsize=(min(14.0, 2.5 + 0.16 * count), max(2.8, 1.6 + 0.28 * len(values))))
    image = ax.imshow(values, aspect="auto", origin="lower", cmap="viridis")
    few = np.unique(np.linspace(0, len(values) - 1, min(len(values), 12)).round().astype(int))
    ax.set(ylabel="layer", yticks=few)
    if tokens is None or count > _LABELED:
        ax.set_xlabel("token")
    else:
        shown = [{" ": "␣", "\n": "⏎", "\t": "⇥"}.get(token, token) for token in tokens]
        ax.set_xticks(range(count), shown, rotation=0 if max(map(len, shown)) < 3 else 90, fontsize=7)
    ax.get_figure(root=True).colorbar(  # type: ignore[union-attr]
        image, ax=ax, label=_LABELS[quantity].format(radius=geometry.radius), pad=0.01
    )
    return ax


def plot_validity(validity: Validity, ax: Axes | None = None) -> Axes:
    """The share of a network's change that its local map gets wrong, by distance; layers each at its own input."""
    ax = new_axes(ax)
    from matplotlib import colormaps

    layers = max(len(validity.paths) - 1, 1)
    for i, (path, error) in enumerate(zip(validity.paths, validity.error, strict=True)):
        color = ink() if path == "" else colormaps["viridis"](0.9 * (i - 1) / layers)
        ax.plot(validity.radii, error, "o-", markersize=3, color=color, label=path or "whole network")
    ax.set(xscale="log", xlabel="distance from the point", ylabel="share of the change missed by the map")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, fontsize="small")
    return ax
