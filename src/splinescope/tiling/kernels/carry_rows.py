"""Delta propagation: rows of new vertices from the rows of their parents and the few units in conflict."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import in_place

from .edge_vertices import cut_value, fill
from .sign_bits import inlined, lowest_bit


@inlined
def conflict_of(a, b, w, pos, neg):
    """Bits of the units in word w on which two vertices have opposite signs."""
    return (pos[a, w] & neg[b, w]) | (neg[a, w] & pos[b, w])


@in_place
def conflicting_units(start, stop, parents, weights, pos, neg, cuts, new_cuts, filled, found):
    """OR into `found` (bit words) the units on which the parents of a new vertex start..stop have opposite signs.

    Their pre-activations there are made available.
    """
    for q in range(start, stop):
        a = parents[q, 0]
        b = parents[q, 1]
        for w in range(pos.shape[1]):
            conflict = conflict_of(a, b, w, pos, neg)
            if conflict != 0:
                found[w] |= conflict
                fill(a, w, parents, weights, pos, neg, cuts, new_cuts, filled)
                fill(b, w, parents, weights, pos, neg, cuts, new_cuts, filled)


@inlined
def _combine(q, parents, weights, rows):
    row_a = rows[parents[q, 0]]
    row_b = rows[parents[q, 1]]
    s = weights[q, 0]
    t = weights[q, 1]
    row = rows[q]
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


@inlined
def _bend(j, q, parents, weights, pos, cuts, new_cuts):
    """relu(u_q) - s relu(u_a) - t relu(u_b) for a unit that is positive at one parent and negative at the other."""
    s = weights[q, 0]
    t = weights[q, 1]
    za = cut_value(parents[q, 0], j, cuts, new_cuts)
    zb = cut_value(parents[q, 1], j, cuts, new_cuts)
    z = 0.0  # by the vertex's own bit, not by the sign of the sum: what was called zero stays zero
    if pos[q, j // 64] & (np.uint64(1) << np.uint64(j % 64)):
        z = s * za + t * zb
    return z - s * max(za, 0.0) - t * max(zb, 0.0)


@in_place
def carry_dense(
    start, stop, parents, weights, pos, neg, cuts, new_cuts, rows, gains, slots, columns
):  # fmt: skip
    """`carry`, plus the fold's effect: sum_j gains[j] * bend_j * columns[slots[j]] over the few units in conflict."""
    for q in range(start, stop):
        _combine(q, parents, weights, rows)
        for w in range(pos.shape[1]):
            conflict = conflict_of(parents[q, 0], parents[q, 1], w, pos, neg)
            while conflict != 0:
                j = w * 64 + lowest_bit(conflict)
                conflict &= conflict - np.uint64(1)
                c = gains[j] * _bend(j, q, parents, weights, pos, cuts, new_cuts)
                row = rows[q]
                column = columns[slots[j]]
                for i in range(row.shape[0]):
                    row[i] += c * column[i]


@in_place
def carry_sparse(
    start, stop, parents, weights, pos, neg, cuts, new_cuts, rows,
    gains, slots, starts, indices, entries,
):  # fmt: skip
    """`carry_dense` with the columns in CSR form (convolutions: a unit reaches few outputs)."""
    for q in range(start, stop):
        _combine(q, parents, weights, rows)
        for w in range(pos.shape[1]):
            conflict = conflict_of(parents[q, 0], parents[q, 1], w, pos, neg)
            while conflict != 0:
                j = w * 64 + lowest_bit(conflict)
                conflict &= conflict - np.uint64(1)
                c = gains[j] * _bend(j, q, parents, weights, pos, cuts, new_cuts)
                slot = slots[j]
                for e in range(starts[slot], starts[slot + 1]):
                    rows[q, indices[e]] += c * entries[e]
