"""Which tiles of a very large tiling a page has: more than a browser holds are told by the largest among them."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..support.archive import forget_pages
from ..tiling import Tiling
from ..tiling.cells.lists import places_of
from ..tiling.cells.polygons import Cells
from ..tiling.kernels.grid_lookup import largest_in_cells, reaches

CELLS = 1024
"""Cells along the longer side of the raster that stands for tiles which are left out."""


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


def shares(most: int) -> tuple[int, int]:
    """How many tiles that reach furthest, and how many cells along a side, stay within `most` tiles together."""
    cells = max(1, min(CELLS, math.isqrt(most // 2)))
    return most - cells**2, cells


def shown_tiles(tiling: Tiling, most: int, cells: int | None = None) -> Shown:
    """A plane tiling as it is or, of over `most` tiles, those that reach furthest and the largest others of a raster.

    The raster has `cells` (`CELLS` by default) along its longer side: at most that number squared of tiles come on top.

    Of the tiles that are left, each cell of a raster gets the one of largest area whose middle is there; it is kept as
    well, and its color stands for the cell wherever no kept tile is drawn.
    """
    if tiling.count <= most:
        return Shown(tiling)
    cells = CELLS if cells is None else cells
    offsets, corners, points, areas = tiling.tiles.offsets, tiling.tiles.corners, tiling.vertices, tiling.areas
    reach = np.empty(tiling.count, np.float32)
    reaches(offsets, corners, points, reach)
    kept = np.zeros(tiling.count, bool)
    kept[np.argpartition(reach, tiling.count - most - 1)[tiling.count - most :]] = True
    low, high = tiling.view.domain.min(0), tiling.view.domain.max(0)
    per_unit = cells / (high - low).max()
    width, height = np.maximum(1, np.ceil((high - low) * per_unit)).astype(int).tolist()
    found, best = np.full((height, width), -1, np.int32), np.zeros((height, width))
    largest_in_cells(offsets, corners, points, areas, kept, low, per_unit, best, found)
    filled = found >= 0
    kept[found[filled]] = True
    numbers = np.flatnonzero(kept).astype(np.uint32)
    found[filled] = np.searchsorted(numbers, found[filled])
    share = areas[numbers].sum() / areas.sum()
    note = (
        f"{len(numbers):,} tiles, {share:.2%} of the area; the others by the largest in cells of 1/{cells} of the slice"
    )
    box = [*low.tolist(), *(low + np.array([width, height]) / per_unit).tolist()]
    left = tiling.count - len(numbers)
    raster = {"count": left, "width": width, "height": height, "box": box, "tiles": found.reshape(-1)}
    # a tiling of these tiles alone, marked incomplete
    offsets, places = places_of(tiling.tiles.offsets, numbers.astype(np.int64))
    corners, labels = tiling.tiles.corners[places], tiling.corner_labels[places]
    used = np.zeros(len(tiling.vertices), bool)
    used[corners] = True
    ids = np.cumsum(used, dtype=np.int32) - np.int32(1)
    vertices, values = tiling.vertices[used], None if tiling.values is None else tiling.values[used]
    tiles = Cells(offsets, ids[corners])
    part = replace(tiling, vertices=vertices, values=values, tiles=tiles, corner_labels=labels, complete=False)
    forget_pages(tiling.vertices)  # and all that is mapped from the same file
    return Shown(part, numbers, raster, ("shown", note))
