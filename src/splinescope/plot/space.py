"""Drawings of the whole input space: the walls of one tile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..network.program import site_names
from ..space.tile import Tile
from ..support.checks import check_whole
from ..support.errors import InputError
from ._axes import CLASS_COLORS, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_tile(tile: Tile, *, count: int = 5, ax: Axes | None = None) -> Axes:
    """The nearest facets of a tile.

    For images: the input and, beside it, the smallest change that crosses each of the `count` nearest facets, red where
    pixels get brighter, each on a scale of its own. Else: the distance to every facet, nearest first, by site.
    """
    if not isinstance(tile, Tile):
        raise InputError(f"tile must be a Tile, as tile_at returns, got {type(tile).__name__}.")
    check_whole(count, "count")
    image = _as_image(tile.x)
    return _distances(tile, ax) if image is None else _changes(tile, image, count, ax)


def _as_image(x: np.ndarray) -> np.ndarray | None:
    """`[h, w]` the input as a gray image; None if it is no image."""
    if x.ndim == 3 and x.shape[0] in (1, 3):
        x = x.mean(0)
    side = int(np.sqrt(x.size))
    if x.ndim == 1 and side >= 8 and side * side == x.size:
        x = x.reshape(side, side)
    return x if x.ndim == 2 and min(x.shape) > 1 else None


def _distances(tile: Tile, ax: Axes | None) -> Axes:
    ax = new_axes(ax, figsize=(5.0, 3.2))
    names = [*site_names(tile.sites), "box"]
    for site in sorted({facet.site for facet in tile.facets}):
        own = [(i + 1, facet.distance) for i, facet in enumerate(tile.facets) if facet.site == site]
        places, distances = zip(*own, strict=True)
        color = CLASS_COLORS[site % len(CLASS_COLORS)]
        ax.plot(places, distances, "o", ms=5, color=color, label=names[site])
    ax.set(xlabel="facet, nearest plane first", ylabel="distance from x")
    ax.set_ylim(bottom=0)
    if tile.facets:
        ax.legend(title="fold of site", fontsize="small")
    ax.set_title(f"{len(tile.facets)} walls of {len(tile.normals)} halfspaces", fontsize="medium")
    return ax


def _changes(tile: Tile, image: np.ndarray, count: int, ax: Axes | None) -> Axes:
    shown = tile.facets[:count]
    ax = new_axes(ax, figsize=(1.5 * (1 + len(shown)) + 0.3, 2.4))
    names = [*(site.label for site in tile.sites), "box"]
    height, width = image.shape
    gap = max(1, width // 8)
    places = [i * (width + gap) for i in range(1 + len(shown))]
    ax.imshow(image, cmap="gray", extent=(0, width, height, 0))
    ax.text(width / 2, -0.06 * height, "x", ha="center", fontsize="small")
    for facet, left in zip(shown, places[1:], strict=True):
        change = (facet.nearest - tile.x).reshape(tile.x.shape)
        picture = _as_image(change)
        assert picture is not None
        largest = max(float(np.abs(picture).max()), 1e-300)
        ax.imshow(picture, cmap="RdBu_r", vmin=-largest, vmax=largest, extent=(left, left + width, height, 0))
        label = f"{names[facet.site]}\nunit {facet.unit}\n{facet.distance:.3g} away"
        ax.text(left + width / 2, -0.06 * height, label, ha="center", fontsize="small")
    ax.set(xlim=(0, places[-1] + width), ylim=(height, 0), xticks=[], yticks=[])
    ax.set_xlabel("the input, and the smallest change that crosses each of its nearest walls", fontsize="small")
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax
