"""Decision boundaries and level sets of a network on a slice, exactly, as segments and polylines.

On a tile the outputs are affine, so where two of them tie is a straight line; the boundary is the part of it on
which no third output is larger. Lines inside a tile and lines along a wall are found separately. Outputs closer than
`Tiling.rtol` times the largest output of the tiling count as tied, and where classes tie on a whole tile, the one with
the lowest number wins, as in `argmax`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...support.checks import as_float64_array, as_points, check_generator, check_whole
from ...support.display import counted, table
from ...support.errors import InputError
from ..approximation import TilingResult
from ..kernels.tie_lines import chain, distances, trace_tiles, trace_walls
from . import maps
from .differentiate import blocks
from .surfaces import decision_surface, level_surface

if TYPE_CHECKING:
    from ..tiling import Tiling

_TOGETHER = 1 << 18  # tiles or walls that are traced in one go


@dataclass(frozen=True, eq=False, repr=False)
class Boundary(TilingResult):
    """Where two outputs tie and no other is larger. Exact to rounding for the tiled network.

    Attributes:
        segments: `[S, 2, d]` ends in slice coordinates, one segment per tile and pair (1-D: a point, twice).
        classes: `[S, 2]` the two tied outputs, lower number first. For a level set: 0 is below, 1 is above.
        tiles: `[S]` the tile that each segment lies in (or on the edge of).
    """

    segments: np.ndarray
    classes: np.ndarray
    tiles: np.ndarray

    def __len__(self) -> int:
        return len(self.segments)

    def __repr__(self) -> str:
        pairs = counted(len(self.pairs), "pair of classes", "pairs of classes")
        return f"Boundary({counted(len(self), 'segment')}, length {self.length:.6g}, {pairs})"

    def summary(self) -> str:
        """Its length and segments, per pair of classes."""
        if not len(self):
            return f"No boundary on this slice.\n{self.assurance}"
        rows = [("classes", "segments", "length")]
        for pair in self.pairs[:20]:
            own = (self.classes == pair).all(1)
            rows.append((f"{pair[0]} and {pair[1]}", str(int(own.sum())), f"{self.lengths[own].sum():.6g}"))
        more = f"\nand {len(self.pairs) - 20} more pairs" if len(self.pairs) > 20 else ""
        return f"{table([*rows, ('all', str(len(self)), f'{self.length:.6g}')])}{more}\n{self.assurance}"

    @cached_property
    def lengths(self) -> np.ndarray:
        """`[S]` lengths in slice coordinates."""
        return np.linalg.norm(self.segments[:, 1] - self.segments[:, 0], axis=1)

    @property
    def length(self) -> float:
        """Total length in slice coordinates (zero in 1-D, where the boundary is points)."""
        return float(self.lengths.sum())

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of classes that meet."""
        return [(int(i), int(j)) for i, j in np.unique(self.classes, axis=0)]

    @cached_property
    def polylines(self) -> list[tuple[tuple[int, int], np.ndarray]]:
        """The segments joined: (pair of classes, points `[n, d]`) each; a closed line repeats its first point."""
        return _join(self)

    def distances(self, points: Any) -> np.ndarray:
        """`[N]` Euclidean distances from points `[N, d]` to the boundary; infinite if there is none. Cost N x S."""
        return distances(as_points(points, self.segments.shape[2]), self.segments)

    def sample(self, count: int, *, generator: torch.Generator | None = None) -> np.ndarray:
        """`[count, d]` points drawn uniformly by length from the boundary (1-D: uniformly from its points)."""
        check_whole(count, "count", least=0)
        check_generator(generator)
        if not len(self):
            raise InputError("there is no boundary to sample from: one class wins on the whole slice.")
        until = np.cumsum(self.lengths if self.length > 0 else np.ones(len(self)))
        place, s = torch.rand(2, count, 1, generator=generator, dtype=torch.float64).numpy()
        chosen = np.searchsorted(until, place[:, 0] * until[-1], side="right").clip(max=len(self) - 1)
        return (1 - s) * self.segments[chosen, 0] + s * self.segments[chosen, 1]


def decision_boundary(tiling: Tiling) -> Boundary | Any:
    """Where the class with the largest output changes (one output: where it is zero). Exact to rounding.

    Segments on a plane, a `SurfaceMesh` of polygons in 3-D.
    """
    if tiling.dimension > 2:
        return decision_surface(tiling)
    if maps.output_count(tiling) == 1:
        return level_set(tiling, 0.0)
    tolerance = tiling.rtol * maps.largest_output(tiling)
    winners = np.empty(len(tiling.vertices), np.int32)
    tied = np.empty(len(tiling.vertices), bool)
    for rows, values in maps.iterate_vertex_values(tiling):
        winners[rows], tied[rows] = _winners(values, tolerance)
    return _trace(tiling, winners, tied, None, tolerance)


def level_set(tiling: Tiling, value: float, output: int = 0) -> Boundary | Any:
    """Where one output takes a value: the boundary between below or equal (class 0) and above (class 1).

    Segments on a plane, a `SurfaceMesh` of polygons in 3-D.
    """
    height = as_float64_array(value, "value")
    if height.ndim:
        raise InputError(f"value must be one number, got shape {height.shape}.")
    heights = maps.output_at_vertices(tiling, output)
    if tiling.dimension > 2:
        return level_surface(tiling, float(height), heights)
    two = np.stack([np.full(len(heights), float(height)), heights], 1)
    tolerance = tiling.rtol * float(np.abs(two).max(initial=0))
    return _trace(tiling, *_winners(two, tolerance), two, tolerance)


def margin(tiling: Tiling, points: Any) -> np.ndarray:
    """`[N]` distances within the slice from points `[N, d]` to the decision boundary; infinite if there is none.

    Exact for the boundary inside the domain. It is also the distance in the slice's whole plane wherever it is at
    most the distance to the domain's edge. For distances in the input space, never larger, see `input_margin`.
    """
    return np.asarray(decision_boundary(tiling).distances(as_points(points, tiling.dimension)))


def _winners(values: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """The lowest class within the tolerance of the largest output, and whether there are several."""
    top = values >= values.max(1, keepdims=True) - tolerance
    return top.argmax(1).astype(np.int32), top.sum(1) > 1


def _trace(
    tiling: Tiling, winners: np.ndarray, tied: np.ndarray, values: np.ndarray | None, tolerance: float
) -> Boundary:
    """The boundary inside the tiles whose corners do not all have one winner, and along walls.

    Two classes that tie all along a wall either win at one of its ends, which is a tie there, or lose to one class at
    one end and to another at the other (a class ahead of them at both ends is ahead all along).
    """
    least, most = tiling.tiles.corner_ranges(winners).T
    tiles = np.flatnonzero(least != most)
    ends = tiling.walls.ends
    worth = tied[ends].any(1) | (winners[ends[:, 0]] != winners[ends[:, 1]])
    walls = np.flatnonzero(worth & (tiling.walls.tiles >= 0).all(1))
    found = [(np.zeros((0, 2, tiling.dimension)), np.zeros((0, 2), np.int64), np.zeros(0, np.int64))]
    found += [_inside(tiling, tiles[block], values, tolerance) for block in blocks(len(tiles), _TOGETHER)]
    found += [_along(tiling, walls[block], values, tolerance) for block in blocks(len(walls), _TOGETHER)]
    segments, classes, owners = (np.concatenate([part[k] for part in found]) for k in range(3))
    return Boundary(segments, classes, owners, certainty=tiling.certainty)


_Traced = tuple[np.ndarray, np.ndarray, np.ndarray]


def _inside(tiling: Tiling, tiles: np.ndarray, values: np.ndarray | None, tolerance: float) -> _Traced:
    """Segments, classes and tiles of the boundary inside some tiles."""
    cells = tiling.tiles.some(tiles)
    used, ids = np.unique(cells.corners, return_inverse=True)
    arguments = (cells.offsets, ids.reshape(-1), *_at(tiling, used, values), tolerance)
    segments, classes, owners = _collect(trace_tiles, arguments, 4 * len(tiles), tiling.dimension)
    return segments, classes, tiles[owners]


def _along(tiling: Tiling, walls: np.ndarray, values: np.ndarray | None, tolerance: float) -> _Traced:
    """The same along some walls, with the tile on their first side."""
    ends, sides = tiling.walls.ends[walls], tiling.walls.tiles[walls].astype(np.int64)
    left, right = (tiling.tiles.some(each) for each in sides.T)
    used, ids = np.unique(np.concatenate([ends.reshape(-1), left.corners, right.corners]), return_inverse=True)
    at_ends, at_left, at_right = np.split(ids.reshape(-1), [ends.size, ends.size + len(left.corners)])
    sides_of = (left.offsets, at_left, right.offsets, at_right)
    arguments = (at_ends.reshape(-1, 2), *sides_of, *_at(tiling, used, values), tolerance)
    segments, classes, owners = _collect(trace_walls, arguments, len(walls), tiling.dimension)
    return segments, classes, sides[owners, 0]


def _at(tiling: Tiling, vertices: np.ndarray, values: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Points and outputs (or the `values` that stand for them) at some vertices."""
    chosen = maps.vertex_values(tiling, vertices) if values is None else values[vertices]
    return np.ascontiguousarray(tiling.vertices[vertices]), np.ascontiguousarray(chosen)


def _collect(kernel: Any, arguments: tuple, room: int, dimension: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Call a kernel that fills (segments, classes, owners) and says how many there are; again if they did not fit."""
    while True:
        segments, classes = np.empty((room, 2, dimension)), np.empty((room, 2), np.int64)
        owners = np.empty(room, np.int64)
        found = kernel(*arguments, segments, classes, owners)
        if found <= room:
            return segments[:found], classes[:found], owners[:found]
        room = found


def _join(boundary: Boundary) -> list[tuple[tuple[int, int], np.ndarray]]:
    """Segments of one pair joined where exactly two of them share an end (ends on a wall are equal to the last bit)."""
    if boundary.segments.shape[2] == 1:
        return [((int(i), int(j)), ends[:1]) for (i, j), ends in zip(boundary.classes, boundary.segments, strict=True)]
    if not len(boundary):
        return []
    pairs, pair_of = np.unique(boundary.classes, axis=0, return_inverse=True)
    keys = np.concatenate(
        [np.repeat(pair_of.reshape(-1), 2)[:, None].astype(float), boundary.segments.reshape(2 * len(boundary), -1)], 1
    )
    nodes, ends = np.unique(keys, axis=0, return_inverse=True)
    ends = ends.reshape(-1)
    order = np.argsort(ends, kind="stable")
    starts = np.searchsorted(ends[order], np.arange(len(nodes) + 1))
    chains, offsets = chain(ends.reshape(-1, 2), order // 2, starts)
    lines = []
    for line in np.split(chains, offsets[1:-1]):
        i, j = pairs[int(nodes[line[0], 0])]
        lines.append(((int(i), int(j)), nodes[line, 1:]))
    return lines
