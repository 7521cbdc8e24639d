"""Shapes of tiles: centroids, perimeters, eccentricities, largest inscribed discs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..cells.polytopes import Polytopes
from ..kernels.polygon_shapes import inscribed_discs, polygon_moments

if TYPE_CHECKING:
    from ..tiling import Tiling

_TILES_TOGETHER = 1 << 18


def centroids(tiling: Tiling) -> np.ndarray:
    """`[K, d]` centres of area (of mass) of the tiles."""
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


def eccentricities(tiling: Tiling) -> np.ndarray:
    """See `Tiling.eccentricities`."""
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
    """See `Tiling.inradii`."""
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
