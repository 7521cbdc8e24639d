"""Lists of different lengths in one array (CSR), and cells of a mesh as lists of their corners.

List i of an array is `entries[offsets[i]:offsets[i + 1]]`; `offsets` begins with 0 and has one number more than there
are lists. The engine's tiles, those of results, the pieces of loss sections, walls and surfaces are all kept so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import kernels


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    """`[K + 1]` offsets of lists of those sizes `[K]`, one after the other."""
    return np.concatenate([[0], np.cumsum(sizes)])


def joined_offsets(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The offsets of lists that stand one after the other, from those of each part."""
    return offsets_of(np.concatenate([np.diff(part) for part in parts]))


def owners(offsets: np.ndarray, dtype: type = np.int64) -> np.ndarray:
    """`[M]` the list that each entry is in."""
    return np.repeat(np.arange(len(offsets) - 1, dtype=dtype), np.diff(offsets))


def following(offsets: np.ndarray) -> np.ndarray:
    """`[M]` the place of the entry that comes after each in its list; after the last comes the first."""
    places = np.arange(1, offsets[-1] + 1)
    filled = offsets[1:] > offsets[:-1]
    places[offsets[1:][filled] - 1] = offsets[:-1][filled]
    return places


def backward(offsets: np.ndarray) -> np.ndarray:
    """`[M]` places of the entries, each list the other way around."""
    return np.repeat(offsets[1:] - 1 + offsets[:-1], np.diff(offsets)) - np.arange(offsets[-1])


def connected(count: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """`[count]` the group of each thing, numbered from 0, where thing `first[i]` is joined to thing `second[i]`."""
    from scipy.sparse import coo_array  # a tenth of a second that most tilings do not need
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(first), np.int8), (first, second)), shape=(count, count))
    groups: np.ndarray = connected_components(graph, directed=False)[1]
    return groups


def distinct(numbers: np.ndarray) -> np.ndarray:
    """What `np.unique` gives, by sorting: its hash table takes fifty times as long where nearly all differ."""
    ordered = np.sort(numbers)
    return ordered[np.diff(ordered, prepend=~ordered[:1]) != 0]


def places_of(offsets: np.ndarray, lists: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some lists, by their numbers and in that order: their own offsets, and the places where their entries stand."""
    starts = offsets[lists]
    sizes = offsets[lists + 1] - starts
    own = offsets_of(sizes)
    return own, np.arange(own[-1]) + np.repeat(starts - own[:-1], sizes)


def reduced(function: np.ufunc, values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """`[K, ...]` a sum, minimum or maximum (`np.add`, ...) over each list of values `[M, ...]`; no list is empty."""
    if len(offsets) < 2:
        return np.zeros((0, *values.shape[1:]), values.dtype)
    return np.asarray(function.reduceat(values, offsets[:-1]))


def means(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """`[K, ...]` mean over each list of values `[M, ...]`."""
    sizes = np.diff(offsets).reshape(-1, *(1,) * (values.ndim - 1))
    return reduced(np.add, values, offsets) / sizes


@dataclass(frozen=True, repr=False)
class CornerLists:
    """Convex cells as lists of vertex numbers: cell i has the corners `corners[offsets[i]:offsets[i + 1]]`.

    Intervals have (left, right), polygons go counter-clockwise around, solids have no order.
    """

    offsets: np.ndarray
    corners: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def owners(self) -> np.ndarray:
        """`[M]` the cell that each corner belongs to."""
        return owners(self.offsets)

    def edges(self) -> np.ndarray:
        """`[M, 2]` vertex numbers of the sides of polygons, from each corner to the next."""
        return np.stack([self.corners, self.corners[following(self.offsets)]], 1)

    def some(self, cells: np.ndarray) -> CornerLists:
        """The cells of those numbers, in that order."""
        offsets, places = places_of(self.offsets, cells)
        return CornerLists(offsets, self.corners[places])

    def corner_means(self, values: np.ndarray) -> np.ndarray:
        """`[K]` or `[K, C]` mean, over the corners of each cell, of numbers `[V]` or `[V, C]` at the vertices."""
        if values.ndim > 1 and len(self):  # one column after the other: no copy of all of them at every corner
            return np.stack([self.corner_means(column) for column in values.T], -1)
        return means(values[self.corners], self.offsets)

    def corner_ranges(self, values: np.ndarray) -> np.ndarray:
        """`[K, 2]` the smallest and the largest of numbers `[V]` at the corners of each cell."""
        at_corner = values[self.corners]
        return np.stack([reduced(extreme, at_corner, self.offsets) for extreme in (np.minimum, np.maximum)], 1)

    def sizes(self, points: np.ndarray) -> np.ndarray:
        """`[K]` lengths of intervals or areas of polygons, vertices being at points `[V, 1]` or `[V, 2]`."""
        if points.shape[1] == 1:
            ends = points[self.corners, 0].reshape(-1, 2)
            return ends[:, 1] - ends[:, 0]
        areas = np.empty(len(self))
        kernels.polygon_areas(self.offsets, self.corners, points, areas)
        return areas

    def fans(self) -> tuple[np.ndarray, np.ndarray]:
        """Triangles `[T, 3]` that fill the polygons, a fan from the first corner each, and their polygons `[T]`."""
        cell = self.owners()
        start = self.corners[self.offsets[:-1]][cell]
        a, b = self.edges().T
        good = (a != start) & (b != start)
        return np.stack([start, a, b], 1)[good], cell[good]
