"""Convex domains of three and more dimensions: their corners, their facets, their volume."""

from dataclasses import dataclass
from itertools import product
from math import factorial

import numpy as np

from ...support.errors import InputError

MOST_DIMENSIONS = 8
_FLAT = 1e-12  # of the extent: thinner domains are refused
_ON = 1e-10  # of the extent: nearer to a facet's plane is on it


@dataclass(frozen=True)
class Hull:
    """Attributes:
    corners: `[n]` which of the given points are corners, in their order.
    on: `[n, F]` whether a corner lies on a facet.
    normals: `[F, d]` outward unit normals.
    offsets: `[F]`: the domain is `normals @ t <= offsets`.
    volume: Its d-volume.
    """

    corners: np.ndarray
    on: np.ndarray
    normals: np.ndarray
    offsets: np.ndarray
    volume: float


def unit_box(dimension: int) -> np.ndarray:
    """`[2^d, d]` the corners of the cube [-1, 1]^d; of a square, counter-clockwise."""
    corners = np.array(list(product((-1.0, 1.0), repeat=dimension)))
    return corners[[0, 2, 3, 1]] if dimension == 2 else corners


def hull(points: np.ndarray) -> Hull:
    """The convex hull of points `[n, d]`: exact for boxes along the axes and for simplices, by Qhull for all others."""
    low, high = points.min(0), points.max(0)
    if not (high > low).all():
        raise InputError(f"domain must have positive volume, got points in one plane: sides {(high - low).tolist()}.")
    return _box(points, low, high) or _simplex(points) or _by_qhull(points, low, high)


def _box(points: np.ndarray, low: np.ndarray, high: np.ndarray) -> Hull | None:
    n, d = points.shape
    if n != 2**d or not ((points == low) | (points == high)).all() or len(np.unique(points, axis=0)) != n:
        return None
    on = np.concatenate([points == low, points == high], 1)
    normals = np.concatenate([-np.eye(d), np.eye(d)])
    return Hull(np.arange(n), on, normals, np.concatenate([-low, high]), float(np.prod(high - low)))


def _simplex(points: np.ndarray) -> Hull | None:
    n, d = points.shape
    if n != d + 1:
        return None
    edges = points[1:] - points[0]
    scale = np.abs(edges).max()
    singular = np.linalg.svd(edges / scale, compute_uv=False)
    if singular[-1] <= _FLAT:
        raise _flat()
    normals, offsets = np.empty((n, d)), np.empty(n)
    for i in range(n):  # the facet opposite to corner i
        others = np.delete(points, i, 0)
        normal = np.linalg.svd((others[1:] - others[0]) / scale)[2][-1] if d > 1 else np.ones(1)
        inward = normal @ (points[i] - others[0])
        normals[i] = -np.sign(inward) * normal
        offsets[i] = normals[i] @ others[0]
    volume = float(abs(np.linalg.det(edges / scale)) * scale**d / factorial(d))
    return Hull(np.arange(n), ~np.eye(n, dtype=bool), normals, offsets, volume)


def _by_qhull(points: np.ndarray, low: np.ndarray, high: np.ndarray) -> Hull:
    """Scaled to the unit cube first, so that long thin domains keep their digits."""
    from scipy.spatial import ConvexHull, QhullError  # a seventh of a second that most domains do not need

    unit = (points - low) / (high - low)
    try:
        found = ConvexHull(unit)
    except (QhullError, ValueError) as error:
        raise _flat() from error
    if found.volume <= _FLAT:
        raise _flat()
    corners = np.sort(found.vertices)
    distances = unit[corners] @ found.equations[:, :-1].T + found.equations[:, -1]
    on = np.abs(distances) <= _ON
    _, first = np.unique(on, axis=1, return_index=True)  # Qhull cuts facets into simplices: one of each
    first = np.sort(first)
    normals = found.equations[first, :-1] / (high - low)
    offsets = -found.equations[first, -1] + normals @ low
    length = np.linalg.norm(normals, axis=1)
    volume = float(found.volume * np.prod(high - low))
    return Hull(corners, on[:, first], normals / length[:, None], offsets / length, volume)


def _flat() -> InputError:
    return InputError("domain must have positive volume, got points that lie (almost) in one plane.")
