"""Decision boundaries and level sets of a network on a slice, exactly, as segments and polylines.

On a tile the outputs are affine, so where two of them tie is a straight line; the boundary is the part of it on
which no third output is larger. A tie belongs to the class with the lowest number, as in `argmax`, so a boundary
that runs along a wall is found from exactly one side. Outputs closer than `Tiling.rtol` times the largest output of
the tiling count as tied.
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
    for rows, values in _value_blocks(tiling):
        winners[rows] = (values >= values.max(1, keepdims=True) - tolerance).argmax(1)
    return _trace(tiling, winners, None, tolerance)


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
    return _trace(tiling, (two[:, 1] > two[:, 0] + tolerance).astype(np.int64), two, tolerance)


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


def _trace(tiling: Tiling, winners: np.ndarray, values: np.ndarray | None, tolerance: float) -> Boundary:
    """The boundary in the tiles whose corners do not all have one winner (elsewhere it wins throughout)."""
    offsets, corners = tiling.tiles.offsets, tiling.tiles.corners
    if tiling.count:
        at_corner = winners[corners]
        low = np.minimum.reduceat(at_corner, offsets[:-1])
        high = np.maximum.reduceat(at_corner, offsets[:-1])
        tiles = np.flatnonzero(low != high)
    else:
        tiles = np.zeros(0, np.int64)
    starts, ids = maps.gather_tiles(offsets, corners, tiles)
    used, rows = np.unique(ids, return_inverse=True)
    chosen = maps.vertex_values(tiling, used) if values is None else values[used]
    points = np.ascontiguousarray(tiling.vertices[used])
    trace = _trace_polygons if tiling.dimension == 2 else _trace_intervals
    room = 4 * len(tiles) + 16
    while True:
        segments = np.empty((room, 2, tiling.dimension))
        classes, owners = np.empty((room, 2), np.int64), np.empty(room, np.int64)
        found = trace(
            starts, rows.reshape(-1), points, np.ascontiguousarray(chosen), tolerance, segments, classes, owners
        )
        if found <= room:
            break
        room = found
    boundary = segments[:found], classes[:found], tiles[owners[:found]]
    return Boundary(*_without_touches(*boundary))


def _without_touches(segments: np.ndarray, classes: np.ndarray, tiles: np.ndarray):  # type: ignore[no-untyped-def]
    """Drop what was found from both sides of a wall: there one class only touches the other's, and wins nowhere."""
    if not len(segments):
        return segments, classes, tiles
    ends = segments.reshape(len(segments), 2, -1)
    swap = ends[:, 0, 0] > ends[:, 1, 0]
    swap |= (ends[:, 0, 0] == ends[:, 1, 0]) & (ends[:, 0, -1] > ends[:, 1, -1])
    ordered = np.where(swap[:, None, None], ends[:, ::-1], ends).reshape(len(ends), -1)
    keys = np.concatenate([ordered, classes], 1)
    _, inverse, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    once = counts[inverse.reshape(-1)] == 1
    return segments[once], classes[once], tiles[once]


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
def _crossing(u, v, i, j, values, tolerance):  # type: ignore[no-untyped-def]
    """Share s in [0, 1] of the way from u to v at which outputs i < j tie; negative if they do not cross.

    A tie at an end belongs to i. The same for both tiles of a wall, because u < v is asked of the caller.
    """
    du, dv = values[u, i] - values[u, j], values[v, i] - values[v, j]
    if (du >= -tolerance) == (dv >= -tolerance):
        return -1.0
    if abs(du) <= tolerance:
        return 0.0
    if abs(dv) <= tolerance:
        return 1.0
    return du / (du - dv)


@numba.njit(nogil=True, cache=True)
def _beaten(lead, k, i, tolerance):  # type: ignore[no-untyped-def]
    """Whether a class k is ahead of i by `lead`; a tie goes to the lower number."""
    return lead > tolerance or (k < i and lead >= -tolerance)


@numba.njit(nogil=True, cache=True)
def _trace_polygons(offsets, corners, points, values, tolerance, segments, classes, owners):  # type: ignore[no-untyped-def]
    """Fill the segments of all tiles; returns how many there are (which may be more than fit)."""
    found = 0
    kept = np.empty(values.shape[1], np.int64)
    end = np.empty((2, 2))
    at_end = np.empty((2, values.shape[1]))
    for tile in range(len(offsets) - 1):
        ids = corners[offsets[tile] : offsets[tile + 1]]
        possible = _possible(values, ids, tolerance, kept)
        for a in range(possible):
            for b in range(a + 1, possible):
                i, j = kept[a], kept[b]
                hits = 0
                for p in range(len(ids)):
                    u, v = ids[p], ids[(p + 1) % len(ids)]
                    if u > v:
                        u, v = v, u
                    s = _crossing(u, v, i, j, values, tolerance)
                    if s < 0.0 or hits == 2:
                        continue
                    for x in range(2):
                        end[hits, x] = (1.0 - s) * points[u, x] + s * points[v, x]
                    for c in range(possible):
                        k = kept[c]
                        at_end[hits, k] = (1.0 - s) * values[u, k] + s * values[v, k]
                    hits += 1
                if hits < 2 or (end[0, 0] == end[1, 0] and end[0, 1] == end[1, 1]):
                    continue
                low, high = 0.0, 1.0  # the part on which no third class is ahead
                for c in range(possible):
                    k = kept[c]
                    if k in (i, j):
                        continue
                    for rival in (i, j):
                        first, last = at_end[0, k] - at_end[0, rival], at_end[1, k] - at_end[1, rival]
                        out0, out1 = _beaten(first, k, rival, tolerance), _beaten(last, k, rival, tolerance)
                        if out0 and out1:
                            low = 2.0
                        elif out0 and abs(first) > tolerance:
                            low = max(low, min(first / (first - last), 1.0))
                        elif out1 and abs(last) > tolerance:
                            high = min(high, max(first / (first - last), 0.0))
                if not low < high:
                    continue
                if found < len(segments):
                    for x in range(2):
                        span = end[1, x] - end[0, x]
                        segments[found, 0, x] = end[0, x] + low * span
                        segments[found, 1, x] = end[0, x] + high * span if high < 1.0 else end[1, x]
                    classes[found, 0], classes[found, 1] = i, j
                    owners[found] = tile
                found += 1
    return found


@numba.njit(nogil=True, cache=True)
def _trace_intervals(offsets, corners, points, values, tolerance, segments, classes, owners):  # type: ignore[no-untyped-def]
    """The 1-D case of `_trace_polygons`: a point where two classes tie and no third is ahead."""
    found = 0
    kept = np.empty(values.shape[1], np.int64)
    for tile in range(len(offsets) - 1):
        ids = corners[offsets[tile] : offsets[tile + 1]]
        u, v = min(ids[0], ids[1]), max(ids[0], ids[1])
        possible = _possible(values, ids, tolerance, kept)
        for a in range(possible):
            for b in range(a + 1, possible):
                i, j = kept[a], kept[b]
                s = _crossing(u, v, i, j, values, tolerance)
                if s < 0.0:
                    continue
                ahead = False
                for c in range(possible):
                    k = kept[c]
                    if k != i and k != j:
                        for rival in (i, j):
                            lead = (1.0 - s) * (values[u, k] - values[u, rival]) + s * (values[v, k] - values[v, rival])
                            ahead |= _beaten(lead, k, rival, tolerance)
                if ahead:
                    continue
                if found < len(segments):
                    x = (1.0 - s) * points[u, 0] + s * points[v, 0]
                    segments[found, 0, 0] = segments[found, 1, 0] = x
                    classes[found, 0], classes[found, 1] = i, j
                    owners[found] = tile
                found += 1
    return found


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
