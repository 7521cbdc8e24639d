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

import numba
import numpy as np

from .._checks import as_float64_array
from .._errors import InputError
from . import maps

if TYPE_CHECKING:
    from .tiling import Tiling


@dataclass(frozen=True, eq=False, repr=False)
class Boundary:
    """Where two outputs tie and no other is larger. Exact to rounding.

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
        return f"Boundary({len(self)} segments, length {self.length:.6g}, {len(self.pairs)} pairs of classes)"

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
        points = as_float64_array(points, "points")
        dimension = self.segments.shape[2]
        if points.ndim != 2 or points.shape[1] != dimension:
            raise InputError(f"points must have shape (N, {dimension}), got {points.shape}.")
        return _distances(points, self.segments)

    def sample(self, count: int, generator: np.random.Generator | None = None) -> np.ndarray:
        """`[count, d]` points drawn uniformly by length from the boundary (1-D: uniformly from its points)."""
        if not len(self):
            raise InputError("there is no boundary to sample from: one class wins on the whole slice.")
        generator = np.random.default_rng() if generator is None else generator
        weights = self.lengths if self.length > 0 else np.ones(len(self))
        chosen = generator.choice(len(self), count, p=weights / weights.sum())
        s = generator.random((count, 1))
        return (1 - s) * self.segments[chosen, 0] + s * self.segments[chosen, 1]


def decision_boundary(tiling: Tiling) -> Boundary:
    """See `Tiling.decision_boundary`."""
    if _output_count(tiling) == 1:
        return level_set(tiling, 0.0)
    tolerance = tiling.rtol * max((float(np.abs(values).max()) for _, values in _value_blocks(tiling)), default=0.0)
    winners = np.empty(len(tiling.vertices), np.int64)
    tied = np.empty(len(tiling.vertices), bool)
    for rows, values in _value_blocks(tiling):
        winners[rows], tied[rows] = _winners(values, tolerance)
    return _trace(tiling, winners, tied, None, tolerance)


def level_set(tiling: Tiling, value: float, output: int = 0) -> Boundary:
    """See `Tiling.level_set`."""
    count = _output_count(tiling)
    if not -count <= output < count:
        raise InputError(f"output must be in [0, {count}), got {output}.")
    if not np.isfinite(value):
        raise InputError(f"value must be a finite number, got {value!r}.")
    heights = np.concatenate([values[:, output] for _, values in _value_blocks(tiling)] or [np.zeros(0)])
    two = np.stack([np.full(len(heights), float(value)), heights], 1)
    tolerance = tiling.rtol * float(np.abs(two).max(initial=0))
    return _trace(tiling, *_winners(two, tolerance), two, tolerance)


def _winners(values: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """The lowest class within the tolerance of the largest output, and whether there are several."""
    top = values >= values.max(1, keepdims=True) - tolerance
    return top.argmax(1), top.sum(1) > 1


def _output_count(tiling: Tiling) -> int:
    if tiling.values is not None:
        return tiling.values.shape[1]
    return int(np.prod(tiling.program("outputs").output_shape))


def _value_blocks(tiling: Tiling):  # type: ignore[no-untyped-def]
    """(slice of vertices, their outputs), a block at a time."""
    size = len(tiling.vertices) if tiling.values is not None else 65536
    for start in range(0, len(tiling.vertices), max(size, 1)):
        rows = np.arange(start, min(start + size, len(tiling.vertices)))
        yield rows, maps.vertex_values(tiling, rows)


def _trace(
    tiling: Tiling, winners: np.ndarray, tied: np.ndarray, values: np.ndarray | None, tolerance: float
) -> Boundary:
    """The boundary inside the tiles whose corners do not all have one winner, and along walls with a tie at an end."""
    offsets, corners = tiling.tiles.offsets, tiling.tiles.corners
    if not tiling.count:
        nowhere = np.zeros((0, 2, tiling.dimension))
        return Boundary(nowhere, np.zeros((0, 2), np.int64), np.zeros(0, np.int64))
    at_corner = winners[corners]
    tiles = np.flatnonzero(np.minimum.reduceat(at_corner, offsets[:-1]) != np.maximum.reduceat(at_corner, offsets[:-1]))
    walls = np.flatnonzero(tied[tiling.walls.ends].any(1) & (tiling.walls.tiles >= 0).all(1))
    sides = tiling.walls.tiles[walls].astype(np.int64)
    lists = [maps.gather_tiles(offsets, corners, chosen) for chosen in (tiles, sides[:, 0], sides[:, 1])]
    used, ids = np.unique(
        np.concatenate([tiling.walls.ends[walls].reshape(-1), *(c for _, c in lists)]), return_inverse=True
    )
    parts = np.split(ids.reshape(-1), np.cumsum([2 * len(walls), *(len(c) for _, c in lists)])[:-1])
    chosen = np.ascontiguousarray(maps.vertex_values(tiling, used) if values is None else values[used])
    points = np.ascontiguousarray(tiling.vertices[used])
    (a, _), (b, _), (c, _) = lists
    inside = _collect(_trace_tiles, (a, parts[1], points, chosen, tolerance), 4 * len(tiles), tiling.dimension)
    along = _collect(
        _trace_walls, (parts[0].reshape(-1, 2), b, parts[2], c, parts[3], points, chosen, tolerance),
        len(walls), tiling.dimension,
    )  # fmt: skip
    owners = np.concatenate([tiles[inside[2]], sides[along[2], 0]])
    return Boundary(np.concatenate([inside[0], along[0]]), np.concatenate([inside[1], along[1]]), owners)


def _collect(kernel: Any, arguments: tuple, room: int, dimension: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Call a kernel that fills (segments, classes, owners) and says how many there are; again if they did not fit."""
    while True:
        segments, classes, owners = (
            np.empty((room, 2, dimension)),
            np.empty((room, 2), np.int64),
            np.empty(room, np.int64),
        )
        found = kernel(*arguments, segments, classes, owners)
        if found <= room:
            return segments[:found], classes[:found], owners[:found]
        room = found


@numba.njit(nogil=True, cache=True)
def _possible(values, ids, tolerance, kept):  # type: ignore[no-untyped-def]
    """The classes that could win somewhere on a tile: those whose best corner reaches the best worst corner."""
    floor = -np.inf
    for c in range(values.shape[1]):
        worst = np.inf
        for v in ids:
            worst = min(worst, values[v, c])
        floor = max(floor, worst)
    count = 0
    for c in range(values.shape[1]):
        for v in ids:
            if values[v, c] >= floor - tolerance:
                kept[count] = c
                count += 1
                break
    return count


@numba.njit(nogil=True, cache=True)
def _sign(v, i, j, values, tolerance):  # type: ignore[no-untyped-def]
    """1 where output i is ahead of j, -1 where behind, 0 for a tie."""
    lead = values[v, i] - values[v, j]
    return 1 if lead > tolerance else -1 if lead < -tolerance else 0


@numba.njit(nogil=True, cache=True)
def _free_part(i, j, at_end, reference_i, reference_j, values, kept, tolerance):  # type: ignore[no-untyped-def]
    """The part [low, high] of a tie between i and j on which no third class is ahead (low > high: none).

    `at_end` `[2, C]` are the outputs at its ends. A class that ties all along is ahead of i if it is ahead at
    `reference_i`, a vertex on i's side; if it ties there too, the lower number is. Likewise for j.
    """
    low, high = 0.0, 1.0
    for k in kept:
        if k in (i, j):
            continue
        for side in range(2):
            rival, reference = (i, reference_i) if side == 0 else (j, reference_j)
            first, last = at_end[0, k] - at_end[0, rival], at_end[1, k] - at_end[1, rival]
            if abs(first) <= tolerance and abs(last) <= tolerance:
                sign = _sign(reference, k, rival, values, tolerance)
                if sign > 0 or (sign == 0 and k < rival):
                    return 1.0, 0.0
            elif first >= -tolerance and last >= -tolerance:
                return 1.0, 0.0
            elif first > tolerance:
                low = max(low, first / (first - last))
            elif last > tolerance:
                high = min(high, first / (first - last))
    return low, high


@numba.njit(nogil=True, cache=True)
def _trace_tiles(offsets, corners, points, values, tolerance, segments, classes, owners):  # type: ignore[no-untyped-def]
    """Ties that cross the inside of a tile: some corner is on i's side and some on j's. Returns how many there are."""
    found = 0
    dimension = points.shape[1]
    possible = np.empty(values.shape[1], np.int64)
    end = np.empty((2, dimension))
    at_end = np.empty((2, values.shape[1]))
    for tile in range(len(offsets) - 1):
        ids = corners[offsets[tile] : offsets[tile + 1]]
        kept = possible[: _possible(values, ids, tolerance, possible)]
        for a in range(len(kept)):
            for b in range(a + 1, len(kept)):
                i, j = kept[a], kept[b]
                ahead = behind = ids[0]
                for v in ids:
                    if values[v, i] - values[v, j] > values[ahead, i] - values[ahead, j]:
                        ahead = v
                    if values[v, i] - values[v, j] < values[behind, i] - values[behind, j]:
                        behind = v
                if _sign(ahead, i, j, values, tolerance) <= 0 or _sign(behind, i, j, values, tolerance) >= 0:
                    continue
                hits = 0
                for p in range(len(ids)):
                    u, v = ids[p], ids[(p + 1) % len(ids)]
                    if u > v:  # one order for both tiles of a wall: equal ends to the last bit
                        u, v = v, u
                    if _sign(ids[p], i, j, values, tolerance) == 0:
                        u = v = ids[p]
                        s = 0.0
                    elif _sign(u, i, j, values, tolerance) * _sign(v, i, j, values, tolerance) < 0:
                        s = (values[u, i] - values[u, j]) / (values[u, i] - values[u, j] - values[v, i] + values[v, j])
                    else:
                        continue
                    if hits == 2:
                        continue
                    for x in range(dimension):
                        end[hits, x] = (1.0 - s) * points[u, x] + s * points[v, x]
                    for k in kept:
                        at_end[hits, k] = (1.0 - s) * values[u, k] + s * values[v, k]
                    hits += 1
                    if dimension == 1:
                        break
                if dimension == 1:
                    end[1], at_end[1] = end[0], at_end[0]
                elif hits < 2:
                    continue
                low, high = _free_part(i, j, at_end, ahead, behind, values, kept, tolerance)
                if low >= high:
                    continue
                if found < len(segments):
                    _write(found, i, j, tile, end, low, high, segments, classes, owners)
                found += 1
    return found


@numba.njit(nogil=True, cache=True)
def _trace_walls(ends, offsets0, corners0, offsets1, corners1, points, values, tolerance, segments, classes, owners):  # type: ignore[no-untyped-def]
    """Ties along a wall, with i ahead on one side of it and j on the other. Returns how many there are."""
    found = 0
    possible = np.empty(values.shape[1], np.int64)
    end = np.empty((2, points.shape[1]))
    at_end = np.empty((2, values.shape[1]))
    for wall in range(len(ends)):
        left = corners0[offsets0[wall] : offsets0[wall + 1]]
        right = corners1[offsets1[wall] : offsets1[wall + 1]]
        kept = possible[: _possible(values, ends[wall], tolerance, possible)]
        for x in range(2):
            end[x], at_end[x] = points[ends[wall, x]], values[ends[wall, x]]
        for a in range(len(kept)):
            for b in range(a + 1, len(kept)):
                i, j = kept[a], kept[b]
                if _sign(ends[wall, 0], i, j, values, tolerance) or _sign(ends[wall, 1], i, j, values, tolerance):
                    continue
                worst_left, worst_right = left[0], right[0]
                for v in left:
                    if values[v, i] - values[v, j] < values[worst_left, i] - values[worst_left, j]:
                        worst_left = v
                for v in right:
                    if values[v, i] - values[v, j] < values[worst_right, i] - values[worst_right, j]:
                        worst_right = v
                left_is_j = _sign(worst_left, i, j, values, tolerance) < 0
                if left_is_j == (_sign(worst_right, i, j, values, tolerance) < 0):
                    continue
                ahead = _farthest(right if left_is_j else left, ends[wall], points)
                behind = _farthest(left if left_is_j else right, ends[wall], points)
                low, high = _free_part(i, j, at_end, ahead, behind, values, kept, tolerance)
                if low >= high:
                    continue
                if found < len(segments):
                    _write(found, i, j, wall, end, low, high, segments, classes, owners)
                found += 1
    return found


@numba.njit(nogil=True, cache=True)
def _farthest(ids, ends, points):  # type: ignore[no-untyped-def]
    """The corner of a tile farthest from the line through two points of it (1-D: from the point)."""
    best, chosen = -1.0, ids[0]
    for v in ids:
        if points.shape[1] == 1:
            away = abs(points[v, 0] - points[ends[0], 0])
        else:
            ex, ey = points[ends[1], 0] - points[ends[0], 0], points[ends[1], 1] - points[ends[0], 1]
            away = abs(ex * (points[v, 1] - points[ends[0], 1]) - ey * (points[v, 0] - points[ends[0], 0]))
        if away > best:
            best, chosen = away, v
    return chosen


@numba.njit(nogil=True, cache=True)
def _write(row, i, j, owner, end, low, high, segments, classes, owners):  # type: ignore[no-untyped-def]
    for x in range(end.shape[1]):
        span = end[1, x] - end[0, x]
        segments[row, 0, x] = end[0, x] + low * span
        segments[row, 1, x] = end[0, x] + high * span if high < 1.0 else end[1, x]
    classes[row, 0], classes[row, 1] = i, j
    owners[row] = owner


@numba.njit(nogil=True, cache=True)
def _distances(points, segments):  # type: ignore[no-untyped-def]
    nearest = np.full(len(points), np.inf)
    dimension = segments.shape[2]
    for n in range(len(points)):
        best = np.inf
        for s in range(len(segments)):
            along = 0.0
            square = 0.0
            for x in range(dimension):
                span = segments[s, 1, x] - segments[s, 0, x]
                along += (points[n, x] - segments[s, 0, x]) * span
                square += span * span
            share = min(max(along / square, 0.0), 1.0) if square > 0.0 else 0.0
            distance = 0.0
            for x in range(dimension):
                away = points[n, x] - segments[s, 0, x] - share * (segments[s, 1, x] - segments[s, 0, x])
                distance += away * away
            best = min(best, distance)
        nearest[n] = np.sqrt(best)
    return nearest


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
    chains, offsets = _chain(ends.reshape(-1, 2), order // 2, starts)
    lines = []
    for chain in np.split(chains, offsets[1:-1]):
        i, j = pairs[int(nodes[chain[0], 0])]
        lines.append(((int(i), int(j)), nodes[chain, 1:]))
    return lines


@numba.njit(nogil=True, cache=True)
def _chain(ends, incident, starts):  # type: ignore[no-untyped-def]
    """Walk along segments through nodes of degree two; open chains first, then closed ones."""
    used = np.zeros(len(ends), np.bool_)
    chains = np.empty(2 * len(ends), np.int64)
    offsets = np.zeros(len(ends) + 1, np.int64)
    at = count = 0
    for closed in (False, True):
        for seed in range(len(ends)):
            for side in range(2):
                node = ends[seed, side]
                if used[seed] or (not closed and starts[node + 1] - starts[node] == 2):
                    continue
                segment = seed
                chains[at] = node
                at += 1
                while segment >= 0:
                    used[segment] = True
                    node = ends[segment, 1] if ends[segment, 0] == node else ends[segment, 0]
                    chains[at] = node
                    at += 1
                    segment = -1
                    if starts[node + 1] - starts[node] == 2:
                        for p in range(starts[node], starts[node + 1]):
                            if not used[incident[p]]:
                                segment = incident[p]
                count += 1
                offsets[count] = at
    return chains[:at], offsets[: count + 1]
