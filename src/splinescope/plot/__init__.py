"""Drawings: a function takes a result and an Axes, and returns the Axes. None of them calls `plt.show()`.

In: results. Out: Axes, films, self-contained pages. Imports `landscape`, `meanfield`, `network`, `normalization`,
`representation`, `space`, `tiling` and `support`.
"""

from .solid import plot_cells
from .tiling import plot_boundary, plot_folds, plot_graph, plot_points, plot_surface, plot_tiles, shading
from .timeline import film

__all__ = [
    "film",
    "plot_boundary",
    "plot_cells",
    "plot_folds",
    "plot_graph",
    "plot_points",
    "plot_surface",
    "plot_tiles",
    "shading",
]
