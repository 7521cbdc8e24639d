"""Areas, normals and centers of the facets of cells of three and more dimensions.

Faces are sets of corners as bits, and facets are filled by simplices, as in `polytope_volumes`.
"""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import jit

from .polytope_volumes import best_apex, gather, lowest_corner, next_part
from .sign_bits import inlined, lowest_bit


@inlined
def _add_row(rank, vertex, origin, points, edges, rows, columns):
    """Row `rank` of the elimination: the edge from origin to a vertex, cleared by the rows before; its pivot's size."""
    d = points.shape[1]
    for x in range(d):
        edges[rank, x] = points[vertex, x] - points[origin, x]
        rows[rank, x] = edges[rank, x]
    for r in range(rank):
        share = rows[rank, columns[r]] / rows[r, columns[r]]
        if share != 0.0:
            for y in range(r + 1, d):
                rows[rank, columns[y]] -= share * rows[r, columns[y]]
    best, at = -1.0, rank
    for y in range(rank, d):
        if abs(rows[rank, columns[y]]) > best:
            best, at = abs(rows[rank, columns[y]]), y
    columns[rank], columns[at] = columns[at], columns[rank]
    return best


@inlined
def _spokes(face, apex, rank, first, origin, words, corners, sets, points, spokes, left, rows, columns):
    """Edges from origin to the corners of a polygon but its apex, and what rows 0 to rank - 1 leave of them.

    Of each, `left` has the columns without a pivot. Returns how many there are.
    """
    d = points.shape[1]
    count = 0
    for w in range(words):
        more = sets[face, w]
        if w == apex // 64:
            more &= ~(np.uint64(1) << np.uint64(apex % 64))
        while more:
            vertex = corners[first + 64 * w + lowest_bit(more)]
            more &= more - np.uint64(1)
            for x in range(d):
                spokes[count, x] = points[vertex, x] - points[origin, x]
            for x in range(d):
                left[count, x] = spokes[count, columns[x]]
            for r in range(rank):
                share = left[count, r] / rows[r, columns[r]]
                for y in range(r + 1, d):
                    left[count, y] -= share * rows[r, columns[y]]
            count += 1
    return count


@inlined
def _around(count, u, v, left, order):
    """Sort vectors of a plane, all in one half of it, by their angles; columns u and v of `left` are coordinates."""
    for k in range(count):
        order[k] = k
        at = k
        while at > 0:
            a, b = order[at - 1], order[at]
            if left[a, u] * left[b, v] >= left[a, v] * left[b, u]:
                break
            order[at - 1], order[at] = b, a
            at -= 1


@inlined
def _flatten(count, first, left, order):
    """`_around` for vectors `left[:, first:first + 3]` of a plane in space: by two coordinates that tell them apart."""
    if count < 3:
        order[0], order[1] = 0, 1
        return
    best, c0, c1, c2 = -1.0, 0.0, 0.0, 0.0
    for b in range(1, count):
        t0 = left[0, first + 1] * left[b, first + 2] - left[0, first + 2] * left[b, first + 1]
        t1 = left[0, first + 2] * left[b, first] - left[0, first] * left[b, first + 2]
        t2 = left[0, first] * left[b, first + 1] - left[0, first + 1] * left[b, first]
        if t0 * t0 + t1 * t1 + t2 * t2 > best:
            best = t0 * t0 + t1 * t1 + t2 * t2
            c0, c1, c2 = abs(t0), abs(t1), abs(t2)
    u, v = first, first + 1
    if c0 >= c1 and c0 >= c2:
        u, v = first + 1, first + 2
    elif c1 >= c2:
        u, v = first + 2, first
    _around(count, u, v, left, order)


@jit
def measure_facets(slots, cells, offsets, corners, masks, facet_offsets, points, vectors, centers):
    """Per chosen slot its area times its outward unit normal, and its center of area."""
    d = points.shape[1]
    most = most_facets = 0
    for i in range(offsets.shape[0] - 1):
        most = max(most, offsets[i + 1] - offsets[i])
        most_facets = max(most_facets, facet_offsets[i + 1] - facet_offsets[i])
    on = np.empty((most_facets, (most + 63) // 64), np.uint64)
    sets = np.empty((d + 1, (most + 63) // 64), np.uint64)
    pointers, apexes, columns = np.empty(d, np.int64), np.empty(d, np.int64), np.empty(d, np.int64)
    edges, rows, sums = np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    spokes, left, order = np.empty((most, d)), np.empty((most, d)), np.empty(most, np.int64)
    sizes, normal, moment = np.empty(d), np.empty(d), np.empty(d)
    weights = np.empty(most_facets, np.int64)
    factorial = 1.0
    for x in range(2, d):
        factorial *= x
    known, simple = -1, False
    for n in range(slots.shape[0]):
        i = cells[n]
        first, count = offsets[i], offsets[i + 1] - offsets[i]
        facets = facet_offsets[i + 1] - facet_offsets[i]
        words = (count + 63) // 64
        if i != known:
            simple = gather(first, count, facets, d, masks, on)
            known = i
        for w in range(words):
            sets[0, w] = on[slots[n] - facet_offsets[i], w]
        apexes[0] = best_apex(0, first, facets, words, masks, on, sets, weights) if d > 3 else lowest_corner(0, sets)
        origin = corners[first + apexes[0]]
        for x in range(d):
            columns[x] = x
            vectors[n, x] = centers[n, x] = sums[0, x] = 0.0
        total = 0.0
        sizes[0] = 1.0
        pointers[0] = level = 0
        while level >= 0:
            rank = face = 0
            apex, size = apexes[0], 1.0
            if d > 3:  # in 3-D the facet is the polygon
                if not next_part(level, d - 1 - level, apexes[level], simple, facets, words, on, sets, pointers):
                    level -= 1
                    continue
                rank = face = level + 1
                larger = level + 4 < d  # than a polygon, of which any corner is as good
                apex = (
                    best_apex(face, first, facets, words, masks, on, sets, weights)
                    if larger
                    else lowest_corner(face, sets)
                )
                size = sizes[level] * _add_row(level, corners[first + apex], origin, points, edges, rows, columns)
                if size == 0.0:
                    continue
                for x in range(d):
                    sums[face, x] = sums[level, x] + edges[level, x]
                if larger:
                    level += 1
                    sizes[level] = size
                    apexes[level] = apex
                    pointers[level] = 0
                    continue
            ends = _spokes(face, apex, rank, first, origin, words, corners, sets, points, spokes, left, rows, columns)
            _flatten(ends, d - 3, left, order)
            # the sum of the triangles' areas, as a vector in the three columns without a pivot
            turn0 = turn1 = turn2 = whole = 0.0
            for x in range(d):
                moment[x] = 0.0
            for k in range(ends - 1):
                a, b = order[k], order[k + 1]
                t0 = left[a, d - 2] * left[b, d - 1] - left[a, d - 1] * left[b, d - 2]
                t1 = left[a, d - 1] * left[b, d - 3] - left[a, d - 3] * left[b, d - 1]
                t2 = left[a, d - 3] * left[b, d - 2] - left[a, d - 2] * left[b, d - 3]
                turn0, turn1, turn2 = turn0 + t0, turn1 + t1, turn2 + t2
                part = np.sqrt(t0 * t0 + t1 * t1 + t2 * t2)
                whole += part
                for x in range(d):
                    moment[x] += part * (sums[face, x] + spokes[a, x] + spokes[b, x])
            if whole > 0.0:
                normal[columns[d - 3]], normal[columns[d - 2]] = size * turn0, size * turn1
                normal[columns[d - 1]] = size * turn2
                for r in range(rank - 1, -1, -1):  # at right angles to every row
                    across = 0.0
                    for y in range(r + 1, d):
                        across += rows[r, columns[y]] * normal[columns[y]]
                    normal[columns[r]] = -across / rows[r, columns[r]]
                along = area = 0.0
                for x in range(d):
                    along += normal[x] * vectors[n, x]
                    area += normal[x] * normal[x]
                area = np.sqrt(area)
                total += area
                for x in range(d):
                    vectors[n, x] += normal[x] if along >= 0.0 else -normal[x]
                    centers[n, x] += area * moment[x] / whole
            if d == 3:
                break
        outward = 0.0
        for x in range(d):
            centers[n, x] = points[origin, x] + (centers[n, x] / (total * d) if total > 0.0 else 0.0)
            mean = 0.0
            for c in range(first, first + count):
                mean += points[corners[c], x] - centers[n, x]
            outward -= vectors[n, x] * mean
        for x in range(d):
            vectors[n, x] *= (1.0 if outward >= 0.0 else -1.0) / factorial
