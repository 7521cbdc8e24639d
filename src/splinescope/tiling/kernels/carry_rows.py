"""Delta propagation: rows of new vertices from the rows of their parents and the few units in conflict."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import in_place

from .edge_vertices import cut_value, make_filled
from .sign_bits import inlined, lowest_bit


@in_place
def list_bends(
    start, stop, parents, weights, pos, neg, cuts, new_cuts, filled, gains, found, bend_starts, bend_units, bends
):  # fmt: skip
    """In CSR form, the units on which the parents of new vertices start..stop have opposite signs, and their bends.

    That is gain * (relu(u_q) - s relu(u_a) - t relu(u_b)), by which the fold's output differs at vertex q from the
    combination of its parents'. `found` (bit words) gets those units. Returns -1 if there is too little room.
    """
    at = 0
    bend_starts[0] = 0
    for q in range(start, stop):
        a, b = parents[q, 0], parents[q, 1]
        s, t = weights[q, 0], weights[q, 1]
        for w in range(pos.shape[1]):
            conflict = (pos[a, w] & neg[b, w]) | (neg[a, w] & pos[b, w])
            if conflict == 0:
                continue
            if at + 64 > bends.shape[0]:
                return -1
            found[w] |= conflict
            make_filled(a, w, parents, weights, pos, neg, cuts, new_cuts, filled)
            make_filled(b, w, parents, weights, pos, neg, cuts, new_cuts, filled)
            while conflict != 0:
                low = conflict & (~conflict + np.uint64(1))
                j = w * 64 + lowest_bit(conflict)
                conflict ^= low
                za, zb = cut_value(a, j, cuts, new_cuts), cut_value(b, j, cuts, new_cuts)
                # by the vertex's own bit, not by the sign of the sum: what was called zero stays zero
                z = s * za + t * zb if pos[q, w] & low else 0.0
                bend_units[at] = j
                bends[at] = gains[j] * (z - s * max(za, 0.0) - t * max(zb, 0.0))
                at += 1
        bend_starts[q - start + 1] = at
    return at


@inlined
def _combine(q, parents, weights, rows):
    row, row_a, row_b = rows[q], rows[parents[q, 0]], rows[parents[q, 1]]
    s, t = weights[q, 0], weights[q, 1]
    for i in range(row.shape[0]):
        row[i] = s * row_a[i] + t * row_b[i]


@in_place
def carry(start, stop, parents, weights, rows):
    """Rows of new vertices for a value on which the fold has no effect: the convex combination of the parents'."""
    for q in range(start, stop):
        _combine(q, parents, weights, rows)


@in_place
def carry_bits(start, stop, parents, words):
    """Bits of new vertices that are set where a parent's is."""
    for q in range(start, stop):
        for w in range(words.shape[1]):
            words[q, w] = words[parents[q, 0], w] | words[parents[q, 1], w]


@in_place
def straighten(cuts, slopes, gains, elements, out):
    """Replace in a fold's output the bend of each unit, gain * relu(z), by the line gain * slope * z."""
    for v in range(cuts.shape[0]):
        z = cuts[v]
        row = out[v]
        for j in range(z.shape[0]):
            row[elements[j]] += gains[j] * (slopes[j] * z[j] - max(z[j], 0.0))


@in_place
def carry_dense(start, stop, parents, weights, bend_starts, bend_units, bends, rows, slots, columns):
    """`carry`, plus the fold's effect: each bend (see `list_bends`) times the column of its unit, in their order."""
    for q in range(start, stop):
        _combine(q, parents, weights, rows)
        row = rows[q]
        size = row.shape[0]
        e = bend_starts[q - start]
        last = bend_starts[q - start + 1]
        while e + 4 <= last:  # several columns in one pass over the row, added in their order
            c0, c1, c2, c3 = bends[e], bends[e + 1], bends[e + 2], bends[e + 3]
            column0 = columns[slots[bend_units[e]]]
            column1 = columns[slots[bend_units[e + 1]]]
            column2 = columns[slots[bend_units[e + 2]]]
            column3 = columns[slots[bend_units[e + 3]]]
            for i in range(size):
                row[i] = (((row[i] + c0 * column0[i]) + c1 * column1[i]) + c2 * column2[i]) + c3 * column3[i]
            e += 4
        while e < last:
            c0 = bends[e]
            column0 = columns[slots[bend_units[e]]]
            for i in range(size):
                row[i] += c0 * column0[i]
            e += 1


@in_place
def carry_sparse(
    start, stop, parents, weights, bend_starts, bend_units, bends, rows, slots, starts, indices, entries
):  # fmt: skip
    """`carry_dense` with the columns in CSR form (convolutions: a unit reaches few outputs)."""
    for q in range(start, stop):
        _combine(q, parents, weights, rows)
        for e in range(bend_starts[q - start], bend_starts[q - start + 1]):
            slot = slots[bend_units[e]]
            for at in range(starts[slot], starts[slot + 1]):
                rows[q, indices[at]] += bends[e] * entries[at]
