"""Cutting convex cells of three and more dimensions along folds, one unit after the other.

A cell is its vertices, each with the set of the cell's facets it lies on, as bits: `masks[c]` has the bit f of corner c
set if it lies on the cell's facet number f, whose label is `facets[facet_offsets[cell] + f]`. Nothing else is kept, no
edge and no face. Two vertices are joined by an edge if the facets they share number at least d - 1 and no third vertex
of the cell lies on all of them (the adjacency test of the double-description method); the second half matters at
vertices with more than d facets only.
"""

from __future__ import annotations

import numpy as np

from splinescope._compile import jit

from .bits import count_bits, next_cutting_unit, sign_of
from .edges import DONE, STACK_FULL, TABLE_FULL, TILES_FULL, VERTICES_FULL, cut_edge

FACETS_FULL = 5


@jit
def _shared(a, b, masks, common):
    """Fill `common` with the facets on which both corners lie; returns how many."""
    total = 0
    for w in range(masks.shape[1]):
        common[w] = masks[a, w] & masks[b, w]
        total += count_bits(common[w])
    return total


@jit
def _on_all(c, masks, common):
    missing = False
    for w in range(masks.shape[1]):
        missing = missing or masks[c, w] & common[w] != common[w]
    return not missing


@jit
def joined(a, b, start, stop, masks, common, dimension):
    """Whether corners a and b of the cell start..stop are the ends of an edge; `common` gets the facets they share."""
    if _shared(a, b, masks, common) < dimension - 1:
        return False
    facets_a = facets_b = 0
    for w in range(masks.shape[1]):
        facets_a += count_bits(masks[a, w])
        facets_b += count_bits(masks[b, w])
    if facets_a == dimension or facets_b == dimension:  # any d - 1 facets of a simple vertex meet in an edge
        return True
    alone = True
    for c in range(start, stop):
        alone = alone and (c in (a, b) or not _on_all(c, masks, common))
    return alone


@jit
def _drop_facets(start, stop, masks, facets, fstart, fstop, dimension):
    """Take out the facets on which fewer than d corners of a cell lie, in place; returns the end of the list."""
    kept = fstart
    for f in range(fstart, fstop):
        w, bit = (f - fstart) // 64, np.uint64(1) << np.uint64((f - fstart) % 64)
        corners = 0
        for c in range(start, stop):
            corners += (masks[c, w] & bit) != 0
        to, to_bit = (kept - fstart) // 64, np.uint64(1) << np.uint64((kept - fstart) % 64)
        for c in range(start, stop):  # places from `kept` on are free: what stood there has moved or is dropped
            on = (masks[c, w] & bit) != 0
            masks[c, w] &= ~bit
            if on and corners >= dimension:
                masks[c, to] |= to_bit
        if corners >= dimension:
            facets[kept] = facets[f]
            kept += 1
    return kept


@jit
def _child(corners, masks, start, stop, signs, side, fresh, fresh_masks, made, facet, top):
    """Write at `top` the part of a cell on one side of a unit: its corners there or on the fold, and the new ones."""
    w, bit = facet // 64, np.uint64(1) << np.uint64(facet % 64)
    for c in range(start, stop):
        sign = signs[c - start]
        if sign == side or sign == 0:
            corners[top] = corners[c]
            for i in range(masks.shape[1]):
                masks[top, i] = masks[c, i]
            if sign == 0:
                masks[top, w] |= bit
            top += 1
    for m in range(made):
        corners[top] = fresh[m]
        for i in range(masks.shape[1]):
            masks[top, i] = fresh_masks[m, i]
        top += 1
    return top


@jit
def split_cells(
    offsets, corners, masks, facet_offsets, facets, first, last, labels, count,
    names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, keys, values,
    out_offsets, out_corners, out_masks, out_facet_offsets, out_facets,
    stack_corners, stack_masks, stack_starts, stack_facets, stack_facet_starts, stack_units,
    signs, fresh, fresh_masks,
):  # fmt: skip
    """Cut every cell along the folds of units first <= k < last, in ascending order of k.

    Returns (status, vertices, cells). Children stand in the place of their parent, negative side first.
    """
    dimension = points.shape[1]
    words = masks.shape[1]
    common = np.empty(words, np.uint64)
    cells = 0
    out_offsets[0] = 0
    out_facet_offsets[0] = 0
    for i in range(offsets.shape[0] - 1):
        n = offsets[i + 1] - offsets[i]
        facet_count = facet_offsets[i + 1] - facet_offsets[i]
        if n > stack_corners.shape[0] or facet_count > stack_facets.shape[0]:
            return STACK_FULL, count, cells
        for c in range(n):
            stack_corners[c] = corners[offsets[i] + c]
            stack_masks[c] = masks[offsets[i] + c]
        for f in range(facet_count):
            stack_facets[f] = facets[facet_offsets[i] + f]
        stack_starts[0], stack_starts[1] = 0, n
        stack_facet_starts[0], stack_facet_starts[1] = 0, facet_count
        stack_units[0] = first
        depth = 1
        while depth > 0:
            start, stop = stack_starts[depth - 1], stack_starts[depth]
            fstart, fstop = stack_facet_starts[depth - 1], stack_facet_starts[depth]
            k = next_cutting_unit(stack_corners, start, stop, pos, neg, stack_units[depth - 1], last)
            if k < 0 or fstop - fstart == 64 * words:
                fstop = _drop_facets(start, stop, stack_masks, stack_facets, fstart, fstop, dimension)
            if k < 0:
                at, fat = out_offsets[cells], out_facet_offsets[cells]
                full = cells + 2 > out_offsets.shape[0] or at + stop - start > out_corners.shape[0]
                if full or fat + fstop - fstart > out_facets.shape[0]:
                    return TILES_FULL, count, cells
                for c in range(start, stop):
                    out_corners[at + c - start] = stack_corners[c]
                    out_masks[at + c - start] = stack_masks[c]
                for f in range(fstart, fstop):
                    out_facets[fat + f - fstart] = stack_facets[f]
                cells += 1
                out_offsets[cells] = at + stop - start
                out_facet_offsets[cells] = fat + fstop - fstart
                depth -= 1
                continue
            facet = fstop - fstart
            if facet == 64 * words:
                return FACETS_FULL, count, cells
            if stop - start > signs.shape[0] or depth + 2 > stack_starts.shape[0]:
                return STACK_FULL, count, cells
            for c in range(start, stop):
                signs[c - start] = sign_of(stack_corners[c], k, pos, neg)
            made = 0
            for a in range(start, stop):
                if signs[a - start] <= 0:
                    continue
                for b in range(start, stop):
                    if signs[b - start] >= 0 or not joined(a, b, start, stop, stack_masks, common, dimension):
                        continue
                    if count + 1 > names.shape[0]:
                        return VERTICES_FULL, count, cells
                    if 2 * (count + 1) > keys.shape[0]:
                        return TABLE_FULL, count, cells
                    if made + 1 > fresh.shape[0]:
                        return STACK_FULL, count, cells
                    q = cut_edge(
                        stack_corners[a], stack_corners[b], k, labels[k], count,
                        names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, keys, values,
                    )  # fmt: skip
                    count += q == count
                    fresh[made] = q
                    for w in range(words):
                        fresh_masks[made, w] = common[w]
                    fresh_masks[made, facet // 64] |= np.uint64(1) << np.uint64(facet % 64)
                    made += 1
            n = stop - start
            if stop + 2 * (n + made) > stack_corners.shape[0] or fstop + facet + 2 > stack_facets.shape[0]:
                return STACK_FULL, count, cells
            middle = _child(stack_corners, stack_masks, start, stop, signs, 1, fresh, fresh_masks, made, facet, stop)
            top = _child(stack_corners, stack_masks, start, stop, signs, -1, fresh, fresh_masks, made, facet, middle)
            for c in range(stop, top):  # move both children down over their parent
                stack_corners[c - n] = stack_corners[c]
                for w in range(words):
                    stack_masks[c - n, w] = stack_masks[c, w]
            stack_facets[fstop] = labels[k]  # both children have the parent's facets, and the new one
            for f in range(facet + 1):
                stack_facets[fstop + 1 + f] = stack_facets[fstart + f]
            stack_starts[depth], stack_starts[depth + 1] = middle - n, top - n
            stack_facet_starts[depth], stack_facet_starts[depth + 1] = fstop + 1, fstop + facet + 2
            stack_units[depth - 1] = k + 1
            stack_units[depth] = k + 1
            depth += 1
    return DONE, count, cells
