"""Drawings of tilings: tiles, folds, boundaries, points, graphs and surfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..network.program import units_of_cuts
from ..support.checks import as_float64_array, check_index, require
from ..support.errors import InputError
from ..tiling.measures.folds import need_tiling
from ..tiling.measures.quantities import Quantity, tile_quantity
from ._axes import (
    BOUNDARY_COLOR,
    CLASS_COLORS,
    RASTER_FROM,
    WALL_COLOR,
    check_plane,
    color_bar,
    frame,
    mark_of,
    new_axes,
    slice_points,
    space_axes,
)
from ._class_pieces import ClassPieces, class_pieces
from .style import ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PathCollection
    from matplotlib.colors import Colormap, Normalize

    from ..complexity.sweep_tiles import TileSweep
    from ..tiling import Tiling

_LINES_PER_PATH = 10_000  # the renderer's memory for one path is limited
_TILES_TOGETHER = 1 << 18  # whose corners are looked up in one go


def plot_tiles(
    tiling: Tiling, color: str | np.ndarray | None = "slope", ax: Axes | None = None, *, output: int = 0,
    cmap: str = "viridis", log: bool | None = None, limits: tuple[float, float] | None = None,
    edges: bool | None = None, boundary: bool = False, anchors: bool = True, colorbar: bool = True,
    label: str | None = None,
) -> Axes:  # fmt: skip
    """The tiles of a 2-D tiling, each in the color of one of its quantities.

    Args:
        tiling: The tiling.
        color: Name of a quantity ("slope", "class", ...: see `Tiling.quantity`); or `[K]` numbers of your own; or None
            for white tiles. "class" is exact to the point: a tile is cut where its class changes.
        ax: Where to draw; a new figure by default.
        output: Which output "value" shows.
        cmap: Color map of numbers.
        log: Colors follow the logarithm; by default for slopes and areas.
        limits: Ends of the color range; for logarithms by default those that leave out 1% of the picture at each end.
        edges: Draw the walls; by default up to 20,000 tiles.
        boundary: Draw the decision boundary in red.
        anchors: Mark the points the slice was laid through.
        colorbar: Add a color bar (numbers) or a legend (classes).
        label: Text of the color bar, for numbers of your own.

    A million tiles take about 5 seconds.
    """
    check_plane(tiling, "plot_tiles")
    ax = new_axes(ax, figsize=(6, 5))
    if color is not None:
        if isinstance(color, str):
            quantity = tile_quantity(tiling, color, output=output)
        else:
            quantity = Quantity("own", label or "", as_float64_array(color, "color"))
            if (got := quantity.values.shape) != (tiling.count,):
                raise InputError(f"color must be a name or one number per tile, shape ({tiling.count},); got {got}.")
        pieces = class_pieces(tiling) if quantity.name == "class" else None
        tiles = filled_tiles(tiling, quantity, *shading(quantity, cmap=cmap, log=log, limits=limits), pieces)
        ax.add_collection(tiles, autolim=False)
        if colorbar:
            _key(ax, tiles, quantity, pieces)
    if tiling.count <= 20_000 if edges is None else edges:
        thin = float(np.clip(14.0 / np.sqrt(max(tiling.count, 1)), 0.08, 0.5))
        lines = drawn_lines(tiling.vertices[tiling.walls.ends], [WALL_COLOR], linewidth=thin)
        ax.add_collection(lines, autolim=False)
    frame(ax, tiling.view)
    if boundary:
        plot_boundary(tiling, ax)
    if anchors and len(tiling.view.anchors):
        plot_points(tiling, tiling.view.inputs(tiling.view.anchors), ax)  # a network of two inputs has both forms
    return ax


def plot_folds(tiling: Tiling, ax: Axes | None = None, *, highlight: int | None = None, colorbar: bool = True) -> Axes:
    """The walls of a 2-D tiling, each in the color of its fold's depth, with a key.

    The whole fold of the unit `highlight`, numbered over all sites, is drawn in red.
    """
    check_plane(tiling, "plot_folds")
    colors, cm = require("matplotlib.colors", "plot"), require("matplotlib.cm", "plot")
    ax = new_axes(ax, figsize=(6, 5))
    walls = tiling.walls
    inner = walls.cuts >= 0
    depth_of_site = np.array([site.depth for site in tiling.sites] or [1])
    depths = depth_of_site[walls.sites[inner]]
    deepest = int(depth_of_site.max())
    viridis = require("matplotlib", "plot").colormaps["viridis"]
    shades = viridis(np.linspace(0, 0.88, deepest))  # brighter ones fade on white
    lines = drawn_lines(tiling.vertices[walls.ends[inner]], shades, depths - 1, linewidth=0.8)
    ax.add_collection(lines, autolim=False)
    if highlight is not None:
        starts = np.cumsum([0, *(site.units for site in tiling.sites)])
        number = check_index(highlight, "highlight", int(starts[-1]))
        site = int(np.searchsorted(starts, number, side="right")) - 1
        unit = number - starts[site]
        sites, units = units_of_cuts(tiling.sites, walls.cuts)
        whole = walls.ends[(sites == site) & (units == unit)]
        chosen = drawn_lines(tiling.vertices[whole], [BOUNDARY_COLOR], linewidth=2.5)
        ax.add_collection(chosen, autolim=False)
    frame(ax, tiling.view)
    if colorbar and deepest > 1:
        norm = colors.BoundaryNorm(np.arange(0.5, deepest + 1), deepest)
        key = cm.ScalarMappable(norm, colors.ListedColormap(shades))
        bar = color_bar(ax, key, "depth of the fold")
        bar.set_ticks(np.unique(np.linspace(1, deepest, min(deepest, 8)).round()).tolist())
    return ax


def plot_tile_sweep(sweep: TileSweep, ax: Axes | None = None) -> Axes:
    """Tiles over width on logarithmic axes, a line for each depth: medians over seeds, bands from least to most."""
    from matplotlib import colormaps

    ax = new_axes(ax, figsize=(4.2, 3.2))
    order = np.argsort(sweep.widths)
    widths = np.array(sweep.widths)[order]
    for j, depth in enumerate(sweep.depths):
        counts, color = sweep.counts[order, j], colormaps["viridis"](0.1 + 0.7 * j / max(len(sweep.depths) - 1, 1))
        label = f"{depth} layer" + "s" * (depth != 1)
        ax.plot(widths, np.median(counts, axis=1), "o-", color=color, markersize=4, label=label)
        ax.fill_between(widths, counts.min(1), counts.max(1), color=color, alpha=0.2, linewidth=0)
    ax.set_xscale("log", base=2)
    ax.set(yscale="log", xlabel="width", ylabel="tiles on the slice")
    ax.set_xticks(widths, map(str, widths))
    ax.legend(frameon=False)
    return ax


def plot_boundary(
    tiling: Tiling, ax: Axes | None = None, *, color: str = BOUNDARY_COLOR, linewidth: float = 1.8
) -> Axes:
    """The decision boundary of a 2-D tiling: where the two largest outputs tie (a single output: its zero)."""
    check_plane(tiling, "plot_boundary")
    ax = new_axes(ax, figsize=(5, 5))
    lines = drawn_lines(tiling.decision_boundary().segments, [color], linewidth=linewidth, capstyle="round", zorder=3)
    ax.add_collection(lines, autolim=False)
    frame(ax, tiling.view)
    return ax


def plot_points(tiling: Tiling, points: Any, ax: Axes | None = None, *, y: Any = None, size: float = 45.0) -> Axes:
    """Points on the plane of a 2-D tiling.

    `points` are network inputs `[N, *input_shape]`, drawn at the nearest point of the plane; or, unless the network
    itself has two inputs, `[N, 2]` slice coordinates. Classes `y` `[N]` are shown as colors and marks of `size`.
    """
    check_plane(tiling, "plot_points")
    ax = new_axes(ax, figsize=(5, 5))
    t = slice_points(tiling.view, points)
    marks = ax.scatter(t[:, 0], t[:, 1], s=size, c="white", edgecolors="black", linewidths=1.0, zorder=4)
    if y is not None:
        numbers = as_float64_array(y, "y").reshape(-1).astype(int)
        if len(numbers) != len(t):
            raise InputError(f"y must be one class per point: {len(t)} expected, got {len(numbers)}.")
        path = require("matplotlib.path", "plot").Path
        outlines = {i: path(0.5 * np.concatenate([mark_of(i), mark_of(i)[:1]]), closed=True) for i in set(numbers)}
        marks.set_paths([outlines[i] for i in numbers])
        marks.set_facecolor([CLASS_COLORS[i % len(CLASS_COLORS)] for i in numbers])
        halo = require("matplotlib.patheffects", "plot").withStroke(linewidth=3.0, foreground="white")
        marks.set_path_effects([halo])  # or a point is lost on a tile of its class
    frame(ax, tiling.view)
    return ax


def plot_graph(tiling: Tiling, ax: Axes | None = None, *, boundary: bool = False) -> Axes:
    """The outputs along a 1-D tiling: straight between the vertices, which are marked; anchors are dotted lines.

    With `boundary` red lines mark the points of the decision boundary.
    """
    need_tiling(tiling)
    if tiling.dimension != 1:
        raise InputError(f"plot_graph draws 1-D tilings, got a {tiling.dimension}-D one; plot_surface draws those.")
    if tiling.values is None:
        raise InputError("the tiling stores no outputs (over 64 numbers each): tile a model that returns fewer.")
    ax = new_axes(ax, figsize=(6, 4))
    order = np.argsort(tiling.vertices[:, 0])
    t = tiling.vertices[order, 0]
    for c, values in enumerate(tiling.values[order].T):
        color = CLASS_COLORS[c % len(CLASS_COLORS)]
        ax.plot(t, values, ".-", markersize=4, linewidth=1.2, label=f"output {c}", color=color)
    for anchor in tiling.view.anchors[:, 0]:
        ax.axvline(anchor, color=ink(), linestyle=":", linewidth=1.0, zorder=0)
    for point in tiling.decision_boundary().segments[:, 0, 0] if boundary else ():
        ax.axvline(point, color=BOUNDARY_COLOR, linewidth=1.2, zorder=0)
    frame(ax, tiling.view)
    ax.set_ylabel("output")
    if tiling.values.shape[1] > 1:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return ax


def plot_surface(tiling: Tiling, ax: Axes | None = None, *, output: int = 0) -> Axes:
    """The graph of one output over a 2-D tiling: a flat facet per tile, its walls on the floor (the survey's Figure 3).

    `ax` must be 3-D axes. At most some ten thousand tiles are sensible.
    """
    check_plane(tiling, "plot_surface")
    quantity = tile_quantity(tiling, "value", output=output)
    art3d = require("mpl_toolkits.mplot3d.art3d", "plot")
    axes = space_axes(ax, 35.0, -60.0)
    assert tiling.values is not None  # tile_quantity has refused
    heights = tiling.values[:, output]
    corners = np.column_stack([tiling.vertices, heights])
    table, norm = shading(quantity)
    sizes = np.diff(tiling.tiles.offsets)[:, None]
    # shorter tiles repeat their last corner: matplotlib would pad them with memory it has not set
    places = tiling.tiles.offsets[:-1, None] + np.minimum(np.arange(sizes.max(initial=0)), sizes - 1)
    facets = art3d.Poly3DCollection(
        corners[tiling.tiles.corners[places]], linewidth=0.3, edgecolor="black", array=quantity.values,
        cmap=table, norm=norm, rasterized=tiling.count >= RASTER_FROM,
    )  # fmt: skip
    axes.add_collection3d(facets, autolim=False)
    low, high = float(heights.min()), float(heights.max())
    room = (high - low) or 1.0
    floor = low - 0.35 * room
    ends = tiling.vertices[tiling.walls.ends]
    flat = np.concatenate([ends, np.full((*ends.shape[:2], 1), floor)], 2)
    axes.add_collection3d(art3d.Line3DCollection(flat, linewidth=0.4, color="black"), autolim=False)
    frame(axes, tiling.view)
    axes.set_aspect("auto")
    axes.set_zlim(floor, high + 0.05 * room)
    axes.set_zlabel(quantity.label, labelpad=10)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(require("matplotlib.ticker", "plot").MaxNLocator(5, prune="both"))  # corners stay free
    axes.set_box_aspect(None, zoom=0.9)  # room for the labels
    return axes


def shading(
    quantity: Quantity, *, cmap: str = "viridis", log: bool | None = None, limits: tuple[float, float] | None = None
) -> tuple[Colormap, Normalize]:
    """Color map and norm of a quantity: steps for classes and small depths, else continuous."""
    colors = require("matplotlib.colors", "plot")
    if quantity.categories is not None:
        count = len(quantity.categories)
        shades = [CLASS_COLORS[i % len(CLASS_COLORS)] for i in range(count)]
        return colors.ListedColormap(shades), colors.BoundaryNorm(np.arange(count + 1) - 0.5, count)
    low, high = quantity.limits if limits is None else _ends(limits)
    try:
        table = require("matplotlib", "plot").colormaps[cmap]
    except KeyError as error:
        raise InputError(f"cmap must name a color map of matplotlib, e.g. 'viridis'; got {cmap!r}.") from error
    if quantity.steps and 0 < high - low <= 12:
        steps = int(high) - int(low) + 1
        norm = colors.BoundaryNorm(np.arange(steps + 1) + int(low) - 0.5, steps)
        return colors.ListedColormap(table(np.linspace(0, 1, steps))), norm
    logarithmic = (quantity.log if log is None else log) and 0 < low < high
    return table, colors.LogNorm(low, high, clip=True) if logarithmic else colors.Normalize(low, high, clip=True)


def filled_tiles(
    tiling: Tiling, quantity: Quantity, cmap: Colormap, norm: Normalize, pieces: ClassPieces | None = None
) -> PathCollection:
    """All tiles as one collection with a compound path per color: the cost per tile is that of its corners only.

    `pieces`, where given, stand for the tiles that they are of.
    """
    collections, paths = require("matplotlib.collections", "plot"), require("matplotlib.path", "plot")
    shade = np.minimum(np.asarray(norm(quantity.values), float), cmap.N - 1)  # a BoundaryNorm gives the number itself
    if not isinstance(norm, require("matplotlib.colors", "plot").BoundaryNorm):
        shade = np.floor(shade * (cmap.N - 1e-6))
    shade = shade.astype(np.int16)
    order = np.argsort(shade, kind="stable")
    if pieces is not None:
        order = order[~np.isin(order, pieces.tiles)]
    shades, first = np.unique(shade[order], return_index=True)
    groups = np.split(order, first[1:]) if len(order) else []
    compound = [paths.Path(*_outlines(tiling, group, paths.Path)) for group in groups]
    if pieces is not None:
        compound += [paths.Path(np.concatenate([ring, ring[:1]]), closed=True) for ring in pieces.rings]
        shades = np.concatenate([shades, pieces.classes])
    tiles = collections.PathCollection(
        compound, antialiased=False, linewidth=0.0, rasterized=tiling.count >= RASTER_FROM, cmap=cmap, norm=norm
    )
    tiles.set_facecolor(cmap(shades.astype(int)))
    return tiles


def _outlines(tiling: Tiling, chosen: np.ndarray, path: Any) -> tuple[np.ndarray, np.ndarray]:
    """Points `[n, 2]` and codes `[n]` of a path around each of some tiles: its corners, then the first one again."""
    offsets = tiling.tiles.offsets
    ends = np.concatenate([[0], np.cumsum(offsets[chosen + 1] - offsets[chosen] + 1)])
    points, codes = np.empty((ends[-1], 2)), np.full(ends[-1], path.LINETO, path.code_type)
    codes[ends[:-1]] = path.MOVETO
    codes[ends[1:] - 1] = path.CLOSEPOLY
    for first in range(0, len(chosen), _TILES_TOGETHER):  # where each corner stands takes more memory than the corners
        tiles = chosen[first : first + _TILES_TOGETHER]
        here = ends[first : first + len(tiles) + 1]
        places = np.arange(here[0], here[-1]) - np.repeat(here[:-1] - offsets[tiles], np.diff(here))
        places[here[1:] - 1 - here[0]] = offsets[tiles]
        points[here[0] : here[-1]] = tiling.vertices[tiling.tiles.corners[places]]
    return points, codes


def drawn_lines(segments: np.ndarray, colors: Any, which: np.ndarray | None = None, **style: Any) -> PathCollection:
    """Segments `[n, 2, 2]` as one collection of compound paths, colored by `colors[which]`: fast for millions."""
    collections, paths = require("matplotlib.collections", "plot"), require("matplotlib.path", "plot")
    groups = [segments] if which is None else [segments[which == i] for i in range(len(colors))]
    compound, shades = [], []
    for color, group in zip(colors, groups, strict=True):
        for part in np.array_split(group, max(1, len(group) // _LINES_PER_PATH)):
            codes = np.tile(np.array([paths.Path.MOVETO, paths.Path.LINETO], paths.Path.code_type), len(part))
            compound.append(paths.Path(part.reshape(-1, 2), codes))
            shades.append(color)
    raster = len(segments) >= 2 * RASTER_FROM  # a tile has about two walls of its own
    return collections.PathCollection(compound, facecolor="none", edgecolor=shades, rasterized=raster, **style)


def _key(ax: Axes, tiles: ScalarMappable, quantity: Quantity, pieces: ClassPieces | None) -> None:
    """A color bar for numbers; for classes, a legend of those that occur."""
    if quantity.categories is None:
        bar = color_bar(ax, tiles, quantity.label)
        if np.issubdtype(quantity.values.dtype, np.integer):  # counts
            bar.locator = require("matplotlib.ticker", "plot").MaxNLocator(integer=True, nbins=8)
            bar.update_ticks()
        return
    patches = require("matplotlib.patches", "plot")
    seen = quantity.values if pieces is None else np.concatenate([quantity.values, pieces.classes])
    present = np.unique(seen).astype(int)
    marks = [patches.Patch(color=CLASS_COLORS[i % len(CLASS_COLORS)], label=quantity.categories[i]) for i in present]
    ax.legend(handles=marks, title=quantity.label, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _ends(limits: tuple[float, float]) -> tuple[float, float]:
    ends = as_float64_array(limits, "limits")
    if ends.shape != (2,) or not ends[0] <= ends[1]:
        raise InputError(f"limits must be two numbers, the lower first; got {limits!r}.")
    return float(ends[0]), float(ends[1])
