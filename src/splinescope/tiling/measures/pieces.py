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


@dataclass(frozen=True, eq=False, repr=False)
class Pieces(OfTiling):
    """Neighboring tiles with the same affine map, merged.

    Attributes:
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
    # outputs hold slopes to about 1e-16 of the largest over the size of a tile, and no better
    largest = max((float(np.abs(values).max()) for _, values in maps.iterate_vertex_values(tiling)), default=0.0)
    tolerance = rtol * max(float(maps.slope_norms(tiling, "frobenius").max(initial=0.0)), largest / extent)
    walls = tiling.walls
    inner = np.flatnonzero((walls.tiles >= 0).all(1))
    same = np.zeros(len(walls), bool)
    for block in maps.output_blocks(tiling, len(inner), "pieces"):
        chosen = inner[block]
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
