"""Pictures of experiments and gallery scripts: clouds of samples, shares of classes, the tree model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from splinescope import InputError
from splinescope.plot._axes import CLASS_COLORS, new_axes
from splinescope.plot.style import ink
from splinescope.support.checks import as_float64_array, require

from .random_layers.tree_model import tree_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_cloud(
    samples: Any, ax: Axes | None = None, *, x: Any = None, title: str = "", limit: float | None = None
) -> Axes:
    """Samples in the plane as dots, over data in gray."""
    ax = new_axes(ax, figsize=(4, 4))
    if x is not None:
        known = np.asarray(x, float)
        ax.scatter(known[:, 0], known[:, 1], s=4, c="0.8", linewidths=0, rasterized=True)
    drawn = np.asarray(samples, float)
    ax.scatter(drawn[:, 0], drawn[:, 1], s=5, c=CLASS_COLORS[4], linewidths=0, alpha=0.6, rasterized=True)
    ax.set_aspect("equal")
    if limit is not None:
        ax.set(xlim=(-limit, limit), ylim=(-limit, limit))
    ax.set(xlabel="$x_1$", ylabel="$x_2$", title=title)
    return ax


def plot_class_shares(shares: dict[str, Any], ax: Axes | None = None, *, spread: dict[str, Any] | None = None) -> Axes:
    """Shares of classes `[C]`, a group of bars per class and a bar per name; `spread` draws error bars."""
    ax = new_axes(ax, figsize=(6, 3.5))
    width = 0.8 / len(shares)
    for i, (name, values) in enumerate(shares.items()):
        numbers = np.asarray(values, float)
        places = np.arange(len(numbers)) + (i - (len(shares) - 1) / 2) * width
        error = None if spread is None else np.asarray(spread[name], float)
        ax.bar(places, numbers, width, yerr=error, label=name, color=CLASS_COLORS[i], edgecolor="black", linewidth=0.4)
    classes = len(numbers)
    ax.axhline(1 / classes, color=ink(), linewidth=0.8, linestyle="--")
    ax.set(xticks=range(classes), xlabel="class", ylabel="share of samples")
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def plot_tree(values: Sequence[float] | Any, depth: int = 3, ax: Axes | None = None) -> Axes:
    """The tree model of a row, up to 5 layers: each node is a row, as the sizes of its clusters from the zeros up.

    `4·1³` is a cluster of 4 and three single points. Left child: `relu(mean - x)`; right child:
    `relu(x - mean)`. Color tells the number of clusters.
    """
    if not 0 <= depth <= 5:
        raise InputError(f"depth must lie in 0..5 to stay legible, got {depth}.")
    x = as_float64_array(values, "values")
    colors = require("matplotlib", "plot").colormaps["cividis"]
    ax = new_axes(ax)
    most = len(np.unique(x))
    seen: dict[int, Any] = {}
    for layer in range(depth + 1):
        rows = tree_rows(x, layer)[::-1] if layer else x[None]
        for i, row in enumerate(rows):
            at = ((i + 0.5) / len(rows), -layer)
            if layer:
                parent = ((i // 2 + 0.5) / (len(rows) // 2), 1 - layer)
                ax.plot(*zip(parent, at, strict=True), color="0.75", linewidth=1, zorder=1)
            sizes = np.unique(np.round(row - row.min(), 12), return_counts=True)[1]
            color = colors((len(sizes) - 2) / max(most - 2, 1))
            dark = np.dot(color[:3], (0.3, 0.6, 0.1)) < 0.5
            box = {"boxstyle": "round,pad=0.3", "facecolor": color, "edgecolor": "none"}
            turn, size = (0, 9) if len(rows) <= 8 else (90, 7)
            text = ax.text(*at, _composition(sizes.tolist()), ha="center", va="center", bbox=box, zorder=2)
            text.set(rotation=turn, fontsize=size, color="w" if dark else "k")
            seen.setdefault(len(sizes), color)
    for count in sorted(seen):
        ax.scatter([], [], color=seen[count], marker="s", label=f"{count} clusters")
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=min(len(seen), 5), fontsize="small")
    ax.set(xlim=(0, 1), ylim=(-depth - 0.5, 0.4))
    ax.set_yticks([-layer for layer in range(depth + 1)], [str(layer) for layer in range(depth + 1)])
    ax.set(ylabel="layer", xticks=[], xlabel="cluster sizes, 1³ for 1·1·1; left: below the mean, right: above it")
    for side in ("top", "right", "bottom", "left"):
        ax.spines[side].set_visible(False)
    return ax


def _composition(sizes: list[int]) -> str:
    """Cluster sizes with runs as powers: [4, 1, 1, 1] is 4·1³."""
    runs = [(size, len(list(run))) for size, run in itertools.groupby(sizes)]
    powers = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    return "·".join(f"{size}{str(count).translate(powers) if count > 1 else ''}" for size, count in runs)
