"""A mesh of tiles: vertices, outputs and tiles; which sides of tiles meet, and whether two may be made one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...support.errors import SplinescopeError
from ..cells.lists import following, owners
from ..cells.tiles import OUTSIDE, Tiles
from ..kernels.polytope_corners import spanning_corners

_ONE_MAP = 1e-6  # of the largest output: farther apart, tiles do not have one affine map
_THIN = 1e-6  # of the domain: thinner tiles do not tell their map
_JOINED_TOGETHER = 1 << 16  # pairs of tiles that are compared at a time


@dataclass(frozen=True)
class Mesh:
    """Vertices `[V, d]`, their outputs `[V, C]` (or None), and the tiles."""

    points: np.ndarray
    values: np.ndarray | None
    tiles: Tiles


def check_joined(mesh: Mesh, first: np.ndarray, second: np.ndarray) -> None:
    """Refuse to make one tile of two, for each pair of numbers, on which the outputs are not one affine map.

    The map of the thicker one must give the mean output at the corners of the other. Says nothing where outputs are
    not kept, or both are too thin.
    """
    points, values, tiles = mesh.points, mesh.values, mesh.tiles
    if values is None or not len(first):
        return
    extent, scale = np.ptp(points, axis=0).max(), max(values.max(), -values.min())
    for start in range(0, len(first), _JOINED_TOGETHER):
        pairs = np.stack([part[start : start + _JOINED_TOGETHER] for part in (first, second)], 1).astype(np.int64)
        chosen, places = np.unique(pairs, return_inverse=True)
        corners, thickness = np.empty((len(chosen), points.shape[1] + 1), np.int64), np.empty(len(chosen))
        spanning_corners(tiles.offsets, tiles.corners, points, chosen, corners, thickness)
        pairs = places.reshape(pairs.shape)
        # a map read off a thin tile has lost digits
        swapped = thickness[pairs[:, 0]] < thickness[pairs[:, 1]]
        pairs[swapped] = pairs[swapped, ::-1]
        thick, thin = pairs[thickness[pairs[:, 0]] > _THIN * extent].T
        part = tiles.some(chosen)
        simplex = points[corners[thick]]
        middle = part.corner_means(points)[thin] - simplex[:, 0]
        weights = np.linalg.solve((simplex[:, 1:] - simplex[:, :1]).transpose(0, 2, 1), middle[:, :, None])[:, :, 0]
        weights = np.concatenate([1.0 - weights.sum(1, keepdims=True), weights], 1)
        expected = np.einsum("ki,kic->kc", weights, values[corners[thick]])
        error = np.abs(expected - part.corner_means(values)[thin]).max(1) / np.abs(weights).sum(1)
        if (error > _ONE_MAP * scale).any():
            raise SplinescopeError(
                "two tiles with different maps were about to become one, across a wall that seemed to be none (between "
                f"losers of a max, or a seam): their outputs differ by {error.max() / scale:.2g} of the largest. "
                "Please report this network and slice."
            )


def half_edges(offsets: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each corner, the next corner's vertex and the tile it belongs to."""
    return corners[following(offsets)], owners(offsets, np.int32)


def pair_half_edges(offsets: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorts half-edges into walls: returns (first half-edge, second half-edge or -1) of each wall."""
    ends, _ = half_edges(offsets, corners)
    keys = (np.minimum(corners, ends).astype(np.int64) << 32) | np.maximum(corners, ends)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    second = np.full(len(first), -1, np.int64)
    twins = first + 1 < np.append(first[1:], len(keys))
    second[twins] = order[first[twins] + 1]
    return order[first], second


def restored(labels: np.ndarray) -> np.ndarray:
    """Labels of walls that looked spurious from one side only."""
    return np.where(labels < OUTSIDE, -2 - labels, labels)
