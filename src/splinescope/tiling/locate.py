"""Which tile is a point in, and which tiles meet a disc: a uniform grid over the slice, built once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import as_float64_array, check_positive
from .._errors import InputError
from ._solid_maps import locate_solids
from .kernels import jit

if TYPE_CHECKING:
    from .tiling import Tiling

_SLACK = 1e-12  # of the slice's extent: how far outside all tiles a point may be by rounding


@dataclass(frozen=True)
class Grid:
    """Square cells of side `step` from `low`, about one per tile; cell i meets `tiles[starts[i]:starts[i + 1]]`."""

    low: np.ndarray
    step: float
    shape: tuple[int, int]
    starts: np.ndarray
    tiles: np.ndarray


def make_grid(tiling: Tiling) -> Grid:
    """Sort the tiles of a 2-D tiling into cells. Cost and memory are linear in tiles plus total wall length."""
    low, high = tiling.view.domain.min(0), tiling.view.domain.max(0)
    step = float(np.sqrt(np.prod(high - low) / max(tiling.count, 1)))
    step = max(step, float((high - low).max()) / 8192)
    columns, rows = (int(n) for n in np.maximum(np.ceil((high - low) / step), 1))
    counts = np.zeros(rows * columns + 1, np.int64)
    arguments = (tiling.tiles.offsets, tiling.tiles.corners, tiling.vertices, low, step, columns, rows)
    _sort_into_cells(*arguments, counts, np.zeros(0, np.int32), True)
    starts = np.concatenate([[0], np.cumsum(counts[:-1])])
    tiles = np.empty(starts[-1], np.int32)
    _sort_into_cells(*arguments, starts.copy(), tiles, False)
    return Grid(low, step, (rows, columns), starts, tiles)


def as_points(tiling: Tiling, points: Any) -> np.ndarray:
    """Slice coordinates as `[N, d]` float64 (in 1-D also `[N]`)."""
    array = as_float64_array(points, "points")
    if tiling.dimension == 1 and array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != tiling.dimension:
        raise InputError(f"points must have shape (N, {tiling.dimension}), got {array.shape}.")
    return array


def locate(tiling: Tiling, points: Any) -> np.ndarray:
    """See `Tiling.locate`."""
    points = as_points(tiling, points)
    slack = _SLACK * float(np.ptp(tiling.view.domain, axis=0).max())
    found = np.full(len(points), -1, np.int64)
    if not tiling.count:
        return found
    if tiling.dimension == 1:
        left, right, order = _intervals(tiling)
        place = np.clip(np.searchsorted(left, points[:, 0], side="right") - 1, 0, None)
        inside = (points[:, 0] >= left[place] - slack) & (points[:, 0] <= right[place] + slack)
        return np.where(inside, order[place], -1)
    if tiling.dimension > 2:
        return locate_solids(tiling, tiling.boxes, points, slack)
    grid = tiling.grid
    arguments = (tiling.tiles.offsets, tiling.tiles.corners, tiling.vertices)
    _locate(points, *arguments, grid.low, grid.step, *grid.shape, grid.starts, grid.tiles, slack, found)
    return found


def tiles_near(tiling: Tiling, point: Any, radius: float) -> np.ndarray:
    """See `Tiling.tiles_near`."""
    radius = check_positive(radius, "radius")
    _need_discs(tiling)
    point = as_points(tiling, np.atleast_2d(as_float64_array(point, "point")))
    if len(point) != 1:
        raise InputError(f"point must be one point of shape ({tiling.dimension},); for many, see counts_near.")
    if tiling.dimension == 1:
        left, right, order = _intervals(tiling)
        return np.sort(order[(left < point[0, 0] + radius) & (right > point[0, 0] - radius)])
    found = np.empty(tiling.count, np.int64)
    return np.sort(found[: _near(tiling, point, radius, found)[0]])


def counts_near(tiling: Tiling, points: Any, radius: float) -> np.ndarray:
    """See `Tiling.counts_near`."""
    radius = check_positive(radius, "radius")
    _need_discs(tiling)
    points = as_points(tiling, points)
    if tiling.dimension == 1:
        left, right, _ = _intervals(tiling)
        right = np.sort(right)
        below = np.searchsorted(left, points[:, 0] + radius, side="left")
        return below - np.searchsorted(right, points[:, 0] - radius, side="right")
    return _near(tiling, points, radius, np.zeros(0, np.int64))


def _need_discs(tiling: Tiling) -> None:
    if tiling.dimension > 2:
        raise InputError(f"tiles near a point need a 1-D or 2-D tiling, got a {tiling.dimension}-D one.")


def _near(tiling: Tiling, points: np.ndarray, radius: float, found: np.ndarray) -> np.ndarray:
    grid = tiling.grid
    counts = np.zeros(len(points), np.int64)
    arguments = (tiling.tiles.offsets, tiling.tiles.corners, tiling.vertices)
    seen = np.full(tiling.count, -1, np.int64)
    _count_near(
        points, radius, *arguments, grid.low, grid.step, *grid.shape, grid.starts, grid.tiles, seen, counts, found
    )
    return counts


def _intervals(tiling: Tiling) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Left ends, right ends and tile numbers, from left to right."""
    ends = tiling.vertices[tiling.tiles.corners, 0].reshape(-1, 2)
    order = np.argsort(ends[:, 0], kind="stable")
    return ends[order, 0], ends[order, 1], order


@jit
def _sort_into_cells(offsets, corners, points, low, step, columns, rows, places, tiles, only_count):  # type: ignore[no-untyped-def]
    """For each tile and each row of cells it meets, the cells between its leftmost and rightmost point there.

    Counts per cell into `places`; or, with the first place of each cell in it, fills `tiles`. Cells are taken a
    hair larger than they are, so that a point on their edge finds every tile it touches.
    """
    hair = 1e-9
    for tile in range(len(offsets) - 1):
        start, stop = offsets[tile], offsets[tile + 1]
        bottom, top = np.inf, -np.inf
        for p in range(start, stop):
            y = (points[corners[p], 1] - low[1]) / step
            bottom, top = min(bottom, y), max(top, y)
        first = min(max(int(np.floor(bottom - hair)), 0), rows - 1)
        last = min(max(int(np.floor(top + hair)), 0), rows - 1)
        for row in range(first, last + 1):
            left, right = np.inf, -np.inf
            y0, y1 = row - hair, row + 1 + hair
            for p in range(start, stop):
                q = p + 1 if p + 1 < stop else start
                ax, ay = (points[corners[p], 0] - low[0]) / step, (points[corners[p], 1] - low[1]) / step
                bx, by = (points[corners[q], 0] - low[0]) / step, (points[corners[q], 1] - low[1]) / step
                if ay > by:
                    ax, ay, bx, by = bx, by, ax, ay
                if by < y0 or ay > y1:
                    continue
                if ay < y0:
                    ax += (bx - ax) * (y0 - ay) / (by - ay)
                    ay = y0
                if by > y1:
                    bx = ax + (bx - ax) * (y1 - ay) / (by - ay)
                left, right = min(left, ax, bx), max(right, ax, bx)
            if left > right:
                continue
            for column in range(max(int(np.floor(left - hair)), 0), min(int(np.floor(right + hair)), columns - 1) + 1):
                cell = row * columns + column
                if not only_count:
                    tiles[places[cell]] = tile
                places[cell] += 1


@jit
def _depth_inside(x, y, start, stop, corners, points):  # type: ignore[no-untyped-def]
    """Distance to the nearest side's line, negative if outside of it."""
    depth = np.inf
    for p in range(start, stop):
        a, b = corners[p], corners[p + 1 if p + 1 < stop else start]
        ex, ey = points[b, 0] - points[a, 0], points[b, 1] - points[a, 1]
        length = np.sqrt(ex * ex + ey * ey)
        if length > 0.0:
            depth = min(depth, (ex * (y - points[a, 1]) - ey * (x - points[a, 0])) / length)
    return depth if depth < np.inf else -np.inf  # a tile without any side has no inside


@jit
def _locate(queries, offsets, corners, points, low, step, rows, columns, starts, tiles, slack, found):  # type: ignore[no-untyped-def]
    for n in range(len(queries)):
        x, y = queries[n, 0], queries[n, 1]
        column, row = int(np.floor((x - low[0]) / step)), int(np.floor((y - low[1]) / step))
        column, row = min(max(column, 0), columns - 1), min(max(row, 0), rows - 1)
        best = -slack
        cell = row * columns + column
        for p in range(starts[cell], starts[cell + 1]):
            depth = _depth_inside(x, y, offsets[tiles[p]], offsets[tiles[p] + 1], corners, points)
            if depth > best or (found[n] < 0 and depth >= best):
                best = depth
                found[n] = tiles[p]


@jit
def _count_near(  # type: ignore[no-untyped-def]
    queries, radius, offsets, corners, points, low, step, rows, columns, starts, tiles, seen, counts, found
):
    """Tiles nearer than `radius`; `seen[tile]` is the last query that met it. Fills `found` if it has room."""
    for n in range(len(queries)):
        x, y = queries[n, 0], queries[n, 1]
        first_row = min(max(int(np.floor((y - radius - low[1]) / step)), 0), rows - 1)
        last_row = min(max(int(np.floor((y + radius - low[1]) / step)), 0), rows - 1)
        first_column = min(max(int(np.floor((x - radius - low[0]) / step)), 0), columns - 1)
        last_column = min(max(int(np.floor((x + radius - low[0]) / step)), 0), columns - 1)
        for row in range(first_row, last_row + 1):
            for column in range(first_column, last_column + 1):
                cell = row * columns + column
                for p in range(starts[cell], starts[cell + 1]):
                    tile = tiles[p]
                    if seen[tile] == n:
                        continue
                    seen[tile] = n
                    start, stop = offsets[tile], offsets[tile + 1]
                    near = _depth_inside(x, y, start, stop, corners, points) > 0.0
                    for q in range(start, stop):
                        if near:
                            break
                        a, b = corners[q], corners[q + 1 if q + 1 < stop else start]
                        ex, ey = points[b, 0] - points[a, 0], points[b, 1] - points[a, 1]
                        share, square = 0.0, ex * ex + ey * ey
                        if square > 0.0:
                            share = min(max(((x - points[a, 0]) * ex + (y - points[a, 1]) * ey) / square, 0.0), 1.0)
                        dx, dy = x - points[a, 0] - share * ex, y - points[a, 1] - share * ey
                        near = dx * dx + dy * dy < radius * radius
                    if near:
                        if counts[n] < len(found):
                            found[counts[n]] = tile
                        counts[n] += 1
