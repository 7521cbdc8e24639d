"""Which tile is a point in, and which tiles meet a disc: by a grid, or a tree of boxes for solids, built once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...support.checks import as_float64_array, as_points, check_positive
from ...support.errors import InputError
from ..cells.polytopes import Facets
from ..kernels.grid_lookup import count_near, locate_points, sort_into_cells
from ..kernels.polytope_corners import build_boxes, locate_in_boxes
from .folds import need_dimension

if TYPE_CHECKING:
    from ..tiling import Tiling

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
    sort_into_cells(*arguments, counts, np.zeros(0, np.int32), True)
    starts = np.concatenate([[0], np.cumsum(counts[:-1])])
    tiles = np.empty(starts[-1], np.int32)
    sort_into_cells(*arguments, starts.copy(), tiles, False)
    return Grid(low, step, (rows, columns), starts, tiles)


@dataclass(frozen=True)
class Boxes:
    """A binary tree of boxes over the tiles, in the order of their centers along a space-filling curve.

    Attributes:
        order: `[K]` tile numbers.
        lows, highs: `[2 m - 1, d]` boxes; node i has the children 2 i + 1 and 2 i + 2, the last m are the tiles.
        normals, heights: `[E, d]`, `[E]` of the walls, outward from the first of their tiles.
    """

    order: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    normals: np.ndarray
    heights: np.ndarray


def make_boxes(tiling: Tiling) -> Boxes:
    """Cost and memory linear in the number of tiles, after a sort."""
    walls, tiles = tiling.walls, tiling.tiles
    assert isinstance(walls, Facets)
    low, high = tiling.view.domain.min(0), tiling.view.domain.max(0)
    bits = 60 // tiling.dimension
    shares = (tiling.moments[1] - low) / (high - low)
    places = np.clip(shares * 2**bits, 0, 2**bits - 1).astype(np.uint64)
    codes = np.zeros(tiling.count, np.uint64)
    for bit in range(bits):
        for x in range(tiling.dimension):
            codes |= ((places[:, x] >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * tiling.dimension + x)
    order = np.argsort(codes, kind="stable")
    leaves = 1 << max(int(np.ceil(np.log2(max(tiling.count, 1)))), 0)
    lows, highs = np.empty((2 * leaves - 1, tiling.dimension)), np.empty((2 * leaves - 1, tiling.dimension))
    build_boxes(tiles.offsets, tiles.corners, tiling.vertices, order, lows, highs)
    size = np.linalg.norm(walls.vectors, axis=1, keepdims=True)
    normals = walls.vectors / np.where(size > 0, size, 1.0)
    return Boxes(order, lows, highs, normals, np.einsum("ed,ed->e", normals, walls.centers))


def locate(tiling: Tiling, points: Any) -> np.ndarray:
    """`[N]` tile of each point `[N, d]` of the slice; -1 outside. On a wall, one of its tiles.

    Cost: the tiles in one grid cell per point, after the grid is built once.
    """
    points = as_points(points, tiling.dimension)
    slack = _SLACK * float(np.ptp(tiling.view.domain, axis=0).max())
    found = np.full(len(points), -1, np.int64)
    if not tiling.count:
        return found
    if tiling.dimension == 1:
        left, right, order = _intervals(tiling)
        place = np.clip(np.searchsorted(left, points[:, 0], side="right") - 1, 0, None)
        inside = (points[:, 0] >= left[place] - slack) & (points[:, 0] <= right[place] + slack)
        return np.where(inside, order[place], -1)
    if tiling.dimension == 2:
        locate_points(points, *_lists(tiling), slack, found)
        return found
    walls, boxes = tiling.walls, tiling.boxes
    assert isinstance(walls, Facets)
    locate_in_boxes(
        points, boxes.lows, boxes.highs, boxes.order, tiling.tiles.side_offsets, walls.numbers,
        walls.tiles[:, 0].copy(), boxes.normals, boxes.heights, slack, found,
    )  # fmt: skip
    return found


def tiles_near(tiling: Tiling, point: Any, radius: float) -> np.ndarray:
    """Numbers of the tiles that meet the open disc (1-D: interval) about a point: those with area inside. Exact."""
    radius = check_positive(radius, "radius")
    need_dimension(tiling, "tiles near a point", 1, 2)
    point = as_points(np.atleast_2d(as_float64_array(point, "point")), tiling.dimension)
    if len(point) != 1:
        raise InputError(f"point must be one point of shape ({tiling.dimension},); for many, see counts_near.")
    if tiling.dimension == 1:
        left, right, order = _intervals(tiling)
        return np.sort(order[(left < point[0, 0] + radius) & (right > point[0, 0] - radius)])
    found = np.empty(tiling.count, np.int64)
    return np.sort(found[: _near(tiling, point, radius, found)[0]])


def counts_near(tiling: Tiling, points: Any, radius: float) -> np.ndarray:
    """`[N]` number of tiles that meet the open disc about each point `[N, d]`: exact local complexity."""
    radius = check_positive(radius, "radius")
    need_dimension(tiling, "tiles near a point", 1, 2)
    points = as_points(points, tiling.dimension)
    if tiling.dimension == 1:
        left, right, _ = _intervals(tiling)
        right = np.sort(right)
        below = np.searchsorted(left, points[:, 0] + radius, side="left")
        return below - np.searchsorted(right, points[:, 0] - radius, side="right")
    return _near(tiling, points, radius, np.zeros(0, np.int64))


def density_near(tiling: Tiling, points: Any, radius: float) -> np.ndarray:
    """`[N]` `counts_near` per unit area (1-D: length) of the disc, also where part of it is outside the slice."""
    radius = check_positive(radius, "radius")
    size = 2 * radius if tiling.dimension == 1 else np.pi * radius**2
    return counts_near(tiling, points, radius) / size


def _near(tiling: Tiling, points: np.ndarray, radius: float, found: np.ndarray) -> np.ndarray:
    counts, seen = np.zeros(len(points), np.int64), np.full(tiling.count, -1, np.int64)
    count_near(points, radius, *_lists(tiling), seen, counts, found)
    return counts


def _lists(tiling: Tiling) -> tuple[Any, ...]:
    """Tiles of a plane and its grid, as kernels take them."""
    tiles, grid = tiling.tiles, tiling.grid
    return tiles.offsets, tiles.corners, tiling.vertices, grid.low, grid.step, *grid.shape, grid.starts, grid.tiles


def _intervals(tiling: Tiling) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Left ends, right ends and tile numbers, from left to right."""
    ends = tiling.vertices[tiling.tiles.corners, 0].reshape(-1, 2)
    order = np.argsort(ends[:, 0], kind="stable")
    return ends[order, 0], ends[order, 1], order
