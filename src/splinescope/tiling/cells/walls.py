"""The walls between polygons, found and joined by passes over them: little memory beside what is returned."""

from __future__ import annotations

import numpy as np

from ..kernels.polygon_walls import fill_walls, list_walls, rank_walls


def walls_of_polygons(
    offsets: np.ndarray, corners: np.ndarray, labels: np.ndarray, vertices: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every wall once, by its lower and then its higher end: (ends `[E, 2]`, tiles `[E, 2]`, labels `[E]`).

    Ends, label and first tile are those of the first tile in order that has the wall; the second is -1 at the boundary.
    Memory beside the result: three int32 a wall, one a vertex.
    """
    most = len(corners)  # memory that is not written to is not taken
    heads, following, higher = np.full(vertices, -1, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    count = list_walls(offsets, corners, heads, following, higher)
    ranks = np.empty(count, np.int32)
    rank_walls(heads, following, ranks)
    ends, tiles = np.empty((count, 2), corners.dtype), np.full((count, 2), -1, np.int32)
    cuts = np.empty(count, labels.dtype)
    fill_walls(offsets, corners, labels, heads, following, higher, ranks, ends, tiles, cuts)
    return ends, tiles, cuts
