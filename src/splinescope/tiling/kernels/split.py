"""Cutting polygons and intervals along folds, one unit after the other.

Kernels return a status instead of growing arrays: DONE, or what was too small; the caller enlarges and repeats.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .bits import jit, lowest_bit, mix, next_cutting_unit, sign_of

DONE, VERTICES_FULL, TILES_FULL, STACK_FULL, TABLE_FULL = 0, 1, 2, 3, 4


class Vertices(NamedTuple):
    """The vertices of a chunk at one fold (see the package's text); arrays have room beyond those in use.

    The kernels take its fields one by one: numba counts references at every access to a field.
    """

    names: np.ndarray
    points: np.ndarray
    parents: np.ndarray
    weights: np.ndarray
    pos: np.ndarray
    neg: np.ndarray
    cuts: np.ndarray
    new_cuts: np.ndarray
    filled: np.ndarray


@jit
def fill(vertex, w, parents, weights, pos, neg, cuts, new_cuts, filled):
    """Make word w of a vertex's pre-activations available in `new_cuts`, its ancestors' first.

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
        zero = ~(pos[q, w] | neg[q, w])
        for j in range(64 * w, min(64 * w + 64, cuts.shape[1])):
            new_cuts[q - old, j] = s * row_a[j] + t * row_b[j]
        while zero != 0:
            j = 64 * w + lowest_bit(zero)
            zero &= zero - np.uint64(1)
            if j < cuts.shape[1]:
                new_cuts[q - old, j] = 0.0
        filled[q - old, w] = True


@jit
def cut_value(vertex, j, cuts, new_cuts):
    """Pre-activation j of a vertex (for a new vertex, its word must have been filled)."""
    old = cuts.shape[0]
    return cuts[vertex, j] if vertex < old else new_cuts[vertex - old, j]


@jit
def _cut_edge(
    end0, end1, k, base, count, names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, keys, values
):  # fmt: skip
    """The vertex where unit k is zero on the edge between two others: found in the table, or made at index `count`."""
    a, b = (end0, end1) if names[end0] < names[end1] else (end1, end0)
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
    fill(a, k // 64, parents, weights, pos, neg, cuts, new_cuts, filled)
    fill(b, k // 64, parents, weights, pos, neg, cuts, new_cuts, filled)
    za = cut_value(a, k, cuts, new_cuts)
    zb = cut_value(b, k, cuts, new_cuts)
    s = zb / (zb - za)
    t = za / (za - zb)
    parents[q, 0] = a
    parents[q, 1] = b
    weights[q, 0] = s
    weights[q, 1] = t
    names[q] = mix(names[a], names[b], base + k)
    for d in range(points.shape[1]):
        points[q, d] = s * points[a, d] + t * points[b, d]
    for w in range(pos.shape[1]):
        pa = pos[a, w]
        pb = pos[b, w]
        na = neg[a, w]
        nb = neg[b, w]
        conflict = (pa & nb) | (na & pb)
        p = (pa | pb) & ~conflict
        n = (na | nb) & ~conflict
        if conflict != 0:
            fill(a, w, parents, weights, pos, neg, cuts, new_cuts, filled)
            fill(b, w, parents, weights, pos, neg, cuts, new_cuts, filled)
        while conflict != 0:
            low = conflict & (~conflict + np.uint64(1))
            j = w * 64 + lowest_bit(conflict)
            conflict ^= low
            z = s * cut_value(a, j, cuts, new_cuts) + t * cut_value(b, j, cuts, new_cuts)
            if j != k and z > tol[j]:
                p |= low
            elif j != k and z < -tol[j]:
                n |= low
        pos[q, w] = p
        neg[q, w] = n
    return q


@jit
def _crossing(corners, start, stop, at, k, side, pos, neg):
    """Walk counter-clockwise from corner `at`, on the other side of unit k, to the first corner on `side` (1 or -1).

    Returns that corner, the last one before the crossing (or on it), and whether that one is on it.
    """
    zero = -1
    j = at
    while True:
        previous = j
        j = j + 1 if j + 1 < stop else start
        sign = side * sign_of(corners[j], k, pos, neg)
        if sign > 0:
            return (j, zero, True) if zero >= 0 else (j, previous, False)
        if sign < 0:
            zero = -1
        elif zero < 0:
            zero = j


@jit
def split_polygons(
    offsets, corners, labels, first, last, base, count,
    names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, keys, values,
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
            k = next_cutting_unit(stack_corners, start, stop, pos, neg, stack_units[depth - 1], last)
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
            minus = start
            while sign_of(stack_corners[minus], k, pos, neg) >= 0:
                minus += 1
            # `enter_at`/`leave_at`: the last corner before (or at) a crossing; the walls that follow keep labels
            plus, enter_at, at_corner = _crossing(stack_corners, start, stop, minus, k, 1, pos, neg)
            enter = stack_corners[enter_at]
            if not at_corner:
                enter = _cut_edge(
                    enter, stack_corners[plus], k, base, count,
                    names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, keys, values,
                )  # fmt: skip
                count += enter == count
            minus, leave_at, at_corner = _crossing(stack_corners, start, stop, plus, k, -1, pos, neg)
            leave = stack_corners[leave_at]
            if not at_corner:
                leave = _cut_edge(
                    leave, stack_corners[minus], k, base, count,
                    names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, keys, values,
                )  # fmt: skip
                count += leave == count
            split = _child(stack_corners, stack_labels, start, stop, stop, enter, enter_at, leave, leave_at, base + k)
            top = _child(stack_corners, stack_labels, start, stop, split, leave, leave_at, enter, enter_at, base + k)
            for c in range(stop, top):  # move both children down over their parent
                stack_corners[c - n] = stack_corners[c]
                stack_labels[c - n] = stack_labels[c]
            stack_starts[depth] = split - n
            stack_starts[depth + 1] = top - n
            stack_units[depth - 1] = k + 1
            stack_units[depth] = k + 1
            depth += 1
    return DONE, count, tiles


@jit
def _child(corners, labels, start, stop, top, first, first_at, last, last_at, label):
    """Write at `top` the part of polygon start..stop from the crossing `first` to the crossing `last`.

    Its closing wall, from `last` back to `first`, gets the label. Returns the index behind it.
    """
    corners[top] = first
    labels[top] = labels[first_at]
    top += 1
    j = first_at
    while j != last_at:
        j = j + 1 if j + 1 < stop else start
        if corners[j] != last:
            corners[top] = corners[j]
            labels[top] = labels[j]
            top += 1
    corners[top] = last
    labels[top] = label
    return top + 1


@jit
def split_intervals(
    offsets, corners, labels, first, last, base, count,
    names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, keys, values,
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
            k = next_cutting_unit(stack_corners, start, start + 2, pos, neg, stack_units[depth - 1], last)
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
                names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, keys, values,
            )  # fmt: skip
            count += q == count
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


@jit
def keep_ancestors(used, first_new, parents):
    """Mark the parents, within this fold, of every marked vertex (new vertices come after their parents)."""
    for q in range(used.shape[0] - 1, first_new - 1, -1):
        if used[q]:
            used[parents[q, 0]] = True
            used[parents[q, 1]] = True
