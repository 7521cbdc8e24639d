"""What all drawings share: axes, color bars, labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.checks import as_float64_array, require
from ..support.errors import InputError
from ..tiling.measures.folds import need_tiling
from .style import house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.transforms import Bbox

    from ..tiling import Slice, Tiling

BOUNDARY_COLOR = "#e00000"
WALL_COLOR = "#1c1c28"
CLASS_COLORS = ("#88ccee", "#cc6677", "#ddcc77", "#117733", "#332288", "#aa4499", "#44aa99", "#999933", "#882255",
                "#661100", "#6699cc", "#888888")  # fmt: skip
"""Paul Tol's muted scheme: distinct for color-blind readers. The page uses the same."""
_MARKS = ((24, 0, 1), (4, 0.125, 1.2), (3, 0.25, 1.4), (4, 0, 1.3), (3, -0.25, 1.4), (5, 0.25, 1.2), (6, 0, 1.1),
          (8, 0.0625, 1.1))  # fmt: skip
"""Of a class's mark the number of corners, the first one's angle in turns, and the size; the page has the same."""
RASTER_FROM = 2000
"""From this many tiles on, vector files hold the tiles as an image: thousands of polygons make them unreadable."""


def new_axes(ax: Axes | None, **options: Any) -> Axes:
    """`ax`, or axes of a new figure in the house style."""
    if ax is not None:
        return ax
    pyplot = require("matplotlib.pyplot", "plot")
    with house_style():
        axes: Axes = pyplot.subplots(layout="constrained", **options)[1]
    return axes


def space_axes(ax: Any, elevation: float = 25.0, azimuth: float = -55.0) -> Any:
    """`ax`, refused if it is flat, or 3-D axes of a new figure; seen from above."""
    space: Any = new_axes(ax, figsize=(6.5, 5.5), subplot_kw={"projection": "3d"})
    if not hasattr(space, "add_collection3d"):
        raise InputError("ax must be 3-D axes, e.g. plt.subplots(subplot_kw={'projection': '3d'})[1].")
    space.view_init(elevation, azimuth)
    return space


def mark_of(label: int) -> np.ndarray:
    """Corners `[n, 2]` of the mark of a class about the origin: circle, square, triangle, ...; told apart in gray."""
    count, turn, size = _MARKS[label % len(_MARKS)]
    angles = 2 * np.pi * (turn + np.arange(count) / count)
    return size * np.stack([np.cos(angles), np.sin(angles)], 1)


def color_bar(ax: Axes, key: ScalarMappable, label: str) -> Colorbar:
    """A color bar beside the axes and as tall as they are, also where an aspect leaves them less than their room."""
    bar = ax.figure.colorbar(key, ax=ax, label=label)
    plain_logarithms(bar)
    bbox = require("matplotlib.transforms", "plot").Bbox

    def beside(cax: Any, _renderer: object) -> Bbox:
        ax.apply_aspect()
        room, box = cax.get_position(original=True), ax.get_position()
        left = min(room.x0, box.x1 + room.width)
        return bbox.from_bounds(left, box.y0, room.width, box.height)

    beside.get_subplotspec = bar.ax.get_subplotspec  # type: ignore[attr-defined]  # tight_layout asks locators for it
    bar.ax.set_axes_locator(beside)
    return bar


def plain_logarithms(bar: Colorbar) -> None:
    """On a logarithmic color bar of less than a hundred times, ticks as 8, 10, 12 and not as powers of ten."""
    colors, ticker = require("matplotlib.colors", "plot"), require("matplotlib.ticker", "plot")
    low, high = bar.norm.vmin, bar.norm.vmax
    if not isinstance(bar.norm, colors.LogNorm) or low is None or high is None:
        return
    if high > 100 * low or not 1e-3 <= low <= high <= 1e4:
        return
    bar.locator = ticker.MaxNLocator(6) if high < 4 * low else ticker.LogLocator(subs=(1.0, 2.0, 5.0))
    bar.formatter = ticker.FuncFormatter(lambda value, _place: f"{value:g}")
    bar.minorlocator = ticker.NullLocator()
    bar.update_ticks()


def frame(ax: Axes, view: Slice) -> None:
    """Limits, aspect and labels of a slice's plane (1-D: of its line)."""
    low, high = view.domain.min(0), view.domain.max(0)
    ax.set(xlim=(low[0], high[0]), xlabel="$t_1$" if view.dimension == 2 else "$t$")
    if view.dimension == 2:
        ax.set(ylim=(low[1], high[1]), aspect="equal", ylabel="$t_2$")


def check_plane(tiling: Tiling, what: str) -> None:
    need_tiling(tiling)
    if tiling.dimension != 2:
        raise InputError(f"{what} draws 2-D tilings, got a {tiling.dimension}-D one; plot_graph draws those.")


def slice_points(view: Slice, points: Any) -> np.ndarray:
    """`[N, d]` slice coordinates of points given so, or as network inputs `[N, *input_shape]` (projected)."""
    array = as_float64_array(points, "points")
    if array.ndim == 2 and array.shape[1] == view.dimension and array.shape[1:] != view.input_shape:
        return array
    return view.coordinates(array)
