"""Drawings of folds against data: their distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..normalization.fold_distances import FoldDistances
from ._axes import new_axes
from .style import name_places

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
