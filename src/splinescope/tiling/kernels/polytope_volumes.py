"""Volumes, centers and second moments of cells of three and more dimensions; areas and normals of their facets.

A face is the set of its corners, as bits: those of a facet of a face are the ones that it shares with a facet of the
cell. A polytope is filled by simplices: from one of its corners to its own facets that do not hold it, and so on down
to edges; any corner will do, and one on large facets leaves few. Every corner on the way is one more row of a Gaussian
elimination, so that simplices share the rows of the faces they have in common; the last step takes all triangles of a
polygon at once. Sums of absolute values need no care where more than d facets meet in a corner.
"""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import in_place, jit

from .sign_bits import count_bits, inlined, lowest_bit

WIDE = 8
"""Numbers in a row of coordinates, those missing zero: loops of one length are taken by whole vectors."""


@inlined
def gather(first, count, facets, dimension, masks, on):
    """Corners of each facet of a cell as bits `on[f]`; returns whether every corner lies on d facets and no more.

    Of such a simple cell every set of facets with a corner in common is a face, and no two sets are the same one.
    """
    words = (count + 63) // 64
    for f in range(facets):
        for w in range(words):
            on[f, w] = np.uint64(0)
    simple = True
    for c in range(count):
        bit = np.uint64(1) << np.uint64(c % 64)
        there = 0
        for w in range(masks.shape[1]):
            left = masks[first + c, w]
            while left:
                on[64 * w + lowest_bit(left), c // 64] |= bit
                left &= left - np.uint64(1)
                there += 1
        simple = simple and there == dimension
    return simple


@inlined
def largest_part(face, part, f, facets, words, on, sets):
    """Whether no other facet of the cell has more of a face than `part`, which facet f has, or the same before f."""
    for h in range(facets):
        if h == f:
            continue
        inside = whole = same = True
        for w in range(words):
            shared = sets[face, w] & on[h, w]
            inside = inside and sets[part, w] & ~shared == 0
            whole = whole and shared == sets[face, w]
            same = same and shared == sets[part, w]
        if inside and not whole and (not same or h < f):
            return False
    return True


@inlined
def lowest_corner(face, sets):
    """Number of the lowest corner of a face that has one."""
    w = 0
    while sets[face, w] == 0:
        w += 1
    return 64 * w + lowest_bit(sets[face, w])


@inlined
def best_apex(face, first, facets, words, masks, on, sets, weights):
    """The corner of a face whose own facets have the most corners: the others are few, and so are simplices to them."""
    for f in range(facets):
        size = 0
        for w in range(words):
            size += count_bits(sets[face, w] & on[f, w])
        # squared: one large facet spares more simplices than two of half its size
        weights[f] = size * size
    best, apex = -1, 0
    for w in range(words):
        more = sets[face, w]
        while more:
            c = 64 * w + lowest_bit(more)
            more &= more - np.uint64(1)
            total = 0
            for v in range(masks.shape[1]):
                left = masks[first + c, v]
                while left:
                    total += weights[64 * v + lowest_bit(left)]
                    left &= left - np.uint64(1)
            if total > best:
                best, apex = total, c
    return apex


@inlined
def list_parts(level, dimension, apex, facets, words, on, sets, parts, pointers):
    """List in `parts[level]`, up to -1, what may be the facets without its apex of the face `sets[level]`."""
    w, bit = apex // 64, np.uint64(apex % 64)
    found = 0
    for f in range(facets):
        size = 0
        for v in range(words):
            size += count_bits(sets[level, v] & on[f, v])
        parts[level, found] = f  # no branches: nobody can guess the sizes
        found += (size >= dimension) & ((on[f, w] >> bit) & np.uint64(1) == 0)
    parts[level, found] = -1
    pointers[level] = 0


@inlined
def next_part(level, simple, facets, words, on, sets, parts, pointers):
    """Fill `sets[level + 1]` with the next facet of the face `sets[level]` on its list."""
    while parts[level, pointers[level]] >= 0:
        f = parts[level, pointers[level]]
        pointers[level] += 1
        for w in range(words):
            sets[level + 1, w] = sets[level, w] & on[f, w]
        if simple or largest_part(level, level + 1, f, facets, words, on, sets):
            return True
    return False


@inlined
def _pivot(level, apex, k, columns, left):
    """Bring the column where the apex of a face is farthest from the flat so far to `columns[level]`; how far."""
    best, at = -1.0, level
    for y in range(level, k):
        if abs(left[level, apex, columns[y]]) > best:
            best, at = abs(left[level, apex, columns[y]]), y
    columns[level], columns[at] = columns[at], columns[level]
    return best


@inlined
def _eliminate(level, face, apex, words, sets, pivot, left):
    """Clear the corners of a face of one more direction, that to its apex.

    `left[level]` holds what the directions before have left of all edges from the origin, `left[level + 1]` is filled
    for the corners of the face.
    """
    inverse = 1.0 / left[level, apex, pivot]
    for w in range(words):
        more = sets[face, w]
        while more:
            c = 64 * w + lowest_bit(more)
            more &= more - np.uint64(1)
            share = left[level, c, pivot] * inverse
            for x in range(WIDE):
                left[level + 1, c, x] = left[level, c, x] - share * left[level, apex, x]


@inlined
def _polygon(face, apex, words, sets, columns, k, flat, order, across):
    """The corners of a polygon but its apex, by their angles about it; returns how many.

    `across` gets their places in the last two columns, cleared of the direction to the apex if that is not the origin.
    """
    u, v, cleared = columns[k - 2], columns[k - 1], columns[max(k - 3, 0)]
    inverse = 1.0 / flat[apex, cleared] if k > 2 else 0.0
    count = 0
    for w in range(words):
        more = sets[face, w]
        if w == apex // 64:
            more &= ~(np.uint64(1) << np.uint64(apex % 64))
        while more:
            c = 64 * w + lowest_bit(more)
            more &= more - np.uint64(1)
            share = flat[c, cleared] * inverse
            x, y = flat[c, u] - share * flat[apex, u], flat[c, v] - share * flat[apex, v]
            at = count
            while at > 0 and across[at - 1, 0] * y < across[at - 1, 1] * x:
                order[at], across[at, 0], across[at, 1] = order[at - 1], across[at - 1, 0], across[at - 1, 1]
                at -= 1
            order[at], across[at, 0], across[at, 1] = c, x, y
            count += 1
    return count


@inlined
def _fill(
    k, first, facets, words, simple, masks, on, sets, left, squared,
    pointers, parts, apexes, columns, weights, sizes, sums, squares, order, across, mean, second,
):  # fmt: skip
    """Fill the face `sets[0]`, a k-dimensional polytope, by simplices from its corner `apexes[0]`.

    `left[0]` has k coordinates of each of its corners about that corner. Returns k! times its volume, and how many
    simplices there are; `mean` and, where they are asked for, the upper triangle of `second` get the sums that
    `measure_cells` says, each simplex with k! times its volume.
    """
    local = left[0]
    for x in range(k):
        columns[x] = x
        if squared:
            for y in range(k):
                squares[0, x, y] = second[x, y] = 0.0
    for x in range(WIDE):
        mean[x] = sums[0, x] = 0.0
    total = 0.0
    made = 0
    sizes[0] = 1.0
    level = 0
    if k > 2:
        list_parts(0, k, apexes[0], facets, words, on, sets, parts, pointers)
    while level >= 0:
        face, apex, size = 0, apexes[0], 1.0
        if k > 2:
            if not next_part(level, simple, facets, words, on, sets, parts, pointers):
                level -= 1
                continue
            face = level + 1
            larger = level + 3 < k  # than a polygon
            if level + 4 < k:  # in less than four dimensions the best corner spares less than finding it takes
                apex = best_apex(face, first, facets, words, masks, on, sets, weights)
            else:
                apex = lowest_corner(face, sets)
            pivot = _pivot(level, apex, k, columns, left)
            # all of the face lies in the flat through the apexes so far: nothing to fill
            if pivot == 0.0:
                continue
            size = sizes[level] * pivot
            for x in range(WIDE):
                sums[face, x] = sums[level, x] + local[apex, x]
            if squared:
                for x in range(k):
                    for y in range(x, k):
                        squares[face, x, y] = squares[level, x, y] + local[apex, x] * local[apex, y]
            if larger:
                _eliminate(level, face, apex, words, sets, columns[level], left)
                level += 1
                sizes[level] = size
                apexes[level] = apex
                list_parts(level, k - level, apex, facets, words, on, sets, parts, pointers)
                continue
        ends = _polygon(face, apex, words, sets, columns, k, left[max(k - 3, 0)], order, across)
        made += ends - 1
        for n in range(ends - 1):  # the triangles of the polygon, each with all apexes so far a simplex
            a, b = order[n], order[n + 1]
            part = size * abs(across[n, 0] * across[n + 1, 1] - across[n, 1] * across[n + 1, 0])
            total += part
            for x in range(WIDE):
                mean[x] += part * (sums[face, x] + local[a, x] + local[b, x])
            if squared:
                for x in range(k):
                    s = sums[face, x] + local[a, x] + local[b, x]
                    for y in range(x, k):
                        square = squares[face, x, y] + local[a, x] * local[a, y] + local[b, x] * local[b, y]
                        square += s * (sums[face, y] + local[a, y] + local[b, y])
                        second[x, y] += part * square
        if k == 2:
            break
    return total, made


@in_place
def _measure_cells(
    offsets, corners, masks, facet_offsets, points, volumes, middles, seconds, simplices,
    on, sets, left, across, pointers, parts, apexes, columns, weights, sizes, sums, squares, order, mean, second,
):  # fmt: skip
    d = points.shape[1]
    cells = offsets.shape[0] - 1
    squared = seconds.shape[0] > 0
    for i in range(cells):
        first, count = offsets[i], offsets[i + 1] - offsets[i]
        facets = facet_offsets[i + 1] - facet_offsets[i]
        words = (count + 63) // 64
        simple = gather(first, count, facets, d, masks, on)
        for w in range(words):
            sets[0, w] = ~np.uint64(0)
        if count % 64:
            sets[0, words - 1] = (np.uint64(1) << np.uint64(count % 64)) - np.uint64(1)
        apexes[0] = best_apex(0, first, facets, words, masks, on, sets, weights)
        origin = corners[first + apexes[0]]
        for c in range(count):  # edges from the origin: points lie anywhere in memory
            for x in range(d):
                left[0, c, x] = points[corners[first + c], x] - points[origin, x]
        total, simplices[i] = _fill(
            d, first, facets, words, simple, masks, on, sets, left, squared,
            pointers, parts, apexes, columns, weights, sizes, sums, squares, order, across, mean, second,
        )  # fmt: skip
        volumes[i] = total / _factorial(d)
        for x in range(d):
            if total > 0.0:
                mean[x] /= total * (d + 1)
            else:  # thinner than its corners' digits
                for c in range(count):
                    mean[x] += left[0, c, x] / count
            middles[i, x] = points[origin, x] + mean[x]
        if squared:
            for x in range(d):
                for y in range(x, d):
                    seconds[i, x, y] = 0.0
                    if total > 0.0:
                        seconds[i, x, y] = second[x, y] / (total * (d + 1) * (d + 2)) - mean[x] * mean[y]
                    seconds[i, y, x] = seconds[i, x, y]


@jit
def measure_cells(offsets, corners, masks, facet_offsets, points, volumes, middles, seconds, simplices):
    """Volume, center of mass and, where `seconds` `[K, d, d]` has rows, covariance of the uniform law on every cell.

    A simplex with edges v_1 to v_d from its apex has the volume `|det| / d!`, the mean `s / (d + 1)` with `s = sum v`,
    and the second moment `(sum v v' + s s') / ((d + 1) (d + 2))`. `simplices` `[K]` counts them.
    """
    scratch = _scratch(points.shape[1], offsets, facet_offsets)
    _measure_cells(offsets, corners, masks, facet_offsets, points, volumes, middles, seconds, simplices, *scratch)


@jit
def _scratch(d, offsets, facet_offsets):
    """What measuring needs besides: made once, outside of the loops, which then count no references to arrays."""
    most, most_facets = _largest(offsets), _largest(facet_offsets)
    words = (most + 63) // 64
    on, sets = np.empty((most_facets, words), np.uint64), np.empty((d + 1, words), np.uint64)
    left, across, parts = np.zeros((d, most, WIDE)), np.empty((most, 2)), np.empty((d, most_facets + 1), np.int64)
    pointers, apexes, columns = np.empty(d, np.int64), np.empty(d, np.int64), np.empty(d, np.int64)
    weights, sizes, sums = np.empty(most_facets, np.int64), np.empty(d), np.empty((d, WIDE))
    squares, order, mean, second = np.empty((d, d, d)), np.empty(most, np.int64), np.empty(WIDE), np.empty((d, d))
    return on, sets, left, across, pointers, parts, apexes, columns, weights, sizes, sums, squares, order, mean, second


@inlined
def _largest(offsets):
    """The size of the longest list."""
    most = 0
    for i in range(offsets.shape[0] - 1):
        most = max(most, offsets[i + 1] - offsets[i])
    return most


@inlined
def _factorial(n):
    product = 1.0
    for x in range(2, n + 1):
        product *= x
    return product


@inlined
def _across(d, words, sets, local, columns, normal):
    """The direction at right angles to a facet, with 1 in the column left over and no much larger number elsewhere.

    By elimination with the largest pivots there are, so that thin facets keep its digits; `local`, the edges from the
    origin to the facet's corners, is used up. Returns False where they do not span a facet.
    """
    for x in range(d):
        columns[x] = x
    for rank in range(d - 1):
        best, pivot, at = 0.0, 0, rank
        for w in range(words):
            more = sets[0, w]
            while more:
                c = 64 * w + lowest_bit(more)
                more &= more - np.uint64(1)
                for y in range(rank, d):
                    x = columns[y]
                    if rank > 0:
                        local[c, x] -= local[c, columns[rank - 1]] * normal[rank - 1, x]
                    if abs(local[c, x]) > best:
                        best, pivot, at = abs(local[c, x]), c, y
        if best == 0.0:
            return False
        columns[rank], columns[at] = columns[at], columns[rank]
        inverse = 1.0 / local[pivot, columns[rank]]
        for y in range(rank + 1, d):
            normal[rank, columns[y]] = local[pivot, columns[y]] * inverse
    normal[d - 1, columns[d - 1]] = 1.0
    for rank in range(d - 2, -1, -1):
        across = 0.0
        for y in range(rank + 1, d):
            across -= normal[rank, columns[y]] * normal[d - 1, columns[y]]
        normal[d - 1, columns[rank]] = across
    return True


@inlined
def _edges(words, sets, corners, points, origin, local):
    """The edges from the origin to the corners of the face `sets[0]`."""
    for w in range(words):
        more = sets[0, w]
        while more:
            c = 64 * w + lowest_bit(more)
            more &= more - np.uint64(1)
            for x in range(points.shape[1]):
                local[c, x] = points[corners[c], x] - points[origin, x]


@inlined
def _swap(words, sets, local, u, v):
    """Swap two columns, in the rows of the corners of the face `sets[0]`."""
    for w in range(words):
        more = sets[0, w]
        while more:
            c = 64 * w + lowest_bit(more)
            more &= more - np.uint64(1)
            local[c, u], local[c, v] = local[c, v], local[c, u]


@in_place
def _measure_facets(
    slots, cells, offsets, corners, masks, facet_offsets, points, vectors, centers,
    on, sets, left, across, pointers, parts, apexes, columns, weights, sizes, sums, squares, order, mean, second,
):  # fmt: skip
    d = points.shape[1]
    k = d - 1
    normal, middle = squares[0], second[0]  # which only covariances need
    known, simple = -1, False
    for n in range(slots.shape[0]):
        i = cells[n]
        first, count = offsets[i], offsets[i + 1] - offsets[i]
        facets = facet_offsets[i + 1] - facet_offsets[i]
        words = (count + 63) // 64
        # walls come in the order of their first cells: a cell is looked at once
        if i != known:
            simple = gather(first, count, facets, d, masks, on)
            known = i
            for x in range(d):
                middle[x] = 0.0
                for c in range(first, first + count):
                    middle[x] += points[corners[c], x]
                middle[x] /= count
        for w in range(words):
            sets[0, w] = on[slots[n] - facet_offsets[i], w]
        apexes[0] = best_apex(0, first, facets, words, masks, on, sets, weights) if d > 3 else lowest_corner(0, sets)
        origin = corners[first + apexes[0]]
        _edges(words, sets, corners[first:], points, origin, left[0])
        for x in range(d):
            vectors[n, x], centers[n, x] = 0.0, points[origin, x]
        if not _across(d, words, sets, left[0], columns, normal):
            continue
        # along any other axis the projection of a steep facet would lose digits
        axis, upright = columns[k], normal[k]
        _edges(words, sets, corners[first:], points, origin, left[0])
        if axis < k:
            _swap(words, sets, left[0], axis, k)
        total, _ = _fill(
            k, first, facets, words, simple, masks, on, sets, left, False,
            pointers, parts, apexes, columns, weights, sizes, sums, squares, order, across, mean, second,
        )  # fmt: skip
        if total == 0.0:
            continue
        outward = 0.0
        for x in range(k):
            y = k if x == axis else x
            mean[x] /= total * d
            centers[n, y] += mean[x]
            centers[n, axis] -= upright[y] * mean[x]
        for x in range(d):
            outward -= upright[x] * (middle[x] - centers[n, x])
        for x in range(d):
            vectors[n, x] = upright[x] * (total if outward >= 0.0 else -total) / _factorial(k)


@jit
def measure_facets(slots, cells, offsets, corners, masks, facet_offsets, points, vectors, centers):
    """Per chosen slot its area times its outward unit normal, and its center of area.

    Along the axis that its normal n is not small in, a facet is projected to d - 1 dimensions and filled there: that
    component of its area times normal is the projection's volume, the others are to it as those of n.
    """
    scratch = _scratch(points.shape[1], offsets, facet_offsets)
    _measure_facets(slots, cells, offsets, corners, masks, facet_offsets, points, vectors, centers, *scratch)
