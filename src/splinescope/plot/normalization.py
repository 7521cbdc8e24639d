"""Drawings of folds against data: distances, densities, jittering boundaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..normalization.fold_distances import FoldDistances
from ..normalization.jitter import BoundaryJitter
from ..support.checks import require
from ._axes import new_axes
from .style import ink, name_places

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE = "#3b528b", "#d55e00"


def plot_fold_distances(distances: FoldDistances, ax: Axes | None = None) -> Axes:
    """Per site, rms distances of the data to the channels' folds as they are and at their best offsets.

    Lines are medians over channels, bands from the first to the third quartile.
    """
    ax = new_axes(ax)
    places = [site.number for site in distances]
    for label, color, values in (
        ("as they are", ORANGE, [site.rms for site in distances]),
        ("best offset (batch norm's)", BLUE, [site.best_rms for site in distances]),
    ):
        low, middle, high = np.array([np.percentile(v[np.isfinite(v)], (25, 50, 75)) for v in values]).T
        ax.plot(places, middle, marker="o", color=color, label=label)
        ax.fill_between(places, low, high, color=color, alpha=0.2, linewidth=0)
    name_places(ax, [each.site.label for each in distances], "site", places)
    ax.set_ylabel("rms distance of data to a fold")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return ax


def plot_boundary_jitter(jitter: BoundaryJitter, ax: Axes | None = None, *, points: Any = None, y: Any = None) -> Axes:
    """The ensemble of decision boundaries over minibatches, the one with full statistics on top."""
    require("matplotlib", "plot")
    from matplotlib.collections import LineCollection

    ax = new_axes(ax)
    for boundary in jitter.boundaries:
        ax.add_collection(LineCollection(list(boundary.segments), colors=BLUE, linewidths=0.7, alpha=0.35))
    ax.add_collection(LineCollection(list(jitter.full.segments), colors=ink(), linewidths=1.8))
    ax.plot([], [], color=BLUE, alpha=0.6, label="one minibatch")
    ax.plot([], [], color=ink(), label="all data")
    if points is not None:
        places = np.asarray(points)
        ax.scatter(places[:, 0], places[:, 1], c=y, s=12, cmap="cividis", edgecolors="white", linewidths=0.4)
    ax.autoscale_view()
    ax.set(aspect="equal", xlabel="$t_1$", ylabel="$t_2$")
    ax.legend(loc="upper right", fontsize="small")
    return ax
