"""Pieces (linear regions): neighbouring tiles with one affine map, merged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...support.checks import check_positive
from ..approximation import OfTiling
from . import maps
from .graph import components

if TYPE_CHECKING:
    from ..tiling import Tiling

_WALLS_AT_ONCE = 65536


@dataclass(frozen=True, eq=False, repr=False)
class Pieces(OfTiling):
    """Attributes:
    count: Number of pieces.
    labels: `[K]` the piece of each tile, numbered in the order of their first tiles.
    areas: `[count]` areas (1-D: lengths).
    tolerance: Maps were equal if their slopes differed by at most this (Frobenius norm).
    """

    count: int
    labels: np.ndarray
    areas: np.ndarray
    tolerance: float


def pieces(tiling: Tiling, rtol: float = 1e-8) -> Pieces:
    """Pieces (linear regions): neighbouring tiles merged where their maps are equal.

    Maps are equal if their slopes differ by at most `rtol` times the largest slope of the tiling (or the largest
    output over the slice's extent, if that is more), in the Frobenius norm; continuity makes the offsets agree.
    Whether nearly equal maps merge depends on it.
    """
    check_positive(rtol, "rtol")
    extent = float(np.ptp(tiling.view.domain, axis=0).max())
    tolerance = rtol * max(float(maps.slope_norms(tiling, "frobenius").max(initial=0.0)), _largest(tiling) / extent)
    walls = tiling.walls
    inner = np.flatnonzero((walls.tiles >= 0).all(1))
    same = np.zeros(len(walls), bool)
    for start in range(0, len(inner), _WALLS_AT_ONCE):
        chosen = inner[start : start + _WALLS_AT_ONCE]
        tiles, rows = np.unique(walls.tiles[chosen], return_inverse=True)
        slopes = maps.slopes(tiling, tiles)
        rows = rows.reshape(-1, 2)
        same[chosen] = np.linalg.norm(slopes[rows[:, 0]] - slopes[rows[:, 1]], axis=(1, 2)) <= tolerance
    count, labels = components(tiling, same)
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(count, np.int64)
    rank[np.argsort(first)] = np.arange(count)
    labels = rank[labels.reshape(-1)]
    areas = np.bincount(labels, weights=tiling.areas, minlength=count)
    return Pieces(count, labels, areas, tolerance, certainty=tiling.certainty)


def _largest(tiling: Tiling) -> float:
    """Largest absolute output: outputs hold slopes to about 1e-16 of it over the size of a tile, and no better."""
    largest = 0.0
    for start in range(0, len(tiling.vertices), _WALLS_AT_ONCE):
        rows = np.arange(start, min(start + _WALLS_AT_ONCE, len(tiling.vertices)))
        largest = max(largest, float(np.abs(maps.vertex_values(tiling, rows)).max()))
    return largest
