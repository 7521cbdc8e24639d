"""Drawings of generators: the manifold's facets, maps over latent slices, grids of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.checks import require
from ..support.errors import InputError
from ._axes import frame, new_axes, space_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..generative.exact import TiledManifold
    from ..tiling import Slice


def plot_manifold(manifold: TiledManifold, ax: Axes | None = None, *, colorbar: bool = True) -> Axes:
    """The image of a 2-D latent slice in space, a flat facet per tile, colored by its volume factor (Figure 10).

    Of more than 3 outputs the 3 principal components are drawn.
    """
    values = manifold.corner_outputs
    if values.shape[1] < 3:
        raise InputError(f"a manifold in space needs a generator of at least 3 outputs, got {values.shape[1]}.")
    if values.shape[1] > 3:
        centered = values - values.mean(0)
        values = centered @ np.linalg.svd(centered, full_matrices=False)[2][:3].T
    facets = [values[manifold.tiling.tiles[i]] for i in range(manifold.tiling.count)]
    return plot_facets(facets, manifold.volumes, ax, colorbar=colorbar)


def plot_facets(facets: Sequence[Any], volumes: Any, ax: Axes | None = None, *, colorbar: bool = True) -> Axes:
    """Flat polygons `[n, 3]` in space, colored by a volume factor each, on a logarithmic scale (zero: gray)."""
    art3d, colors = require("mpl_toolkits.mplot3d.art3d", "plot"), require("matplotlib.colors", "plot")
    cm, viridis = require("matplotlib.cm", "plot"), require("matplotlib", "plot").colormaps["viridis"]
    space = space_axes(ax, 30.0, -60.0)
    numbers = np.asarray(volumes, float)
    positive = numbers[numbers > 0]
    low, high = np.quantile(positive, [0.01, 0.99]) if len(positive) else (1.0, 1.0)
    norm = colors.LogNorm(low, high if high > low else 1.01 * low, clip=True)
    shades = viridis(norm(np.where(numbers > 0, numbers, low)))
    shades[numbers <= 0] = colors.to_rgba("lightgray")
    longest = max(len(f) for f in facets)
    # shorter facets repeat their last corner: matplotlib would pad them with memory it has not set
    padded = np.stack([np.concatenate([f, np.repeat(np.asarray(f)[-1:], longest - len(f), 0)]) for f in facets])
    space.add_collection3d(
        art3d.Poly3DCollection(padded, facecolors=shades, edgecolors=(0, 0, 0, 0.5), linewidths=0.25), autolim=False
    )
    flat = padded.reshape(-1, 3)
    for setter, values in zip((space.set_xlim, space.set_ylim, space.set_zlim), flat.T, strict=True):
        setter(values.min(), values.max())
    for axis in (space.xaxis, space.yaxis, space.zaxis):
        axis.set_major_locator(require("matplotlib.ticker", "plot").MaxNLocator(4))
    space.set(xlabel="$x_1$", ylabel="$x_2$")
    space.set_zlabel("$x_3$", labelpad=8)
    space.set_box_aspect(None, zoom=0.85)  # room for the labels
    if colorbar:
        space.figure.colorbar(
            cm.ScalarMappable(norm, viridis), ax=space, label=r"volume factor $\sqrt{\det A^T A}$", shrink=0.7, pad=0.12
        )
    return space


def plot_geometry_map(
    view: Slice, points: Any, values: Any, ax: Axes | None = None, *, label: str = "", cmap: str = "viridis"
) -> Axes:
    """A descriptor over a 2-D latent slice, from `geometry_map`: `points` `[R^2, 2]`, `values` `[R^2]`."""
    numbers, places = np.asarray(values, float), np.asarray(points, float)
    side = round(len(numbers) ** 0.5)
    if side * side != len(numbers) or places.shape != (len(numbers), 2):
        raise InputError(f"values and points must be on a square grid, got {numbers.shape} and {places.shape}.")
    ax = new_axes(ax, figsize=(5.5, 4.5))
    grid = places.reshape(side, side, 2)
    mesh = ax.pcolormesh(grid[0, :, 0], grid[:, 0, 1], numbers.reshape(side, side), cmap=cmap, rasterized=True)
    ax.figure.colorbar(mesh, ax=ax, label=label)
    frame(ax, view)
    return ax


def image_grid(images: Any, columns: int | None = None) -> np.ndarray:
    """Images `[N, H, W]`, `[N, 1 or 3, H, W]` or `[N, pixels of a square]` as one picture, values in [0, 1].

    Values outside [0, 1] are scaled so that the extremes of all images are 0 and 1; between images lies a white line.
    """
    array = np.asarray(images, float)
    if array.ndim == 2:
        side = round(array.shape[1] ** 0.5)
        if side * side != array.shape[1]:
            raise InputError(f"flat images must be squares, got {array.shape[1]} numbers each.")
        array = array.reshape(-1, side, side)
    if array.ndim == 4 and array.shape[1] in (1, 3):
        array = np.moveaxis(array, 1, 3)
        array = array[..., 0] if array.shape[3] == 1 else array
    if len(array) == 0 or array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] != 3):
        raise InputError(f"images must have shape (N, H, W), (N, 1 or 3, H, W) or (N, H*W), got {np.shape(images)}.")
    low, high = float(array.min()), float(array.max())
    if low < 0 or high > 1:
        array = (array - low) / (high - low)
    count = len(array)
    across = columns or int(np.ceil(count**0.5))
    down = -(-count // across)
    height, width = array.shape[1:3]
    canvas = np.ones((down * (height + 1) - 1, across * (width + 1) - 1, *array.shape[3:]))
    for i, image in enumerate(array):
        top, left = (i // across) * (height + 1), (i % across) * (width + 1)
        canvas[top : top + height, left : left + width] = image
    return canvas


def plot_images(images: Any, ax: Axes | None = None, *, columns: int | None = None, title: str = "") -> Axes:
    """Images as a grid; shapes as in `image_grid`."""
    ax = new_axes(ax, figsize=(5, 5))
    ax.imshow(image_grid(images, columns), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    ax.set(xticks=[], yticks=[], title=title)
    return ax
