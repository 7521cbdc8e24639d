"""Drawing of a sweep: numbers of tiles over width, a line for each depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..tiling.sweep import TileSweep


def plot_tile_sweep(sweep: TileSweep, ax: Axes | None = None) -> Axes:
    """Tiles over width on logarithmic axes, a line for each depth: medians over seeds, bands from least to most."""
    from matplotlib import colormaps

    ax = new_axes(ax, figsize=(4.2, 3.2))
    colors = colormaps["viridis"](np.linspace(0.1, 0.8, len(sweep.depths)))
    order = np.argsort(sweep.widths)
    widths = np.array(sweep.widths)[order]
    for j, depth in enumerate(sweep.depths):
        counts = sweep.counts[order, j]
        label = f"{depth} layer" + "s" * (depth != 1)
        ax.plot(widths, np.median(counts, axis=1), "o-", color=colors[j], markersize=4, label=label)
        ax.fill_between(widths, counts.min(1), counts.max(1), color=colors[j], alpha=0.2, linewidth=0)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(widths, map(str, widths))
    ax.set(xlabel="width", ylabel=f"tiles on the {'line' if sweep.view.dimension == 1 else 'slice'}")
    ax.legend(frameon=False)
    return ax
