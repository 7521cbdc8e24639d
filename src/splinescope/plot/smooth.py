"""Drawings of networks that are not piecewise affine: tokens in layers, reach of local maps, soft tiles, steering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..support.checks import check_index
from ..support.errors import InputError
from ._axes import BOUNDARY_COLOR, color_bar, frame, new_axes
from .style import ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..smooth.map_results import Validity
    from ..smooth.posterior import EntropyMap
    from ..smooth.steering import Steering
    from ..smooth.tokens import TokenGeometry

_LABELS = {
    "active": "share of active gates",
    "nearest": "distance to the nearest fold",
    "folds": "folds within {radius:g}",
    "mean": "mean signed distance to folds",
    "std": "deviation of distances to folds",
    "attention": "effective number of tokens seen",
}


_LABELLED = 100  # tokens; of more, some labels would read like a text that is not there


def plot_tokens(
    geometry: TokenGeometry,
    quantity: str = "nearest",
    *,
    row: int = 0,
    tokens: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
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
    ax.set(ylabel="layer", yticks=_few(len(values)))
    if tokens is None or count > _LABELLED:
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


def plot_entropy(entropy: EntropyMap, site: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Where on a plane a network is undecided which tile it is in: bits of the soft assignment, bright along folds."""
    ax = new_axes(ax)
    if site is not None and site not in entropy.paths:
        raise InputError(f"site must be one of {', '.join(map(repr, entropy.paths))}, got {site!r}.")
    chosen = [i for i, path in enumerate(entropy.paths) if site in (None, path)]
    low, high = entropy.view.domain.min(0), entropy.view.domain.max(0)
    image = ax.imshow(
        entropy.entropy[chosen].sum(0), origin="lower", extent=(low[0], high[0], low[1], high[1]), cmap="magma", vmin=0
    )
    frame(ax, entropy.view)
    ax.scatter(entropy.view.anchors[:, 0], entropy.view.anchors[:, 1], s=30, color="white", edgecolor="black")
    color_bar(ax, image, f"entropy of the tile (bits), beta = {entropy.beta:g}")
    return ax


def plot_steering(steering: Steering, *, ax: Axes | None = None) -> Axes:
    """Accuracy, accuracy under attack (left scale) and curvature of the boundary (right scale) against beta."""
    ax = new_axes(ax)
    ax.plot(steering.betas, steering.accuracy, "o-", color="#332288", label="accuracy")
    ax.plot(steering.betas, steering.robust, "s-", color="#117733", label=f"under {steering.norm} {steering.epsilon:g}")
    ax.set(ylim=(0, 1.02), xlabel="beta (1 is the network itself)", ylabel="share of points")
    right = ax.twinx()
    right.errorbar(
        steering.betas, steering.curvature, 2 * steering.curvature_error, fmt="^--", capsize=2, color=BOUNDARY_COLOR,
        label="turn of the boundary",
    )  # fmt: skip
    right.set_ylabel("radians per unit of distance")
    right.set_ylim(bottom=0)
    handles, labels = (
        a + b for a, b in zip(ax.get_legend_handles_labels(), right.get_legend_handles_labels(), strict=True)
    )
    ax.legend(handles, labels, frameon=False, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
    return ax


def _few(count: int) -> list[int]:
    return np.unique(np.linspace(0, count - 1, min(count, 12)).round().astype(int)).tolist()
