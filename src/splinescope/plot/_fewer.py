"""Which tiles of a very large tiling a page has: more than a browser holds are told by the largest among them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._archive import forget_pages
from .._compile import jit
from ..tiling.cells import Cells
from ..tiling.maps import gather_tiles

if TYPE_CHECKING:
    from ..tiling import Tiling

CELLS = 1024
"""Cells along the longer side of the raster that stands for tiles which are left out."""
_TOUCHED = 1e-6  # weight of a tile in cells beside that of its middle: seen where nothing else is


@dataclass(frozen=True)
class Shown:
    """Attributes:
    tiling: What is drawn: all tiles, or some of them.
    numbers: `[k]` their numbers in the whole; None if all are there.
    raster: For the viewer: what stands where tiles are missing; None if all are there.
    note: How much is left out, in words; None if all are there.
    """

    tiling: Tiling
    numbers: np.ndarray | None = None
    raster: dict[str, Any] | None = None
    note: tuple[str, str] | None = None


def shown_tiles(tiling: Tiling, most: int) -> Shown:
    """A plane tiling as it is or, of over `most` tiles, those that reach furthest and the largest others of a raster.

    Of the tiles that are left, each cell of a raster gets the one of largest area whose middle is there; it is kept as
    well, and its colour stands for the cell wherever no kept tile is drawn.
    """
    if tiling.count <= most:
        return Shown(tiling)
    offsets, corners, points, areas = tiling.tiles.offsets, tiling.tiles.corners, tiling.vertices, tiling.areas
    reach = np.empty(tiling.count, np.float32)
    _reaches(offsets, corners, points, reach)
    kept = np.zeros(tiling.count, bool)
    kept[np.argpartition(reach, -most)[-most:]] = True
    low, high = tiling.view.domain.min(0), tiling.view.domain.max(0)
    per_unit = CELLS / (high - low).max()
    width, height = np.maximum(1, np.ceil((high - low) * per_unit)).astype(int).tolist()
    found, best = np.full((height, width), -1, np.int32), np.zeros((height, width))
    _largest_in_cells(offsets, corners, points, areas, kept, low, per_unit, best, found)
    cells = found >= 0
    kept[found[cells]] = True
    numbers = np.flatnonzero(kept).astype(np.uint32)
    found[cells] = np.searchsorted(numbers, found[cells])
    share = areas[numbers].sum() / areas.sum()
    note = (
        f"{len(numbers):,} tiles, {share:.2%} of the area; the others by the largest in cells of 1/{CELLS} of the slice"
    )
    box = [*low.tolist(), *(low + np.array([width, height]) / per_unit).tolist()]
    raster = {
        "count": tiling.count - len(numbers),
        "width": width,
        "height": height,
        "box": box,
        "tiles": found.reshape(-1),
    }
    part = _part(tiling, kept)
    forget_pages(tiling.vertices)  # and all that is mapped from the same file
    return Shown(part, numbers, raster, ("shown", note))


def _part(tiling: Tiling, kept: np.ndarray) -> Tiling:
    """A tiling of some tiles alone, marked incomplete."""
    numbers = np.flatnonzero(kept)
    offsets, corners = gather_tiles(tiling.tiles.offsets, tiling.tiles.corners, numbers)
    _, labels = gather_tiles(tiling.tiles.offsets, tiling.corner_labels, numbers)
    used = np.zeros(len(tiling.vertices), bool)
    used[corners] = True
    ids = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return replace(
        tiling,
        vertices=tiling.vertices[used],
        values=None if tiling.values is None else tiling.values[used],
        tiles=Cells(offsets, ids[corners]),
        corner_labels=labels,
        complete=False,
    )


@jit
def _bounds(corners, points, start, stop):  # type: ignore[no-untyped-def]
    x0 = x1 = points[corners[start], 0]
    y0 = y1 = points[corners[start], 1]
    for c in range(start + 1, stop):
        x, y = points[corners[c], 0], points[corners[c], 1]
        x0, x1, y0, y1 = min(x0, x), max(x1, x), min(y0, y), max(y1, y)
    return x0, x1, y0, y1


@jit
def _reaches(offsets, corners, points, out):  # type: ignore[no-untyped-def]
    """The longer side of the box around each tile."""
    for tile in range(len(offsets) - 1):
        x0, x1, y0, y1 = _bounds(corners, points, offsets[tile], offsets[tile + 1])
        out[tile] = max(x1 - x0, y1 - y0)


@jit
def _largest_in_cells(  # type: ignore[no-untyped-def]
    offsets, corners, points, areas, kept, low, per_unit, best, found
):
    """For each cell, the largest tile that is not kept and has its middle there, or else reaches it."""
    height, width = found.shape
    for tile in range(len(offsets) - 1):
        if kept[tile]:
            continue
        x0, x1, y0, y1 = _bounds(corners, points, offsets[tile], offsets[tile + 1])
        row = min(max(int((0.5 * (y0 + y1) - low[1]) * per_unit), 0), height - 1)
        column = min(max(int((0.5 * (x0 + x1) - low[0]) * per_unit), 0), width - 1)
        # tiles that reach further than the next cells are kept, unless there are millions of slivers
        first, last = int((y0 - low[1]) * per_unit), int((y1 - low[1]) * per_unit)
        left, right = int((x0 - low[0]) * per_unit), int((x1 - low[0]) * per_unit)
        for r in range(max(row - 1, first, 0), min(row + 1, last, height - 1) + 1):
            for c in range(max(column - 1, left, 0), min(column + 1, right, width - 1) + 1):
                weight = areas[tile] if r == row and c == column else _TOUCHED * areas[tile]
                if weight > best[r, c]:
                    best[r, c] = weight
                    found[r, c] = tile
