"""The hot loops of the engine: signs as bits, cutting polygons and intervals, carrying rows to new vertices.

Conventions. A vertex is an index into arrays that grow at the end: `names` (a 64-bit name that depends only on
how the vertex came to be), `points`, `pos`/`neg` (two bit-planes of its pre-activations at the current fold: above
tol, below -tol; neither means exactly zero), `parents` and `weights` (a vertex made at this fold lies at
`weights[0] * parent0 + weights[1] * parent1`). The pre-activations themselves are `cuts` for the first len(cuts)
vertices, those that were there before this fold; of the later ones `new_cuts` holds only the words of 64 units
that were needed so far (`filled`): most units never come close to most vertices. All decisions are made on the bits, and every
number of a new vertex is a fixed formula of its parents taken in the order of their names, so a result does not
depend on which tiles happen to be processed together.

Tiles are CSR lists of corners; `labels[i]` names what made the wall from corner i to the next (in 1-D: what made
corner i). Kernels return a status instead of growing arrays: 0 is done, otherwise the caller enlarges and repeats.
"""

from __future__ import annotations

import numba
import numba.extending
import numpy as np
from llvmlite import ir

_jit = numba.njit(nogil=True, cache=True)

DONE, VERTICES_FULL, TILES_FULL, STACK_FULL, TABLE_FULL = 0, 1, 2, 3, 4


@_jit
def mix(a: int, b: int, unit: int) -> int:
    """A 64-bit name for the vertex that `unit` cuts on the edge between vertices named a < b."""
    h = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    h = (h + np.uint64(b)) * np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(32)
    h = (h + np.uint64(unit) + np.uint64(1)) * np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    return h


@numba.extending.intrinsic
def _lowest_bit(context, word):  # type: ignore[no-untyped-def]
    """Index of the lowest set bit of a non-zero word: one machine instruction."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return numba.types.int64(numba.types.uint64), generate


@numba.extending.intrinsic
def _count_bits(context, word):  # type: ignore[no-untyped-def]
    """How many bits of a word are set: one machine instruction."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return numba.types.int64(numba.types.uint64), generate


@_jit
def sign_bits(cuts, tol, start, stop, pos, neg):  # type: ignore[no-untyped-def]
    """Fill the bit-planes of vertices start..stop from their pre-activations."""
    units = cuts.shape[1]
    for v in range(start, stop):
        for w in range(pos.shape[1]):
            p = np.uint64(0)
            n = np.uint64(0)
            low = w * 64
            for k in range(low, min(low + 64, units)):
                z = cuts[v, k]
                bit = np.uint64(1) << np.uint64(k - low)
                if z > tol[k]:
                    p |= bit
                elif z < -tol[k]:
                    n |= bit
            pos[v, w] = p
            neg[v, w] = n


@_jit
def _range_mask(word_index: int, first: int, last: int) -> int:
    """Bits of one word that stand for units first <= k < last."""
    low = word_index * 64
    mask = ~np.uint64(0)
    if first > low:
        if first - low >= 64:
            return np.uint64(0)
        mask &= ~np.uint64(0) << np.uint64(first - low)
    if last < low + 64:
        if last <= low:
            return np.uint64(0)
        mask &= ~np.uint64(0) >> np.uint64(low + 64 - last)
    return mask


@_jit
def count_cutting_units(offsets, corners, pos, neg, first, counts):  # type: ignore[no-untyped-def]
    """counts[i] = how many units >= first take both signs on tile i."""
    words = pos.shape[1]
    for i in range(offsets.shape[0] - 1):
        total = 0
        for w in range(first // 64, words):
            p = np.uint64(0)
            n = np.uint64(0)
            for c in range(offsets[i], offsets[i + 1]):
                p |= pos[corners[c], w]
                n |= neg[corners[c], w]
            total += _count_bits(p & n & _range_mask(w, first, words * 64))
        counts[i] = total


@_jit
def nth_cutting_unit(offsets, corners, pos, neg, first, nth):  # type: ignore[no-untyped-def]
    """The unit just past the nth (from 1) unit >= first that takes both signs on some tile; all if fewer."""
    words = pos.shape[1]
    seen = 0
    for w in range(first // 64, words):
        m = np.uint64(0)
        for i in range(offsets.shape[0] - 1):
            p = np.uint64(0)
            n = np.uint64(0)
            for c in range(offsets[i], offsets[i + 1]):
                p |= pos[corners[c], w]
                n |= neg[corners[c], w]
            m |= p & n
        m &= _range_mask(w, first, words * 64)
        while m != 0:
            k = _lowest_bit(m)
            m &= m - np.uint64(1)
            seen += 1
            if seen == nth:
                return w * 64 + k + 1
    return words * 64


@_jit
def _next_cutting_unit(corners, start, stop, pos, neg, first, last):  # type: ignore[no-untyped-def]
    for w in range(first // 64, (last + 63) // 64):
        p = np.uint64(0)
        n = np.uint64(0)
        for c in range(start, stop):
            v = corners[c]
            p |= pos[v, w]
            n |= neg[v, w]
        m = p & n & _range_mask(w, first, last)
        if m != 0:
            return w * 64 + _lowest_bit(m)
    return -1


@_jit
def _sign(v, k, pos, neg):  # type: ignore[no-untyped-def]
    bit = np.uint64(1) << np.uint64(k % 64)
    if pos[v, k // 64] & bit:
        return 1
    if neg[v, k // 64] & bit:
        return -1
    return 0


@_jit
def _fill(vertex, w, cuts, new_cuts, filled, parents, weights):  # type: ignore[no-untyped-def]
    """Make word w of a vertex's pre-activations available, its ancestors' first.

    (A loop that starts again from the vertex after each ancestor: chains are short, and a recursive function
    does not survive numba's cache.)
    """
    old = cuts.shape[0]
    if vertex < old:
        return
    while not filled[vertex - old, w]:
        q = vertex
        while True:
            a = parents[q, 0]
            b = parents[q, 1]
            if a >= old and not filled[a - old, w]:
                q = a
            elif b >= old and not filled[b - old, w]:
                q = b
            else:
                break
        row_a = cuts[a] if a < old else new_cuts[a - old]
        row_b = cuts[b] if b < old else new_cuts[b - old]
        s = weights[q, 0]
        t = weights[q, 1]
        for j in range(64 * w, min(64 * w + 64, cuts.shape[1])):
            new_cuts[q - old, j] = s * row_a[j] + t * row_b[j]
        filled[q - old, w] = True


@_jit
def _cut_value(v, j, cuts, new_cuts):  # type: ignore[no-untyped-def]
    """Pre-activation j of vertex v (for a new vertex, its word must have been filled)."""
    return cuts[v, j] if v < cuts.shape[0] else new_cuts[v - cuts.shape[0], j]


@_jit
def _cut_edge(  # type: ignore[no-untyped-def]
    u, v, k, base, count, cuts, new_cuts, filled, pos, neg, tol, names, points, parents, weights, keys, values
):
    """The vertex where unit k is zero on edge (u, v): found in the edge table, or made at index `count`."""
    a, b = (u, v) if names[u] < names[v] else (v, u)
    key = (np.uint64(a) << np.uint64(32)) | np.uint64(b)
    mask = np.uint64(keys.shape[0] - 1)
    h = key * np.uint64(0x9E3779B97F4A7C15)
    slot = (h >> np.uint64(24)) & mask
    while values[slot] >= 0:
        if keys[slot] == key:
            return values[slot]
        slot = (slot + np.uint64(1)) & mask
    keys[slot] = key
    values[slot] = count
    q = count
    _fill(a, k // 64, cuts, new_cuts, filled, parents, weights)
    _fill(b, k // 64, cuts, new_cuts, filled, parents, weights)
    za = _cut_value(a, k, cuts, new_cuts)
    zb = _cut_value(b, k, cuts, new_cuts)
    s = zb / (zb - za)
    t = za / (za - zb)
    parents[q, 0] = a
    parents[q, 1] = b
    weights[q, 0] = s
    weights[q, 1] = t
    names[q] = mix(names[a], names[b], base + k)
    for d in range(points.shape[1]):
        points[q, d] = s * points[a, d] + t * points[b, d]
    i = q - cuts.shape[0]
    for w in range(pos.shape[1]):
        filled[i, w] = False
        pa = pos[a, w]
        pb = pos[b, w]
        na = neg[a, w]
        nb = neg[b, w]
        conflict = (pa & nb) | (na & pb)
        p = (pa | pb) & ~conflict
        n = (na | nb) & ~conflict
        if conflict != 0:
            _fill(q, w, cuts, new_cuts, filled, parents, weights)
        while conflict != 0:
            low = conflict & (~conflict + np.uint64(1))
            j = w * 64 + _lowest_bit(conflict)
            conflict ^= low
            z = new_cuts[i, j]
            if j != k and z > tol[j]:
                p |= low
            elif j != k and z < -tol[j]:
                n |= low
            else:
                new_cuts[i, j] = 0.0
        pos[q, w] = p
        neg[q, w] = n
    return q


@_jit
def split_polygons(  # type: ignore[no-untyped-def]
    offsets, corners, labels, first, last, base, count,
    cuts, new_cuts, filled, pos, neg, tol, names, points, parents, weights, keys, values,
    out_offsets, out_corners, out_labels, stack_corners, stack_labels, stack_starts, stack_units,
):  # fmt: skip
    """Cut every polygon along the folds of units first <= k < last, in ascending order of k.

    Returns (status, vertices, tiles). Children stand in the place of their parent, negative side first.
    """
    tiles = 0
    out_offsets[0] = 0
    for i in range(offsets.shape[0] - 1):
        size = offsets[i + 1] - offsets[i]
        if size > stack_corners.shape[0]:
            return STACK_FULL, count, tiles
        for c in range(size):
            stack_corners[c] = corners[offsets[i] + c]
            stack_labels[c] = labels[offsets[i] + c]
        stack_starts[0] = 0
        stack_starts[1] = size
        stack_units[0] = first
        depth = 1
        while depth > 0:
            start = stack_starts[depth - 1]
            stop = stack_starts[depth]
            n = stop - start
            k = _next_cutting_unit(stack_corners, start, stop, pos, neg, stack_units[depth - 1], last)
            if k < 0:
                at = out_offsets[tiles]
                if tiles + 2 > out_offsets.shape[0] or at + n > out_corners.shape[0]:
                    return TILES_FULL, count, tiles
                for c in range(n):
                    out_corners[at + c] = stack_corners[start + c]
                    out_labels[at + c] = stack_labels[start + c]
                tiles += 1
                out_offsets[tiles] = at + n
                depth -= 1
                continue
            if count + 2 > names.shape[0]:
                return VERTICES_FULL, count, tiles
            if 2 * (count + 2) > keys.shape[0]:
                return TABLE_FULL, count, tiles
            # room above the polygon for both children: together they have at most n + 4 corners
            if stop + n + 8 > stack_corners.shape[0] or depth + 2 > stack_starts.shape[0]:
                return STACK_FULL, count, tiles
            # walk counter-clockwise: from a negative corner to the first positive one, on to the next negative
            minus = start
            while _sign(stack_corners[minus], k, pos, neg) >= 0:
                minus += 1
            zero = -1
            j = minus
            previous = minus
            while True:
                previous = j
                j = j + 1 if j + 1 < stop else start
                sign = _sign(stack_corners[j], k, pos, neg)
                if sign > 0:
                    break
                if sign < 0:
                    zero = -1
                elif zero < 0:
                    zero = j
            plus = j
            if zero >= 0:
                enter = stack_corners[zero]
                enter_label = stack_labels[zero]
                enter_at = zero
            else:
                enter = _cut_edge(
                    stack_corners[previous], stack_corners[plus], k, base, count,
                    cuts, new_cuts, filled, pos, neg, tol, names, points, parents, weights, keys, values,
                )  # fmt: skip
                if enter == count:
                    count += 1
                enter_label = stack_labels[previous]
                enter_at = previous
            zero = -1
            j = plus
            while True:
                previous = j
                j = j + 1 if j + 1 < stop else start
                sign = _sign(stack_corners[j], k, pos, neg)
                if sign < 0:
                    break
                if sign > 0:
                    zero = -1
                elif zero < 0:
                    zero = j
            minus = j
            if zero >= 0:
                leave = stack_corners[zero]
                leave_label = stack_labels[zero]
                leave_at = zero
            else:
                leave = _cut_edge(
                    stack_corners[previous], stack_corners[minus], k, base, count,
                    cuts, new_cuts, filled, pos, neg, tol, names, points, parents, weights, keys, values,
                )  # fmt: skip
                if leave == count:
                    count += 1
                leave_label = stack_labels[previous]
                leave_at = previous
            # `enter_at`/`leave_at`: the last corner before (or at) the crossing; the walls that follow keep labels
            top = stop
            stack_corners[top] = enter  # positive child: enter, ..., leave
            stack_labels[top] = enter_label
            top += 1
            j = enter_at
            while j != leave_at:
                j = j + 1 if j + 1 < stop else start
                if stack_corners[j] != leave:
                    stack_corners[top] = stack_corners[j]
                    stack_labels[top] = stack_labels[j]
                    top += 1
            stack_corners[top] = leave
            stack_labels[top] = base + k
            top += 1
            split = top
            stack_corners[top] = leave  # negative child: leave, ..., enter
            stack_labels[top] = leave_label
            top += 1
            j = leave_at
            while j != enter_at:
                j = j + 1 if j + 1 < stop else start
                if stack_corners[j] != enter:
                    stack_corners[top] = stack_corners[j]
                    stack_labels[top] = stack_labels[j]
                    top += 1
            stack_corners[top] = enter
            stack_labels[top] = base + k
            top += 1
            shift = stop - start  # move both children down over their parent
            for c in range(stop, top):
                stack_corners[c - shift] = stack_corners[c]
                stack_labels[c - shift] = stack_labels[c]
            stack_starts[depth] = split - shift
            stack_starts[depth + 1] = top - shift
            stack_units[depth - 1] = k + 1
            stack_units[depth] = k + 1
            depth += 1
    return DONE, count, tiles


@_jit
def split_intervals(  # type: ignore[no-untyped-def]
    offsets, corners, labels, first, last, base, count,
    cuts, new_cuts, filled, pos, neg, tol, names, points, parents, weights, keys, values,
    out_offsets, out_corners, out_labels, stack_corners, stack_labels, stack_starts, stack_units,
):  # fmt: skip
    """The 1-D twin of `split_polygons`: intervals (left, right), children from left to right."""
    tiles = 0
    out_offsets[0] = 0
    for i in range(offsets.shape[0] - 1):
        for c in range(2):
            stack_corners[c] = corners[offsets[i] + c]
            stack_labels[c] = labels[offsets[i] + c]
        stack_units[0] = first
        depth = 1
        while depth > 0:
            start = 2 * (depth - 1)
            k = _next_cutting_unit(stack_corners, start, start + 2, pos, neg, stack_units[depth - 1], last)
            if k < 0:
                at = out_offsets[tiles]
                if tiles + 2 > out_offsets.shape[0] or at + 2 > out_corners.shape[0]:
                    return TILES_FULL, count, tiles
                for c in range(2):
                    out_corners[at + c] = stack_corners[start + c]
                    out_labels[at + c] = stack_labels[start + c]
                tiles += 1
                out_offsets[tiles] = at + 2
                depth -= 1
                continue
            if count + 1 > names.shape[0]:
                return VERTICES_FULL, count, tiles
            if 2 * (count + 1) > keys.shape[0]:
                return TABLE_FULL, count, tiles
            if start + 4 > stack_corners.shape[0] or depth + 1 > stack_units.shape[0]:
                return STACK_FULL, count, tiles
            q = _cut_edge(
                stack_corners[start], stack_corners[start + 1], k, base, count,
                cuts, new_cuts, filled, pos, neg, tol, names, points, parents, weights, keys, values,
            )  # fmt: skip
            if q == count:
                count += 1
            # left child on top of the stack, so that it comes out first
            stack_corners[start + 2] = stack_corners[start]
            stack_labels[start + 2] = stack_labels[start]
            stack_corners[start + 3] = q
            stack_labels[start + 3] = base + k
            stack_corners[start] = q
            stack_labels[start] = base + k
            stack_units[depth - 1] = k + 1
            stack_units[depth] = k + 1
            depth += 1
    return DONE, count, tiles


@_jit
def conflicting_units(start, stop, parents, pos, neg, found):  # type: ignore[no-untyped-def]
    """OR into `found` (bit words) the units whose parents' signs are opposite, over new vertices start..stop."""
    for q in range(start, stop):
        a = parents[q, 0]
        b = parents[q, 1]
        for w in range(pos.shape[1]):
            found[w] |= (pos[a, w] & neg[b, w]) | (neg[a, w] & pos[b, w])


@_jit
def carry(start, stop, parents, weights, rows):  # type: ignore[no-untyped-def]
    """Rows of new vertices for a value on which the fold has no effect: the convex combination of the parents'."""
    for q in range(start, stop):
        a = parents[q, 0]
        b = parents[q, 1]
        s = weights[q, 0]
        t = weights[q, 1]
        for i in range(rows.shape[1]):
            rows[q, i] = s * rows[a, i] + t * rows[b, i]


@_jit
def _bend(j, a, b, q, s, t, cuts, new_cuts, pos):  # type: ignore[no-untyped-def]
    """relu(u_q) - s relu(u_a) - t relu(u_b) for a unit that is positive at one parent and negative at the other."""
    z = 0.0
    if pos[q, j // 64] & (np.uint64(1) << np.uint64(j % 64)):
        z = _cut_value(q, j, cuts, new_cuts)
    za = max(_cut_value(a, j, cuts, new_cuts), 0.0)
    zb = max(_cut_value(b, j, cuts, new_cuts), 0.0)
    return z - s * za - t * zb


@_jit
def carry_dense(start, stop, parents, weights, rows, cuts, new_cuts, pos, neg, gains, slots, columns):  # type: ignore[no-untyped-def]
    """`carry`, plus the fold's effect: sum_j gains[j] * bend_j * columns[slots[j]] over the few units in conflict."""
    for q in range(start, stop):
        a = parents[q, 0]
        b = parents[q, 1]
        s = weights[q, 0]
        t = weights[q, 1]
        for i in range(rows.shape[1]):
            rows[q, i] = s * rows[a, i] + t * rows[b, i]
        for w in range(pos.shape[1]):
            conflict = (pos[a, w] & neg[b, w]) | (neg[a, w] & pos[b, w])
            while conflict != 0:
                j = w * 64 + _lowest_bit(conflict)
                conflict &= conflict - np.uint64(1)
                c = gains[j] * _bend(j, a, b, q, s, t, cuts, new_cuts, pos)
                slot = slots[j]
                for i in range(rows.shape[1]):
                    rows[q, i] += c * columns[slot, i]


@_jit
def carry_sparse(start, stop, parents, weights, rows, cuts, new_cuts, pos, neg, gains, slots, starts, indices, entries):  # type: ignore[no-untyped-def]
    """`carry_dense` with the columns in CSR form (convolutions: a unit reaches few outputs)."""
    for q in range(start, stop):
        a = parents[q, 0]
        b = parents[q, 1]
        s = weights[q, 0]
        t = weights[q, 1]
        for i in range(rows.shape[1]):
            rows[q, i] = s * rows[a, i] + t * rows[b, i]
        for w in range(pos.shape[1]):
            conflict = (pos[a, w] & neg[b, w]) | (neg[a, w] & pos[b, w])
            while conflict != 0:
                j = w * 64 + _lowest_bit(conflict)
                conflict &= conflict - np.uint64(1)
                c = gains[j] * _bend(j, a, b, q, s, t, cuts, new_cuts, pos)
                slot = slots[j]
                for e in range(starts[slot], starts[slot + 1]):
                    rows[q, indices[e]] += c * entries[e]


@_jit
def keep_ancestors(used, first_new, parents):  # type: ignore[no-untyped-def]
    """Mark the parents, within this fold, of every marked vertex (new vertices come after their parents)."""
    for q in range(used.shape[0] - 1, first_new - 1, -1):
        if used[q]:
            used[parents[q, 0]] = True
            used[parents[q, 1]] = True


@_jit
def mark_unreal_walls(offsets, corners, labels, low, cuts, gaps, cut_tol, gap_tol):  # type: ignore[no-untyped-def]
    """Relabel as -2 - label the walls that only losers of a tournament drew (its units have labels from `low`).

    `cuts` and `gaps` `[V, units]`: each unit's pre-activation, and by how much its winner loses in the end. A wall is
    real if some unit is zero on it, not zero on the rest of the tile, and has no gap there.
    """
    units = cuts.shape[1]
    for i in range(offsets.shape[0] - 1):
        start = offsets[i]
        stop = offsets[i + 1]
        for c in range(start, stop):
            own = labels[c] - low
            if own < 0 or own >= units:
                continue
            u = corners[c]
            v = u  # in 1-D a wall is a point
            if stop - start > 2:
                v = corners[c + 1 if c + 1 < stop else start]
            if gaps[u, own] <= gap_tol[own] and gaps[v, own] <= gap_tol[own]:
                continue
            real = False
            for j in range(units):
                if max(gaps[u, j], gaps[v, j]) > gap_tol[j] or max(abs(cuts[u, j]), abs(cuts[v, j])) > cut_tol[j]:
                    continue
                for other in range(start, stop):
                    if abs(cuts[corners[other], j]) > cut_tol[j]:
                        real = True
                        break
                if real:
                    break
            if not real:
                labels[c] = -2 - labels[c]


@_jit
def number_vertices(names, corners, keys, values, ids, firsts):  # type: ignore[no-untyped-def]
    """Number vertices by name in order of first appearance among `corners`; returns how many there are.

    ids[c] becomes the number of corner c; firsts[n] the local index at which vertex n first appeared.
    """
    mask = np.uint64(keys.shape[0] - 1)
    count = 0
    for c in range(corners.shape[0]):
        name = names[corners[c]]
        slot = (name >> np.uint64(20)) & mask
        while values[slot] >= 0 and keys[slot] != name:
            slot = (slot + np.uint64(1)) & mask
        if values[slot] < 0:
            keys[slot] = name
            values[slot] = count
            firsts[count] = corners[c]
            count += 1
        ids[c] = values[slot]
    return count


@_jit
def polygon_areas(offsets, corners, points, areas):  # type: ignore[no-untyped-def]
    """Signed areas by the shoelace formula about the first corner (so that far-away origins cost no digits)."""
    for i in range(offsets.shape[0] - 1):
        start = offsets[i]
        x0 = points[corners[start], 0]
        y0 = points[corners[start], 1]
        total = 0.0
        for c in range(start + 1, offsets[i + 1] - 1):
            ux = points[corners[c], 0] - x0
            uy = points[corners[c], 1] - y0
            vx = points[corners[c + 1], 0] - x0
            vy = points[corners[c + 1], 1] - y0
            total += ux * vy - uy * vx
        areas[i] = 0.5 * total
