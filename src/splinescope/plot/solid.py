"""Stills of 3-D tilings and surfaces: cells, pulled apart if wished, and meshes, shaded by their normals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.checks import check_whole, require
from ..support.errors import InputError
from ..tiling.cells.polytopes import Facets
from ..tiling.measures.folds import need_tiling
from ..tiling.measures.quantities import tile_quantity
from ..tiling.measures.surfaces import SurfaceMesh
from ._axes import space_axes
from .tiling import shading

if TYPE_CHECKING:
    from mpl_toolkits.mplot3d.axes3d import Axes3D

    from ..tiling import Tiling

_LIGHT = np.array([0.3, -0.5, 0.8]) / np.linalg.norm([0.3, -0.5, 0.8])


def plot_cells(
    tiling: Tiling, color: str = "slope", ax: Axes3D | None = None, *, pull: float = 0.0, colorbar: bool = True,
    max_faces: int = 60_000,
) -> Axes3D:  # fmt: skip
    """The cells of a 3-D tiling, colored by a quantity of tiles, on 3-D axes.

    `pull` moves cells away from the middle by this many times their distance from it; 0 draws the outside alone. More
    than `max_faces` are refused: matplotlib sorts and draws them one by one.
    """
    need_tiling(tiling)
    walls = tiling.walls
    if tiling.dimension != 3 or not isinstance(walls, Facets):
        raise InputError(f"plot_cells draws 3-D tilings, got a {tiling.dimension}-D one.")
    check_whole(max_faces, "max_faces")
    outer = walls.tiles[:, 1] < 0
    faces = np.flatnonzero(outer) if pull == 0 else np.arange(len(walls))
    owners = [walls.tiles[faces, 0]]
    if pull != 0:
        inner = faces[~outer]
        faces, owners = np.concatenate([faces, inner]), [*owners, walls.tiles[inner, 1]]
    if len(faces) > max_faces:
        raise InputError(f"{len(faces)} faces are over max_faces={max_faces}: draw the outside (pull=0).")
    owner = np.concatenate(owners)
    middle = tiling.view.domain.mean(0)
    shift = pull * (tiling.centroids() - middle)
    polygons = [tiling.vertices[walls[int(f)]] + shift[t] for f, t in zip(faces, owner, strict=True)]
    quantity = tile_quantity(tiling, color)
    table, norm = shading(quantity)
    shades = table(norm(quantity.values[owner]))
    ax = space_axes(ax)
    collection = require("mpl_toolkits.mplot3d.art3d", "plot").Poly3DCollection(
        polygons, facecolors=shades, edgecolors="black", linewidths=0.2
    )
    ax.add_collection3d(collection, autolim=False)  # matplotlib pads shorter faces with memory it has not set
    reach = np.concatenate(polygons) if polygons else tiling.view.domain
    _frame(ax, reach.min(0), reach.max(0), "xyz")
    if colorbar:
        mappable = require("matplotlib.cm", "plot").ScalarMappable(norm, table)
        bar = ax.figure.colorbar(mappable, ax=ax, label=quantity.label, shrink=0.7)
        if quantity.categories is not None:
            bar.set_ticks(range(len(quantity.categories)), labels=quantity.categories)
    return ax


def plot_mesh(
    mesh: SurfaceMesh | tuple[np.ndarray, np.ndarray],
    ax: Axes3D | None = None,
    *,
    color: str = "#88a8c8",
    alpha: float = 1.0,
    elevation: float = 25.0,
    azimuth: float = -55.0,
    axes: str = "xyz",
) -> Axes3D:
    """A surface, lit from above: a `SurfaceMesh`, or (vertices `[n, 3]`, triangles `[T, 3]`).

    `axes` says which coordinates go right, back and up: "zxy" stands a shape up whose height is y.
    """
    if sorted(axes) != ["x", "y", "z"]:
        raise InputError(f"axes must be an order of x, y and z, got {axes!r}.")
    vertices, triangles = (mesh.vertices, mesh.triangles[0]) if isinstance(mesh, SurfaceMesh) else mesh
    corners = vertices[triangles][:, :, ["xyz".index(name) for name in axes]]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    light = 0.35 + 0.65 * np.abs((normals / np.where(length > 0, length, 1.0)) @ _LIGHT)
    base = np.array(require("matplotlib.colors", "plot").to_rgb(color))
    ax = space_axes(ax, elevation, azimuth)
    shades = np.column_stack([light[:, None] * base, np.full(len(light), alpha)])
    collection = require("mpl_toolkits.mplot3d.art3d", "plot").Poly3DCollection(
        corners, facecolors=shades, edgecolors=shades, linewidths=0.2 if alpha == 1.0 else 0.0
    )  # outlines in a triangle's own color close the seams that antialiasing leaves between neighbors
    collection.set_rasterized(True)
    ax.add_collection3d(collection)
    if len(corners):
        _frame(ax, corners.min((0, 1)), corners.max((0, 1)), axes)
    return ax


def _frame(ax: Any, low: np.ndarray, high: np.ndarray, names: str) -> None:
    for name, a, b, label in zip("xyz", low, high, names, strict=True):
        getattr(ax, f"set_{name}lim")(a, b)
        getattr(ax, f"set_{name}label")(f"$t_{'xyz'.index(label) + 1}$")
    ax.set_box_aspect(np.maximum(high - low, 1e-12 * (high - low).max()))
