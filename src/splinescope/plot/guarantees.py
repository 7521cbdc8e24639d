"""Unsafe sets on lines, planes and in space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.checks import check_index, require
from ..support.errors import InputError
from ._axes import RASTER_FROM, frame, new_axes
from .solid import _frame, plot_mesh

if TYPE_CHECKING:
    from ..guarantees.verdict import UnsafeSet

_FLAT = 1e-12  # of the slice's volume: what no picture shows


def plot_unsafe(
    unsafe: UnsafeSet, ax: Any = None, *, part: int = 0, color: str = "#cc6677", alpha: float | None = None
) -> Any:
    """The unsafe polytopes of a slice of up to three dimensions, in the frame of the whole slice.

    On a line they are bands, on a plane polygons that may lie over `plot_tiles`, in space solids.

    Args:
        unsafe: What `verify(..., complete=True).unsafe` is. Of a set of more dimensions, draw the slices you ask about:
            `verify(model, property, Slice.axes(...), complete=True)`.
        ax: Axes (3-D axes for three dimensions); those of a new figure by default.
        part: Which of its slices, if it has several.
        color, alpha: Of the polytopes; solids are translucent by default.
    """
    check_index(part, "part", len(unsafe.view))
    view = unsafe.view[part]
    chosen = [p for p, of in zip(unsafe.polytopes, unsafe.parts, strict=True) if of == part]
    if view.dimension > 3:
        raise InputError(
            f"unsafe sets are drawn in 1 to 3 dimensions, this one has {view.dimension}: verify on a Slice of two or "
            "three of them, e.g. Slice.axes(verdict.witness.x, (0, 1), low, high)."
        )
    if view.dimension == 3:
        large = unsafe.volumes[unsafe.parts == part] > _FLAT * view.size
        ax = plot_mesh(_outsides([p for p, seen in zip(chosen, large, strict=True) if seen]), ax, color=color,
                       alpha=0.6 if alpha is None else alpha)  # fmt: skip
        _frame(ax, view.domain.min(0), view.domain.max(0), "xyz")
        return ax
    ax = new_axes(ax)
    if view.dimension == 1:
        for ends in chosen:
            ax.axvspan(ends.min(), ends.max(), color=color, alpha=0.4 if alpha is None else alpha, lw=0)
    else:
        collections = require("matplotlib.collections", "plot")
        drawn = collections.PolyCollection(chosen, facecolors=color, edgecolors="white", linewidths=0.2, alpha=alpha)
        drawn.set_rasterized(len(chosen) >= RASTER_FROM)
        ax.add_collection(drawn)
    frame(ax, view)
    return ax


def _outsides(polytopes: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Vertices `[n, 3]` and triangles `[T, 3]` of the hulls of corners."""
    from scipy.spatial import ConvexHull, QhullError

    vertices, triangles, count = [np.zeros((0, 3))], [np.zeros((0, 3), np.int64)], 0
    for corners in polytopes:
        try:
            found = ConvexHull(corners).simplices
        except QhullError:  # flat up to rounding: nothing to see
            continue
        vertices.append(corners)
        triangles.append(found.astype(np.int64) + count)
        count += len(corners)
    return np.concatenate(vertices), np.concatenate(triangles)
