"""Affine maps and look-up of tiles of three and more dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...support.errors import InputError
from ..cells.polytopes import Facets, Polytopes
from ..kernels.polytope_corners import build_boxes, locate_in_boxes, spanning_corners

if TYPE_CHECKING:
    from ..tiling import Tiling


def spanning_simplices(tiling: Tiling, tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per tile d + 1 corners that span it well, `[k, d + 1]`, and how thin it is in its thinnest direction, `[k]`."""
    chosen = np.empty((len(tiles), tiling.dimension + 1), np.int64)
    thickness = np.empty(len(tiles))
    spanning_corners(tiling.tiles.offsets, tiling.tiles.corners, tiling.vertices, tiles, chosen, thickness)
    return chosen, thickness


def slopes_from_simplices(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Slopes `[k, C, d]` of the affine maps with values `[k, d + 1, C]` at points `[k, d + 1, d]`."""
    edges = points[:, 1:] - points[:, :1]
    rises = values[:, 1:] - values[:, :1]
    try:
        return np.linalg.solve(edges, rises).transpose(0, 2, 1)
    except np.linalg.LinAlgError:  # some lie in a plane to the last digit: they alone have no slope
        flat = np.linalg.slogdet(edges)[0] == 0
        slopes = np.full((len(points), values.shape[2], points.shape[2]), np.nan)
        slopes[~flat] = np.linalg.solve(edges[~flat], rises[~flat]).transpose(0, 2, 1)
        return slopes


@dataclass(frozen=True)
class Boxes:
    """A binary tree of boxes over the tiles, in the order of their centres along a space-filling curve.

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
    if not isinstance(walls, Facets):
        raise InputError(f"boxes are of tiles in 3-D and beyond, got a {tiling.dimension}-D tiling: see `grid`.")
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


def locate_solids(tiling: Tiling, boxes: Boxes, points: np.ndarray, slack: float) -> np.ndarray:
    """`[N]` the tile of each point `[N, d]`; -1 outside."""
    walls, tiles = tiling.walls, tiling.tiles
    assert isinstance(walls, Facets)
    assert isinstance(tiles, Polytopes)
    found = np.full(len(points), -1, np.int64)
    locate_in_boxes(
        points, boxes.lows, boxes.highs, boxes.order, tiles.facet_offsets, walls.numbers,
        walls.tiles[:, 0].copy(), boxes.normals, boxes.heights, slack, found,
    )  # fmt: skip
    return found
