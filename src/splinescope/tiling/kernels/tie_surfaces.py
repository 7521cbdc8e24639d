"""Where two outputs tie inside cells of a 3-D tiling: convex polygons, clipped to where no third output is larger."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import jit

from .cut_polytopes import joined
from .polytope_facets import lies_on

ROOM = 256  # corners of one polygon, at most


@jit
def _crossing(a, b, ha, hb, rows, out, at):
    """Row `at` of `out`: where a height that is ha > 0 at row a and hb < 0 at row b is zero; same bits either way.

    A row is a point followed by all outputs there.
    """
    swap = False
    for x in range(rows.shape[1]):
        if rows[a, x] != rows[b, x]:
            swap = rows[a, x] > rows[b, x]
            break
    if swap:
        a, b, ha, hb = b, a, hb, ha
    s = ha / (ha - hb)
    for x in range(rows.shape[1]):
        out[at, x] = rows[a, x] + s * (rows[b, x] - rows[a, x])


@jit
def _polygon(start, stop, facets, heights, tolerance, corners, masks, rows, out, out_masks):
    """The polygon where the height is zero in the cell start..stop, in order around it; returns its size.

    `heights` `[stop - start]`; zeros count as below, so that the polygon may lie on a facet of the cell above it.
    """
    count = 0
    for b in range(start, stop):
        hb = heights[b - start]
        if hb > tolerance:
            continue
        done = False
        for a in range(start, stop):
            ha = heights[a - start]
            if done or ha <= tolerance or not joined(a, b, start, stop, masks, 3):
                continue
            if count == out.shape[0]:
                return -1
            if hb >= -tolerance:  # the corner itself, once
                done = True
                for x in range(rows.shape[1]):
                    out[count, x] = rows[corners[b], x]
                for w in range(masks.shape[1]):
                    out_masks[count, w] = masks[b, w]
            else:
                _crossing(corners[a], corners[b], ha, hb, rows, out, count)
                for w in range(masks.shape[1]):
                    out_masks[count, w] = masks[a, w] & masks[b, w]
            count += 1
    if count < 3:
        return 0
    for p in range(count - 1):  # bring a neighbor of point p to place p + 1: they share a facet with no third point
        for q in range(p + 1, count):
            near = False
            for f in range(facets):
                if lies_on(p, f, out_masks) and lies_on(q, f, out_masks):
                    others = 0
                    for r in range(count):
                        others += lies_on(r, f, out_masks)
                    near = near or others == 2
            if near:
                for x in range(rows.shape[1]):
                    out[p + 1, x], out[q, x] = out[q, x], out[p + 1, x]
                for w in range(masks.shape[1]):
                    out_masks[p + 1, w], out_masks[q, w] = out_masks[q, w], out_masks[p + 1, w]
                break
    return count


@jit
def _clip(polygon, count, i, k, tolerance, spare):
    """Cut from a polygon what lies where output k is ahead of output i; returns its new size.

    A tie goes to the lower number: with k < i a polygon that ties all over is not kept.
    """
    ahead = False
    for p in range(count):
        lead = polygon[p, 3 + i] - polygon[p, 3 + k]
        ahead = ahead or lead > tolerance or (k > i and lead >= -tolerance)
    if not ahead:
        return 0
    size = 0
    for p in range(count):
        q = (p + 1) % count
        hp, hq = polygon[p, 3 + i] - polygon[p, 3 + k], polygon[q, 3 + i] - polygon[q, 3 + k]
        if size + 2 > spare.shape[0]:
            return -1
        if hp >= -tolerance:
            spare[size] = polygon[p]
            size += 1
        if hp > tolerance and hq < -tolerance:
            _crossing(p, q, hp, hq, polygon, spare, size)
            size += 1
        elif hp < -tolerance and hq > tolerance:
            _crossing(q, p, hq, hp, polygon, spare, size)
            size += 1
    for p in range(size):
        polygon[p] = spare[p]
    return size if size >= 3 else 0


@jit
def _turn(polygon, count, towards):
    """Reverse a polygon unless it goes counter-clockwise seen from the point `towards`."""
    side = 0.0
    for p in range(1, count - 1):
        ux, uy, uz = polygon[p, 0] - polygon[0, 0], polygon[p, 1] - polygon[0, 1], polygon[p, 2] - polygon[0, 2]
        q = p + 1
        vx, vy, vz = polygon[q, 0] - polygon[0, 0], polygon[q, 1] - polygon[0, 1], polygon[q, 2] - polygon[0, 2]
        side += (uy * vz - uz * vy) * (towards[0] - polygon[0, 0])
        side += (uz * vx - ux * vz) * (towards[1] - polygon[0, 1])
        side += (ux * vy - uy * vx) * (towards[2] - polygon[0, 2])
    if side < 0.0:
        for p in range(count // 2):
            for x in range(polygon.shape[1]):
                q = count - 1 - p
                polygon[p, x], polygon[q, x] = polygon[q, x], polygon[p, x]


@jit
def trace_surfaces(
    chosen, offsets, corners, masks, facet_offsets, rows, classes, tolerance,
    out_points, out_offsets, out_tiles, out_classes,
):  # fmt: skip
    """Polygons between the regions of outputs i < j in the chosen cells, counter-clockwise seen from the side of j.

    `rows` are `[V, 3 + classes + m]`: points, outputs, and what else is to be known at the polygons' corners.
    Returns how many polygons there are, -1 if there was no room for them, -2 if one has over ROOM corners.
    """
    polygon = np.empty((ROOM, rows.shape[1]))
    spare = np.empty((ROOM, rows.shape[1]))
    polygon_masks = np.empty((ROOM, masks.shape[1]), np.uint64)
    towards = np.empty(3)
    most = 0
    for n in range(chosen.shape[0]):
        most = max(most, offsets[chosen[n] + 1] - offsets[chosen[n]])
    heights = np.empty(most)
    found = 0
    out_offsets[0] = 0
    for n in range(chosen.shape[0]):
        tile = chosen[n]
        start, stop = offsets[tile], offsets[tile + 1]
        floor = -np.inf  # the best worst corner: who never reaches it never wins
        for c in range(classes):
            worst = np.inf
            for p in range(start, stop):
                worst = min(worst, rows[corners[p], 3 + c])
            floor = max(floor, worst)
        for i in range(classes):
            for j in range(i + 1, classes):
                above = below = reach_i = reach_j = False
                for x in range(3):
                    towards[x] = 0.0
                ahead = 0
                for p in range(start, stop):
                    v = corners[p]
                    h = rows[v, 3 + j] - rows[v, 3 + i]
                    heights[p - start] = h
                    reach_i = reach_i or rows[v, 3 + i] >= floor - tolerance
                    reach_j = reach_j or rows[v, 3 + j] >= floor - tolerance
                    below = below or h <= tolerance
                    if h > tolerance:
                        above = True
                        ahead += 1
                        for x in range(3):
                            towards[x] += rows[v, x]
                if not (above and below and reach_i and reach_j):
                    continue
                for x in range(3):
                    towards[x] /= ahead
                count = _polygon(
                    start, stop, facet_offsets[tile + 1] - facet_offsets[tile], heights, tolerance,
                    corners, masks, rows, polygon, polygon_masks,
                )  # fmt: skip
                for k in range(classes):
                    if count > 0 and k != i and k != j:
                        count = _clip(polygon, count, i, k, tolerance, spare)
                if count < 0:
                    return -2
                if count < 3:
                    continue
                _turn(polygon, count, towards)
                at = out_offsets[found]
                if found + 2 > out_offsets.shape[0] or at + count > out_points.shape[0]:
                    return -1
                for p in range(count):
                    for x in range(out_points.shape[1]):
                        out_points[at + p, x] = polygon[p, x] + 0.0  # no negative zeros
                out_tiles[found] = tile
                out_classes[found, 0], out_classes[found, 1] = i, j
                found += 1
                out_offsets[found] = at + count
    return found


@jit
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@jit
def _segment_square(p, a, b):
    """Squared distance from p to the segment ab."""
    span, away = b - a, p - a
    size = _dot(span, span)
    share = min(max(_dot(away, span) / size, 0.0), 1.0) if size > 0.0 else 0.0
    rest = away - share * span
    return _dot(rest, rest)


@jit
def triangle_distances(queries, points, triangles):
    """Distance of each query to the nearest of the triangles; infinite if there is none."""
    nearest = np.full(len(queries), np.inf)
    for n in range(len(queries)):
        p = queries[n]
        for t in range(len(triangles)):
            a, b, c = points[triangles[t, 0]], points[triangles[t, 1]], points[triangles[t, 2]]
            u, v, w = b - a, c - a, p - a
            uu, uv, vv, wu, wv = _dot(u, u), _dot(u, v), _dot(v, v), _dot(w, u), _dot(w, v)
            size = uu * vv - uv * uv
            inside = False
            if size > 0.0:
                s, r = (vv * wu - uv * wv) / size, (uu * wv - uv * wu) / size
                if s >= 0.0 and r >= 0.0 and s + r <= 1.0:
                    inside = True
                    rest = w - s * u - r * v
                    nearest[n] = min(nearest[n], _dot(rest, rest))
            if not inside:
                nearest[n] = min(
                    nearest[n], _segment_square(p, a, b), _segment_square(p, b, c), _segment_square(p, c, a)
                )
        nearest[n] = np.sqrt(nearest[n])
    return nearest
