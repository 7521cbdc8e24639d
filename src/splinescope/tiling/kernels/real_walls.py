"""Which walls that a max drew are walls of the network, for tiles of any dimension.

A side of a tile is a list of vertices, `ids[starts[s]:starts[s + 1]]`; tile i has those from `sides[i]` to
`sides[i + 1]`, each with a label. The label of a wall that is none is -2 - label: marked, but not forgotten.
"""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import in_place

from .sign_bits import inlined, lowest_bit


@inlined
def _loses(first, last, ids, j, stage, final, elements, windows, tol):
    """Whether, at some vertex of a list, the winner of a stage's unit j is not the winner of its whole window."""
    p = first
    while p < last and abs(final[ids[p], windows[j]] - stage[ids[p], elements[j]]) <= tol[windows[j]]:
        p += 1
    return p < last


@inlined
def _is_off(first, last, ids, j, cuts, cut_tol):
    """Whether unit j is not zero at some vertex of a list."""
    p = first
    while p < last and abs(cuts[ids[p], j]) <= cut_tol[j]:
        p += 1
    return p < last


@in_place
def mark_lost(starts, ids, labels, low, stage, final, elements, windows, tol):
    """Mark the walls of one stage of a tournament (labels from `low`) whose winner loses later.

    `stage` and `final` `[V, size]` are the values of the stage and of the whole tournament.
    """
    for s in range(labels.shape[0]):
        j = labels[s] - low
        lost = 0 <= j < elements.shape[0] and _loses(
            starts[s], starts[s + 1], ids, j, stage, final, elements, windows, tol
        )
        if lost:
            labels[s] = -2 - labels[s]


@in_place
def keep_shared(
    offsets, corners, sides, starts, ids, labels, low, high, units, cuts, cut_tol, stage, final, elements, windows, tol
):  # fmt: skip
    """Give back a label to marked walls (of labels below `high`) that some unit of a stage draws as well and wins.

    Those of the same tournament, from `low` on, get back their own; an earlier one's get the label of the unit, of
    `units`. `cuts` `[V, units]` are the stage's pre-activations. A unit draws a wall if it is zero on it and not on the
    rest of the tile.
    """
    for i in range(offsets.shape[0] - 1):
        for s in range(sides[i], sides[i + 1]):
            if not 0 <= -2 - labels[s] < high:
                continue  # not marked, or by what comes later: that one decides itself
            first, last = starts[s], starts[s + 1]
            for j in range(cuts.shape[1]):
                # of what must hold, the rarest first: nearly all units are not zero here
                if _is_off(first, last, ids, j, cuts, cut_tol):
                    continue
                if _loses(first, last, ids, j, stage, final, elements, windows, tol):
                    continue
                # a unit that is zero on the whole tile draws nothing, though it is zero on this wall too
                if _is_off(offsets[i], offsets[i + 1], corners, j, cuts, cut_tol):
                    labels[s] = -2 - labels[s] if -2 - labels[s] >= low else units[j]
                    break


@in_place
def keep_used(offsets, corners, sides, starts, ids, labels, high, units, pos, neg):
    """Give marked walls (of labels below `high`) the label of the first unit of a fold, of `units`, that draws them.

    The bits are those of the fold's pre-activations. Such a unit finds no edge to cut there: the wall stands for it.
    """
    for i in range(offsets.shape[0] - 1):
        for s in range(sides[i], sides[i + 1]):
            if not 0 <= -2 - labels[s] < high:
                continue
            for w in range(pos.shape[1]):
                zero = ~np.uint64(0)  # units that are zero all along the wall
                for p in range(starts[s], starts[s + 1]):
                    zero &= ~(pos[ids[p], w] | neg[ids[p], w])
                draws = np.uint64(0)
                # nearly always none is: then there is no need to look at the tile
                for c in range(offsets[i], offsets[i + 1] if zero != 0 else offsets[i]):
                    draws |= zero & (pos[corners[c], w] | neg[corners[c], w])
                if draws != 0:
                    labels[s] = units[64 * w + lowest_bit(draws)]
                    break
