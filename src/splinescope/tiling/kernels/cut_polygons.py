"""Cutting polygons along folds, one unit after the other."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import in_place

from .edge_vertices import DONE, STACK_FULL, TABLE_FULL, TILES_FULL, VERTICES_FULL, cut_edge
from .sign_bits import inlined, next_cutting_unit, sign_of


@inlined
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


@in_place
def split_polygons(
    offsets, corners, labels, first, last, unit_labels, count,
    names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, table,
    out_offsets, out_corners, out_labels, stack_corners, stack_labels, stack_starts, stack_units, stack_left,
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
        stack_units[0], stack_left[0] = first, ~np.uint64(0)
        depth = 1
        while depth > 0:
            start = stack_starts[depth - 1]
            stop = stack_starts[depth]
            n = stop - start
            k, left = next_cutting_unit(
                stack_corners, start, stop, pos, neg, stack_units[depth - 1], last, stack_left[depth - 1]
            )
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
            label = unit_labels[k]
            if count + 2 > names.shape[0]:
                return VERTICES_FULL, count, tiles
            if 2 * (count + 2) > table.shape[0]:
                return TABLE_FULL, count, tiles
            # room above the polygon for both children: together they have at most n + 4 corners
            if stop + n + 8 > stack_corners.shape[0] or depth + 2 > stack_starts.shape[0]:
                return STACK_FULL, count, tiles
            minus = start
            while sign_of(stack_corners[minus], k, pos, neg) >= 0:
                minus += 1
            # `enter_at`/`leave_at`: the last corner before (or at) a crossing; the walls that follow keep labels
            at = minus
            for side in (1, -1):  # one place for both, since cut_edge is long and inlined
                at, before, on_corner = _crossing(stack_corners, start, stop, at, k, side, pos, neg)
                crossing = stack_corners[before]
                if not on_corner:
                    crossing = cut_edge(
                        crossing, stack_corners[at], k, label, count,
                        names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, table,
                    )  # fmt: skip
                    count += crossing == count
                if side > 0:
                    enter, enter_at = crossing, before
                else:
                    leave, leave_at = crossing, before
            split = _child(stack_corners, stack_labels, start, stop, stop, enter, enter_at, leave, leave_at, label)
            top = _child(stack_corners, stack_labels, start, stop, split, leave, leave_at, enter, enter_at, label)
            for c in range(stop, top):  # move both children down over their parent
                stack_corners[c - n] = stack_corners[c]
                stack_labels[c - n] = stack_labels[c]
            stack_starts[depth] = split - n
            stack_starts[depth + 1] = top - n
            stack_units[depth - 1] = stack_units[depth] = k  # which is not among those left
            stack_left[depth - 1] = stack_left[depth] = left  # a part is cut by no unit that does not cut the whole
            depth += 1
    return DONE, count, tiles


@in_place
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
