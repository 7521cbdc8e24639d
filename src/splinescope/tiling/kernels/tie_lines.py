"""Loops behind `tiling.measures.boundary`: ties of outputs inside tiles and along walls, distances, chains."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import jit


@jit
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


@jit
def _sign(v, i, j, values, tolerance):  # type: ignore[no-untyped-def]
    """1 where output i is ahead of j, -1 where behind, 0 for a tie."""
    lead = values[v, i] - values[v, j]
    return 1 if lead > tolerance else -1 if lead < -tolerance else 0


@jit
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


@jit
def trace_tiles(offsets, corners, points, values, tolerance, segments, classes, owners):  # type: ignore[no-untyped-def]
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
                found = _enter(found, i, j, tile, end, low, high, segments, classes, owners)
    return found


@jit
def trace_walls(ends, offsets0, corners0, offsets1, corners1, points, values, tolerance, segments, classes, owners):  # type: ignore[no-untyped-def]
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
                found = _enter(found, i, j, wall, end, low, high, segments, classes, owners)
    return found


@jit
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


@jit
def _enter(row, i, j, owner, end, low, high, segments, classes, owners):  # type: ignore[no-untyped-def]
    """Write the part from low to high of a tie, if there is one and a row for it; how many ties there are then."""
    if low >= high:
        return row
    if row >= len(segments):
        return row + 1
    for x in range(end.shape[1]):
        span = end[1, x] - end[0, x]
        segments[row, 0, x] = end[0, x] + low * span
        segments[row, 1, x] = end[0, x] + high * span if high < 1.0 else end[1, x]
    classes[row, 0], classes[row, 1] = i, j
    owners[row] = owner
    return row + 1


@jit
def distances(points, segments):  # type: ignore[no-untyped-def]
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


@jit
def chain(ends, incident, starts):  # type: ignore[no-untyped-def]
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
