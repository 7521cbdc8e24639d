"""What finished tiles need: numbers for vertices, areas, outlines of tiles that become one."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import in_place, jit


@in_place
def number_vertices(names, corners, keys, values, known, numbers, firsts):
    """Number vertices by name in order of first appearance among `corners`; returns how many there are.

    `known` of them are in the table (`keys`, `values`) already. numbers[v], -1 before, becomes the number of vertex v
    if it is a corner; firsts[n - known] the local index at which vertex n first appeared.
    """
    mask = np.uint64(keys.shape[0] - 1)
    count = known
    for c in range(corners.shape[0]):
        v = corners[c]
        if numbers[v] >= 0:
            continue
        slot = (names[v] >> np.uint64(20)) & mask  # names are mixed: any of their bits will do
        while values[slot] >= 0 and keys[slot] != names[v]:
            slot = (slot + np.uint64(1)) & mask
        if values[slot] < 0:
            keys[slot] = names[v]
            values[slot] = count
            firsts[count - known] = v
            count += 1
        # vertices that only carried others are corners of no tile, and get no number
        numbers[v] = values[slot]
    return count


@in_place
def farthest(points, numbers, others):
    """Largest |points[numbers[v]] - others[v]| of vertices that have a number."""
    far = 0.0
    for v in range(numbers.shape[0]):
        if numbers[v] >= 0:
            for d in range(points.shape[1]):
                far = max(far, abs(points[numbers[v], d] - others[v, d]))
    return far


@in_place
def replace_tiles(
    offsets, corners, labels, become, merged_offsets, merged_corners, merged_labels, ids,
    out_offsets, out_corners, out_labels,
):  # fmt: skip
    """Lists of corners with some replaced: tile i by merged tile become[i], by nothing (-2), or by itself (-1).

    Vertex v is called ids[v]; those of number -1 are left out. Returns how many tiles there are.
    """
    tiles = 0
    at = 0
    out_offsets[0] = 0
    for i in range(offsets.shape[0] - 1):
        if become[i] == -2:
            continue
        if become[i] == -1:
            for c in range(offsets[i], offsets[i + 1]):
                if ids[corners[c]] >= 0:  # a corner between two sides of one line is no corner any more
                    out_corners[at] = ids[corners[c]]
                    out_labels[at] = labels[c]
                    at += 1
        else:
            for c in range(merged_offsets[become[i]], merged_offsets[become[i] + 1]):
                if ids[merged_corners[c]] >= 0:
                    out_corners[at] = ids[merged_corners[c]]
                    out_labels[at] = merged_labels[c]
                    at += 1
        tiles += 1
        out_offsets[tiles] = at
    return tiles


@in_place
def tiles_around(offsets, corners, labels, chosen, around, at_boundary):
    """For each chosen vertex, count the tiles that have it as a corner, and say whether a wall without a label has."""
    for i in range(offsets.shape[0] - 1):
        last = offsets[i + 1] - 1
        for c in range(offsets[i], offsets[i + 1]):
            if chosen[corners[c]]:
                around[corners[c]] += 1
                before = last if c == offsets[i] else c - 1
                if labels[c] == -1 or labels[before] == -1:
                    at_boundary[corners[c]] = True


@in_place
def enter_again(keys, values, larger_keys, larger_values):
    """Enter what a table of `number_vertices` holds into a larger, empty one."""
    mask = np.uint64(larger_keys.shape[0] - 1)
    for i in range(keys.shape[0]):
        if values[i] < 0:
            continue
        # no key stands twice in the old table, so that the first free slot is its own
        slot = (keys[i] >> np.uint64(20)) & mask
        while larger_values[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        larger_keys[slot] = keys[i]
        larger_values[slot] = values[i]


@in_place
def polygon_areas(offsets, corners, points, areas):
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


@jit
def chain_boundaries(order, leaders, offsets, corners, labels, inner):
    """The outlines of groups of tiles (equal `leaders`, consecutive in `order`), from their outer half-edges."""
    out_offsets = np.empty(len(order) + 1, np.int64)
    out_corners = np.empty(len(corners), np.int32)
    out_labels = np.empty(len(corners), np.int32)
    starts = np.empty(len(corners), np.int32)
    ends = np.empty(len(corners), np.int32)
    made = np.empty(len(corners), np.int32)
    out_offsets[0] = 0
    groups = 0
    at = 0
    i = 0
    while i < len(order):
        size = 0
        leader = leaders[i]
        while i < len(order) and leaders[i] == leader:
            tile = order[i]
            for c in range(offsets[tile], offsets[tile + 1]):
                if not inner[c]:
                    starts[size] = corners[c]
                    ends[size] = corners[c + 1 if c + 1 < offsets[tile + 1] else offsets[tile]]
                    made[size] = labels[c]
                    size += 1
            i += 1
        # outlines are short (tens of walls): a search for the next one costs less than a table
        current = 0
        for _ in range(size):
            out_corners[at] = starts[current]
            out_labels[at] = made[current]
            at += 1
            for j in range(size):
                if starts[j] == ends[current]:
                    current = j
                    break
        groups += 1
        out_offsets[groups] = at
    return out_offsets[: groups + 1], out_corners[:at], out_labels[:at]
