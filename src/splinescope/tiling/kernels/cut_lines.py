"""Cutting many stretches of lines at once: vertices from left to right, so that no interval needs a list of corners."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import in_place

from .sign_bits import count_bits, lowest_bit, mix


@in_place
def opposite_signs(starts, order, lines, cuts, tol, pos, neg, words, counts):
    """Fill `words[i]` with bits of the units of opposite signs at the i-th vertex and the one before, and count them.

    Stretch l has the vertices `order[starts[l]:starts[l + 1]]` and the tolerances `tol[lines[l]]`; `pos` and `neg` are
    two rows of words to work with.
    """
    total = 0
    units = cuts.shape[1]
    for stretch in range(starts.shape[0] - 1):
        limits = tol[lines[stretch]]
        for i in range(starts[stretch], starts[stretch + 1]):
            row = cuts[order[i]]
            here = i & 1
            counts[i] = 0
            for w in range(words.shape[1]):
                p = np.uint64(0)
                n = np.uint64(0)
                low = w * 64
                for k in range(min(64, units - low)):  # no branches: the compiler takes several units at once
                    p |= np.uint64(row[low + k] > limits[low + k]) << np.uint64(k)
                    n |= np.uint64(row[low + k] < -limits[low + k]) << np.uint64(k)
                pos[here, w] = p
                neg[here, w] = n
                if i > starts[stretch]:
                    words[i, w] = (p & neg[1 - here, w]) | (n & pos[1 - here, w])
                    counts[i] += count_bits(words[i, w])
            total += counts[i]
    return total


@in_place
def cut_stretches(
    starts, order, lines, words, cuts, tol, unit_labels, gains,
    names, points, labels, parents, weights, found, out_starts, out_order, bend_starts, bend_units, bends,
    units, at_left, at_right, right_ends, ends,
):  # fmt: skip
    """Cut intervals by their units of opposite signs (`words`) in ascending order; how many vertices there are then.

    New vertices come behind the old ones. They get their parents, and in CSR form the units that bend between those and
    by how much, times the gain: what `carry_dense` needs. `found` gets the bits of those units. The last five arrays
    are a stack: per unit, its number and its values at both ends of the interval; per interval, its right end (the left
    one is the vertex that came out last) and where its units end. -1 if there is too little room for the bends.
    """
    count = old = cuts.shape[0]
    at = 0
    bend = 0
    bend_starts[0] = 0
    for stretch in range(starts.shape[0] - 1):
        limits = tol[lines[stretch]]
        out_starts[stretch] = at
        left = order[starts[stretch]]
        out_order[at] = left
        at += 1
        for i in range(starts[stretch] + 1, starts[stretch + 1]):
            size = 0
            row_left = cuts[order[i - 1]]
            row_right = cuts[order[i]]
            for w in range(words.shape[1]):
                rest = words[i, w]
                found[w] |= rest
                while rest != 0:
                    j = w * 64 + lowest_bit(rest)
                    rest &= rest - np.uint64(1)
                    units[size] = j
                    at_left[size] = row_left[j]
                    at_right[size] = row_right[j]
                    size += 1
            right_ends[0] = order[i]
            ends[0] = size
            depth = 1
            first = 0
            while depth > 0:
                right = right_ends[depth - 1]
                last = ends[depth - 1]
                if first == last:  # nothing cuts it
                    out_order[at] = right
                    at += 1
                    left = right
                    depth -= 1
                    first = ends[depth - 2] if depth > 1 else 0
                    continue
                if bend + last - first > bends.shape[0]:
                    return -1
                q = count
                k = units[first]
                flipped = names[left] >= names[right]
                a, b = (right, left) if flipped else (left, right)
                za = at_right[first] if flipped else at_left[first]
                zb = at_left[first] if flipped else at_right[first]
                s, t = zb / (zb - za), za / (za - zb)
                parents[q, 0], parents[q, 1] = a, b
                weights[q, 0], weights[q, 1] = s, t
                labels[q] = unit_labels[k]
                names[q] = mix(names[a], names[b], unit_labels[k])
                points[q, 0] = s * points[a, 0] + t * points[b, 0]
                # units that cross behind q stay where they are, those before q go behind them
                behind = first
                before = last
                for e in range(first, last):
                    j = units[e]
                    za = at_right[e] if flipped else at_left[e]
                    zb = at_left[e] if flipped else at_right[e]
                    z = 0.0 if j == k else s * za + t * zb
                    above = z > limits[j]
                    bend_units[bend] = j
                    bends[bend] = gains[j] * ((z if above else 0.0) - s * max(za, 0.0) - t * max(zb, 0.0))
                    bend += 1
                    if j == k or not (above or z < -limits[j]):
                        continue
                    if above == (at_left[e] > 0.0):
                        units[behind] = j
                        at_left[behind] = z
                        at_right[behind] = at_right[e]
                        behind += 1
                    else:
                        units[before] = j
                        at_left[before] = at_left[e]
                        at_right[before] = z
                        before += 1
                for e in range(last, before):
                    units[behind + e - last] = units[e]
                    at_left[behind + e - last] = at_left[e]
                    at_right[behind + e - last] = at_right[e]
                ends[depth - 1] = behind
                right_ends[depth] = q
                ends[depth] = behind + before - last
                first = behind
                depth += 1
                count += 1
                bend_starts[count - old] = bend
    out_starts[starts.shape[0] - 1] = at
    return count
