"""Vertices on edges: where a unit is zero between two vertices of a tile, shared by all tiles around."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from splinescope.support.compile import in_place

from .sign_bits import inlined, lowest_bit, mix

DONE, VERTICES_FULL, TILES_FULL, STACK_FULL, TABLE_FULL = 0, 1, 2, 3, 4
"""What a cutting kernel returns instead of growing arrays: done, or what was too small; the caller repeats it."""

_CROWDED = 8  # places looked at about an edge's vertex: where many meet, the others are spread over the table


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


@in_place
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
            a, b = parents[q, 0], parents[q, 1]
            if a >= old and not filled[a - old, w]:
                q = a
            elif b >= old and not filled[b - old, w]:
                q = b
            else:
                break
        row_a = cuts[a] if a < old else new_cuts[a - old]
        row_b = cuts[b] if b < old else new_cuts[b - old]
        s, t = weights[q, 0], weights[q, 1]
        zero = ~(pos[q, w] | neg[q, w])
        for j in range(64 * w, min(64 * w + 64, cuts.shape[1])):
            new_cuts[q - old, j] = s * row_a[j] + t * row_b[j]
        while zero != 0:
            j = 64 * w + lowest_bit(zero)
            zero &= zero - np.uint64(1)
            if j < cuts.shape[1]:
                new_cuts[q - old, j] = 0.0
        filled[q - old, w] = True


@inlined
def make_filled(vertex, w, parents, weights, pos, neg, cuts, new_cuts, filled):
    """`fill` where there is anything to do: a call with nine arrays costs more than finding that there is not."""
    if vertex >= cuts.shape[0] and not filled[vertex - cuts.shape[0], w]:
        fill(vertex, w, parents, weights, pos, neg, cuts, new_cuts, filled)


@inlined
def cut_value(vertex, j, cuts, new_cuts):
    """Pre-activation j of a vertex (for a new vertex, its word must have been filled)."""
    old = cuts.shape[0]
    return cuts[vertex, j] if vertex < old else new_cuts[vertex - old, j]


@inlined
def cut_edge(
    end0, end1, k, label, count, names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, table
):  # fmt: skip
    """The vertex where unit k is zero on the edge between two others: found in the table, or made at index `count`."""
    lower, higher = np.uint64(min(end0, end1)), np.uint64(max(end0, end1))
    key = (lower << np.uint64(32)) | higher
    mask = np.uint64(table.shape[0] - 1)
    mixed = key * np.uint64(0x9E3779B97F4A7C15)
    # vertices that are made one after the other lie near each other in the table, as they do in the tiles
    slot = ((higher << np.uint64(1)) + (mixed >> np.uint64(62))) & mask
    probes = 0
    while table[slot, 0] != 0:  # no key is 0: the larger of two vertices is at least 1
        if table[slot, 0] == key:
            return np.int64(table[slot, 1])
        probes += 1
        slot = slot + np.uint64(1) if probes != _CROWDED else mixed >> np.uint64(24)
        slot &= mask
    table[slot, 0] = key
    table[slot, 1] = count
    q = count
    # parents by name, not by index: the same sums, to the last bit, in every chunk and thread
    a, b = (end0, end1) if names[end0] < names[end1] else (end1, end0)
    make_filled(a, k // 64, parents, weights, pos, neg, cuts, new_cuts, filled)
    make_filled(b, k // 64, parents, weights, pos, neg, cuts, new_cuts, filled)
    za, zb = cut_value(a, k, cuts, new_cuts), cut_value(b, k, cuts, new_cuts)
    s, t = zb / (zb - za), za / (za - zb)
    parents[q, 0], parents[q, 1] = a, b
    weights[q, 0], weights[q, 1] = s, t
    names[q] = mix(names[a], names[b], label)
    for d in range(points.shape[1]):
        points[q, d] = s * points[a, d] + t * points[b, d]
    for w in range(pos.shape[1]):
        pa, pb = pos[a, w], pos[b, w]
        na, nb = neg[a, w], neg[b, w]
        conflict = (pa & nb) | (na & pb)
        p = (pa | pb) & ~conflict  # where the parents agree, so does every point between them
        n = (na | nb) & ~conflict
        if conflict != 0:
            make_filled(a, w, parents, weights, pos, neg, cuts, new_cuts, filled)
            make_filled(b, w, parents, weights, pos, neg, cuts, new_cuts, filled)
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


@in_place
def keep_ancestors(used, first_new, parents):
    """Mark the parents, within this fold, of every marked vertex (new vertices come after their parents)."""
    for q in range(used.shape[0] - 1, first_new - 1, -1):
        if used[q]:
            used[parents[q, 0]] = True
            used[parents[q, 1]] = True
