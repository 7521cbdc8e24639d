"""What finished tiles need: which walls are real, numbers for vertices, areas."""

from __future__ import annotations

import numpy as np

from .bits import jit


@jit
def mark_unreal_walls(offsets, corners, labels, low, cuts, gaps, cut_tol, gap_tol):
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


@jit
def number_vertices(names, corners, keys, values, ids, firsts):
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


@jit
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
