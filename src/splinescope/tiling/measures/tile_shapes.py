"""Shapes of tiles: centroids, second moments, eccentricities, largest inscribed discs; how far roundings take them."""

from __future__ import annotations

from math import factorial
from typing import TYPE_CHECKING

import numpy as np

from .. import kernels
from ..cells.lists import CornerLists, owners, reduced
from ..cells.polytopes import Polytopes
from ..cells.solids import Solids, measured
from ..kernels.polygon_shapes import inscribed_discs, polygon_moments
from .folds import need_dimension

if TYPE_CHECKING:
    from ..tiling import Tiling

_TILES_TOGETHER = 1 << 18  # moments of more at once would take more memory than the tiling
UNIT = 2.0**-53
"""Of rounding in float64: a result is off by so much of its size at most."""


def centroids(tiling: Tiling) -> np.ndarray:
    """`[K, d]` centers of area (of mass) of the tiles."""
    if tiling.dimension == 1:
        return tiling.vertices[tiling.tiles.corners, 0].reshape(-1, 2).mean(1, keepdims=True)
    if tiling.dimension > 2:
        return tiling.moments[1]
    return _polygon_moments(tiling, slice(0, tiling.count))[:, :2]


def second_moments(tiling: Tiling, part: slice) -> np.ndarray:
    """`[n, d, d]` covariances, in slice coordinates, of the uniform distribution on each of some tiles. Exact."""
    if tiling.dimension == 1:
        return (tiling.areas[part] ** 2 / 12)[:, None, None]
    if isinstance(tiling.tiles, Polytopes):
        return tiling.tiles.second_moments(tiling.vertices, part)
    _, _, xx, xy, yy = _polygon_moments(tiling, part).T
    return np.stack([xx, xy, xy, yy], 1).reshape(-1, 2, 2)


def shape_rounding(tiles: CornerLists, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Proven bounds of the rounding of volumes `[K]` and centroids `[K, d]` of convex tiles.

    A volume is a sum of determinants, by an elimination whose multipliers are at most 1 (of polygons, a sum of n - 2
    cross products). Its result is the exact determinant for edges that are off by e times the longest side M of the
    tile's box, e = (3 d + 8) d 2^(d-1) u with u = 2^-53, so that by Hadamard it is off by d^(d/2) e M times the sum of
    the box's sides, at most. To that come corners that were rounded where they were made, and facets of more than d
    corners that are not flat: neighbors may fill them with different simplices.
    """
    d = points.shape[1]
    at = points[tiles.corners]
    low, high = (reduced(extreme, at, tiles.offsets) for extreme in (np.minimum, np.maximum))
    width, far = high - low, np.maximum(np.abs(low), np.abs(high))
    if isinstance(tiles, (Solids, Polytopes)):
        volumes, _, _, count = measured(tiles.lists, points)
        off = (3 * d + 8) * d * 2.0 ** (d - 1) * UNIT * width.max(1, initial=0.0, keepdims=True)
        error = count / factorial(d) * d ** (d / 2) * off[:, 0] * _side_sums(width + off)
        error += _bulges(tiles.lists, points)
        count = count + 4 * d
    else:
        volumes, count = tiles.sizes(points), np.diff(tiles.offsets) + 8
        error = count * (count - 10) * UNIT * width.prod(1) if d == 2 else np.zeros(len(tiles))
    moved = 16 * UNIT * far
    error += count * UNIT * np.abs(volumes) + moved.max(1, initial=0.0) * _side_sums(width + 2 * moved)
    error *= 1.01  # the bound itself is rounded
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(volumes > error, 2 * error / (volumes - error) + count * UNIT, 1.0)
    return error, np.minimum(share[:, None], 1.0) * width + moved


def _side_sums(width: np.ndarray) -> np.ndarray:
    """`[K]` half the surface of boxes of sides `[K, d]`."""
    return sum((np.delete(width, j, 1).prod(1) for j in range(width.shape[1])), np.zeros(len(width)))


def _bulges(lists: tuple[np.ndarray, ...], points: np.ndarray) -> np.ndarray:
    """`[K]` the volume of all that facets of each tile are not flat: area times thickness."""
    facet_offsets, d = lists[3], points.shape[1]
    total, cells = np.zeros(len(facet_offsets) - 1), owners(facet_offsets)
    keys, sizes = np.empty(len(cells), np.uint64), np.empty(len(cells), np.int32)
    kernels.facet_keys(*lists, keys, sizes)
    slots = np.flatnonzero(sizes > d)
    if not len(slots):
        return total
    vectors, centers = np.empty((len(slots), d)), np.empty((len(slots), d))
    kernels.measure_facets(slots, cells[slots], *lists, points, vectors, centers)
    offsets = np.concatenate([[0], np.cumsum(sizes[slots], dtype=np.int64)])
    places = np.empty(offsets[-1], np.int64)
    kernels.list_facets(slots, cells[slots], *lists, d, offsets[:-1], places)
    owner = owners(offsets)
    terms = (points[lists[1][places]] - centers[owner]) * vectors[owner]
    height, slack = terms.sum(1), 4 * (d + 2) * UNIT * np.abs(terms).sum(1)
    thick = reduced(np.maximum, height + slack, offsets) - reduced(np.minimum, height - slack, offsets)
    np.add.at(total, cells[slots], thick)
    return total


def eccentricities(tiling: Tiling) -> np.ndarray:
    """`[K]` `sqrt(1 - l2 / l1)` for the variances l1 >= l2 of a uniform point of the tile: 0 round, 1 a line."""
    need_dimension(tiling, "eccentricities", 2)
    found = np.empty(tiling.count)
    for start in range(0, tiling.count, _TILES_TOGETHER):
        part = slice(start, min(start + _TILES_TOGETHER, tiling.count))
        _, _, xx, xy, yy = _polygon_moments(tiling, part).T
        spread = np.hypot((xx - yy) / 2, xy)
        total = (xx + yy) / 2 + spread
        ratio = np.divide(2 * spread, total, out=np.ones_like(total), where=total > 0)
        found[part] = np.sqrt(np.clip(ratio, 0.0, 1.0))
    return found


def inradii(tiling: Tiling) -> np.ndarray:
    """`[K]` radius of the largest disc in each tile (Chebyshev radius; 1-D: half the length). Exact."""
    need_dimension(tiling, "inradii", 1, 2)
    if tiling.dimension == 1:
        return tiling.areas / 2
    radii = np.empty(tiling.count)
    most = int(np.diff(tiling.tiles.offsets).max(initial=0))
    inscribed_discs(tiling.tiles.offsets, tiling.tiles.corners, tiling.vertices, np.empty((most, 3)), radii)
    return radii


def _polygon_moments(tiling: Tiling, part: slice) -> np.ndarray:
    """`[n, 5]` mean x, mean y and the covariance xx, xy, yy of the uniform distribution on each of some tiles."""
    moments = np.empty((part.stop - part.start, 5))
    polygon_moments(tiling.tiles.offsets[part.start : part.stop + 1], tiling.tiles.corners, tiling.vertices, moments)
    return moments
