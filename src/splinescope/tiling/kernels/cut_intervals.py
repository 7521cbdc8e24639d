"""Cutting intervals along folds, one unit after the other."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import in_place

from .edge_vertices import DONE, STACK_FULL, TABLE_FULL, TILES_FULL, VERTICES_FULL, cut_edge
from .sign_bits import next_cutting_unit


@in_place
def split_intervals(
    offsets, corners, labels, first, last, unit_labels, count,
    names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, table,
    out_offsets, out_corners, out_labels, stack_corners, stack_labels, stack_starts, stack_units, stack_left,
):  # fmt: skip
    """The 1-D twin of `split_polygons`: intervals (left, right), children from left to right."""
    tiles = 0
    out_offsets[0] = 0
    for i in range(offsets.shape[0] - 1):
        for c in range(2):
            stack_corners[c] = corners[offsets[i] + c]
            stack_labels[c] = labels[offsets[i] + c]
        stack_units[0], stack_left[0] = first, ~np.uint64(0)
        depth = 1
        while depth > 0:
            start = 2 * (depth - 1)
            k, left = next_cutting_unit(
                stack_corners, start, start + 2, pos, neg, stack_units[depth - 1], last, stack_left[depth - 1]
            )
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
            label = unit_labels[k]
            if count + 1 > names.shape[0]:
                return VERTICES_FULL, count, tiles
            # more than half full, a table is slow to look into
            if 2 * (count + 1) > table.shape[0]:
                return TABLE_FULL, count, tiles
            if start + 4 > stack_corners.shape[0] or depth + 1 > stack_units.shape[0]:
                return STACK_FULL, count, tiles
            q = cut_edge(
                stack_corners[start], stack_corners[start + 1], k, label, count,
                names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, table,
            )  # fmt: skip
            count += q == count
            # left child on top of the stack, so that it comes out first
            stack_corners[start + 2] = stack_corners[start]
            stack_labels[start + 2] = stack_labels[start]
            stack_corners[start + 3] = q
            stack_labels[start + 3] = label
            stack_corners[start] = q
            stack_labels[start] = label
            stack_units[depth - 1] = stack_units[depth] = k  # which is not among those left
            stack_left[depth - 1] = stack_left[depth] = left  # a part is cut by no unit that does not cut the whole
            depth += 1
    return DONE, count, tiles
