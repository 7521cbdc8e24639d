"""Faces of all dimensions of a tiling of three or more dimensions: their number, and Euler's sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .. import kernels
from ..kernels.polytope_corners import subfaces
from .lists import offsets_of
from .polytopes import Facets, Polytopes

if TYPE_CHECKING:
    from ..tiling import Tiling

_CORNERS_TOGETHER = 1 << 24  # a table of their faces' names takes some 256 MB


@dataclass(frozen=True)
class Faces:
    """Faces of one dimension, each once.

    Attributes:
        owners: `[n]` a tile that each is a face of.
        starts: `[n + 1]` face i has the corners `places[starts[i]:starts[i + 1]]`.
        places: Where they stand in the tiling's list of corners.
    """

    owners: np.ndarray
    starts: np.ndarray
    places: np.ndarray

    def __len__(self) -> int:
        return len(self.owners)


def walls_as_faces(tiling: Tiling) -> Faces:
    """The faces of dimension d - 1."""
    tiles, walls = tiling.tiles, tiling.walls
    assert isinstance(tiles, Polytopes)
    assert isinstance(walls, Facets)
    owners = walls.tiles[:, 0].astype(np.int64)
    starts, places = tiles.facet_corners(walls.slots, owners, np.diff(walls.offsets), tiling.dimension)
    return Faces(owners, starts, places)


def facets_of(tiling: Tiling, faces: Faces, dimension: int) -> Faces:
    """The faces of dimension `dimension` of given faces of one dimension more."""
    tiles = tiling.tiles
    assert isinstance(tiles, Polytopes)
    room = 4 * len(faces.places) + 1024
    while True:
        out, sizes, keys = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.uint64)
        given = (faces.owners, faces.starts, faces.places)
        count = subfaces(*tiles.lists, *given, dimension + 1, out, sizes, keys)
        if count >= 0:
            break
        room *= 2
    _, chosen = np.unique(keys[:count], return_index=True)
    sizes = sizes[:count]
    first = (np.cumsum(sizes) - sizes)[chosen]
    sizes = sizes[chosen]
    starts = offsets_of(sizes)
    places = out[np.arange(starts[-1]) + np.repeat(first - starts[:-1], sizes)]
    owners = np.searchsorted(tiles.offsets, places[starts[:-1]], side="right") - 1
    return Faces(owners, starts, places)


def face_counts(tiling: Tiling) -> list[int]:
    """`f_0, ..., f_d`: how many faces of each dimension the tiling has: vertices, edges, ..., walls, tiles.

    Faces between edges and walls are told apart by 64-bit names of their sets of vertices.
    """
    tiles, dimension = tiling.tiles, tiling.dimension
    assert isinstance(tiles, Polytopes)
    counts = np.zeros(dimension + 1, np.int64)
    shares = 1 + len(tiles.corners) // _CORNERS_TOGETHER
    for share in range(shares):
        counts[0] = 0
        kernels.count_faces(*tiles.lists, dimension, share, shares, counts, np.zeros(1 << 12, np.uint64))
    return [len(tiling.vertices), *counts[1 : dimension - 1].tolist(), len(tiling.walls), tiling.count]
