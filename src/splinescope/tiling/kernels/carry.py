"""Delta propagation: rows of new vertices from the rows of their parents and the few units in conflict."""

from __future__ import annotations

import numpy as np

from .bits import jit, lowest_bit
from .split import cut_value


@jit
def conflicting_units(start, stop, parents, pos, neg, found):
    """OR into `found` (bit words) the units whose parents' signs are opposite, over new vertices start..stop."""
    for q in range(start, stop):
        a = parents[q, 0]
        b = parents[q, 1]
        for w in range(pos.shape[1]):
            found[w] |= (pos[a, w] & neg[b, w]) | (neg[a, w] & pos[b, w])


@jit
def carry(start, stop, parents, weights, rows):
    """Rows of new vertices for a value on which the fold has no effect: the convex combination of the parents'."""
    for q in range(start, stop):
        a = parents[q, 0]
        b = parents[q, 1]
        s = weights[q, 0]
        t = weights[q, 1]
        for i in range(rows.shape[1]):
            rows[q, i] = s * rows[a, i] + t * rows[b, i]


@jit
def _bend(j, a, b, q, s, t, cuts, new_cuts, pos):
    """relu(u_q) - s relu(u_a) - t relu(u_b) for a unit that is positive at one parent and negative at the other."""
    z = 0.0
    if pos[q, j // 64] & (np.uint64(1) << np.uint64(j % 64)):
        z = cut_value(q, j, cuts, new_cuts)
    za = max(cut_value(a, j, cuts, new_cuts), 0.0)
    zb = max(cut_value(b, j, cuts, new_cuts), 0.0)
    return z - s * za - t * zb


@jit
def carry_dense(start, stop, parents, weights, rows, cuts, new_cuts, pos, neg, gains, slots, columns):
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
                j = w * 64 + lowest_bit(conflict)
                conflict &= conflict - np.uint64(1)
                c = gains[j] * _bend(j, a, b, q, s, t, cuts, new_cuts, pos)
                slot = slots[j]
                for i in range(rows.shape[1]):
                    rows[q, i] += c * columns[slot, i]


@jit
def carry_sparse(start, stop, parents, weights, rows, cuts, new_cuts, pos, neg, gains, slots, starts, indices, entries):
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
                j = w * 64 + lowest_bit(conflict)
                conflict &= conflict - np.uint64(1)
                c = gains[j] * _bend(j, a, b, q, s, t, cuts, new_cuts, pos)
                slot = slots[j]
                for e in range(starts[slot], starts[slot + 1]):
                    rows[q, indices[e]] += c * entries[e]
