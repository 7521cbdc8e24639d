"""Drawings of a batch through depth: series, angles, projections, activity, and the tree model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..representation.geometry import RepresentationGeometry
from ..representation.gram import arc_cosine
from ..representation.measures import LayerGeometry
from ..representation.tree import tree_rows
from ..support.checks import as_float64_array, require
from ..support.errors import InputError
from ._axes import new_axes
from .style import house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLUSTER, ODD = "#3b528b", "#d55e00"
"""Viridis blue for the many, vermilion for the one: told apart by every common kind of colour blindness."""


def plot_overview(geometry: RepresentationGeometry) -> Figure:
    """Four panels: ranks along depth, mean angle along depth, angles at the end, the last layer in the plane."""
    with house_style():
        figure, axes = require("matplotlib.pyplot", "plot").subplots(2, 2, figsize=(10, 7.5), layout="constrained")
    ranks, angle, histogram, plane = axes.ravel()
    for quantity in ("rank", "effective_rank", "stable_rank"):
        plot_depth(geometry, quantity, ranks, label=quantity.replace("_", " "))
    ranks.set_ylabel("dimensions")
    ranks.set_ylim(bottom=0)
    ranks.legend(frameon=False)
    plot_depth(geometry, "mean_angle", angle)
    angle.set_ylabel("mean angle of two points (degrees)")
    plot_angle_histogram(geometry[0], histogram, label=geometry[0].name)
    plot_angle_histogram(geometry[-1], histogram, label=geometry[-1].name)
    histogram.legend(frameon=False)
    plot_projection(geometry[-1], plane)
    plane.set_title(f"{geometry[-1].name}, random projection", fontsize="medium")
    made: Figure = figure
    return made


def plot_depth(
    geometry: RepresentationGeometry,
    quantity: str | Callable[[LayerGeometry], float] = "effective_rank",
    ax: Axes | None = None,
    *,
    label: str | None = None,
) -> Axes:
    """One number along depth: any name or function that `RepresentationGeometry.series` takes."""
    ax = new_axes(ax)
    ax.plot(range(len(geometry)), geometry.series(quantity), marker=".", label=label)
    ax.set_xlabel("place in the network (0 = input)")
    ax.set_ylabel(quantity.replace("_", " ") if isinstance(quantity, str) else getattr(quantity, "__name__", ""))
    return ax


def plot_angles(before: LayerGeometry, after: LayerGeometry, ax: Axes | None = None, *, kernel: bool = False) -> Axes:
    """Pairwise angles before against after; `kernel` adds what a wide plain ReLU layer does, arccos J(cos)."""
    ax = new_axes(ax)
    x, y = before.angles(), after.angles()
    ax.scatter(x, y, s=8, alpha=0.5, color=CLUSTER, edgecolors="none", rasterized=len(x) > 2000)
    ax.plot([0, 180], [0, 180], color="0.6", linewidth=1, label="unchanged")
    if kernel:
        degrees = np.linspace(0, 180, 200)
        after_relu = np.degrees(np.arccos(arc_cosine(np.cos(np.radians(degrees)))))
        ax.plot(degrees, after_relu, color=ODD, linewidth=1, label="wide ReLU layer")
    low, high = np.nanmin([x, y]), np.nanmax([x, y])  # nan: a point at 0 has no angle
    pad = 0.05 * (high - low) + 0.5
    ax.set(xlim=(low - pad, high + pad), ylim=(low - pad, high + pad), xlabel=f"angle at {before.name} (degrees)")
    ax.set_ylabel(f"angle at {after.name} (degrees)")
    ax.legend(frameon=False)
    return ax


def plot_angle_histogram(layer: LayerGeometry, ax: Axes | None = None, *, label: str | None = None) -> Axes:
    """Histogram of the pairwise angles of one layer."""
    from ..representation.measures import ANGLE_BINS

    ax = new_axes(ax)
    share = layer.angle_counts / max(layer.angle_counts.sum(), 1)
    ax.stairs(share, ANGLE_BINS, fill=True, alpha=0.6, label=label)
    ax.axvline(90, color="0.6", linewidth=1, linestyle=":")
    ax.set(xlim=(0, 180), xlabel="angle between two points (degrees)", ylabel="share of pairs")
    return ax


def plot_projection(layer: LayerGeometry, ax: Axes | None = None) -> Axes:
    """Random projection of the batch to the plane, the odd point marked."""
    ax = new_axes(ax)
    odd = layer.odd
    others = np.ones(layer.n, dtype=bool)
    if odd is not None:
        others[odd.index] = False
        x, y = layer.projection[[odd.index]].T
        ax.scatter(x, y, s=70, marker="*", color=ODD, zorder=3, label=f"odd point ({odd.index})")
    x, y = layer.projection[others].T
    ax.scatter(x, y, s=14, color=CLUSTER, alpha=0.7, edgecolors="none", label="the others")
    ax.scatter([0], [0], marker="+", color="0.4", label="origin")
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xlabel="random direction 1", ylabel="random direction 2")
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_activity(layer: LayerGeometry, ax: Axes | None = None, *, label: str | None = None) -> Axes:
    """Histogram over units of the share of the batch on which a unit is active."""
    ax = new_axes(ax)
    ax.hist(layer.active_fraction, bins=np.linspace(0, 1, 26).tolist(), alpha=0.6, label=label)
    ax.set(xlim=(0, 1), xlabel="share of inputs on which a unit is active", ylabel="units")
    return ax


def plot_tree(values: Sequence[float] | Any, depth: int = 3, ax: Axes | None = None) -> Axes:
    """The tree model of a row, up to 5 layers: each node is a row, as the sizes of its clusters from the zeros up.

    `4·1³` is a cluster of 4 and three single points. Left child: `relu(mean - x)`; right child:
    `relu(x - mean)`. Colour tells the number of clusters.
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
