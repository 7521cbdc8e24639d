"""Drawings of a batch through depth: series, angles and projections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..representation.geometry import RepresentationGeometry
from ..representation.measures import ANGLE_BINS, LayerGeometry
from ..support.checks import require
from ._axes import new_axes
from .style import house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLUSTER, ODD = "#3b528b", "#d55e00"
"""Viridis blue for the many, vermilion for the one: told apart by every common kind of color blindness."""


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
    geometry: RepresentationGeometry, quantity: str | Callable[[LayerGeometry], float] = "effective_rank",
    ax: Axes | None = None, *, label: str | None = None,
) -> Axes:  # fmt: skip
    """One number along depth: any name or function that `RepresentationGeometry.series` takes."""
    ax = new_axes(ax)
    ax.plot(range(len(geometry)), geometry.series(quantity), marker=".", label=label)
    ax.set_xlabel("place in the network (0 = input)")
    ax.set_ylabel(quantity.replace("_", " ") if isinstance(quantity, str) else getattr(quantity, "__name__", ""))
    return ax


def plot_angle_histogram(layer: LayerGeometry, ax: Axes | None = None, *, label: str | None = None) -> Axes:
    """Histogram of the pairwise angles of one layer."""
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
