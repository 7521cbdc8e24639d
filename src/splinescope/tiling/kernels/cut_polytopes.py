"""Cutting convex cells of three and more dimensions along folds, one unit after the other.

A cell is its vertices, each with the set of the cell's facets it lies on, as bits: `masks[c]` has the bit f of corner c
set if it lies on the cell's facet number f, whose label is `facets[facet_offsets[cell] + f]`. Nothing else is kept, no
edge and no face. Two vertices are joined by an edge if the facets they share number at least d - 1 and no third vertex
of the cell lies on all of them (the adjacency test of the double-description method); the second half matters at
vertices with more than d facets only.
"""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import in_place

from .edge_vertices import DONE, STACK_FULL, TABLE_FULL, TILES_FULL, VERTICES_FULL, cut_edge
from .sign_bits import count_bits, inlined, lowest_bit, range_mask

FACETS_FULL = 5


@inlined
def _facets_of(c, masks):
    """On how many facets a corner lies."""
    total = 0
    for w in range(masks.shape[1]):
        total += count_bits(masks[c, w])
    return total


@inlined
def _shared(a, b, masks):
    """On how many facets both corners lie."""
    total = 0
    for w in range(masks.shape[1]):
        total += count_bits(masks[a, w] & masks[b, w])
    return total


@in_place
def _alone(a, b, start, stop, masks):
    """Whether no third corner of the cell lies on all facets that two corners share."""
    for c in range(start, stop):
        missing = c in (a, b)
        for w in range(masks.shape[1]):
            common = masks[a, w] & masks[b, w]
            missing = missing or masks[c, w] & common != common
        if not missing:
            return False
    return True


@inlined
def joined(a, b, start, stop, masks, dimension):
    """Whether corners a and b of the cell start..stop are the ends of an edge.

    Any d - 1 facets of a vertex on d facets meet in an edge: then there is nothing more to test.
    """
    if masks.shape[1] == 1:  # nearly always
        few = count_bits(masks[a, 0] & masks[b, 0]) < dimension - 1
    else:
        few = _shared(a, b, masks) < dimension - 1
    if few:
        return False
    simple = _facets_of(a, masks) == dimension or _facets_of(b, masks) == dimension
    return simple or _alone(a, b, start, stop, masks)


@inlined
def _near(a, first, last, below, below_masks, masks, dimension):
    """The corners below[first:last] (64 at most) that share at least d - 1 facets with corner a, as bits."""
    near = np.uint64(0)
    if masks.shape[1] == 1:  # nearly always; no branches: the compiler takes several corners at once
        of_a = masks[a, 0]
        for i in range(first, last):
            enough = count_bits(of_a & below_masks[i]) >= dimension - 1
            near |= np.uint64(enough) << np.uint64(i - first)
    else:
        for i in range(first, last):
            near |= np.uint64(_shared(a, below[i], masks) >= dimension - 1) << np.uint64(i - first)
    return near


@inlined
def _tally(start, stop, masks, w, dimension):
    """The facets of one word on which at least d corners of a cell lie, counted in bit-planes, all 64 at once."""
    ones = twos = fours = eights = more = np.uint64(0)
    for c in range(start, stop):
        carry = masks[c, w]
        ones, carry = ones ^ carry, ones & carry
        twos, carry = twos ^ carry, twos & carry
        fours, carry = fours ^ carry, fours & carry
        eights, carry = eights ^ carry, eights & carry
        more |= carry
    enough, equal = more, ~np.uint64(0)
    for place, plane in ((3, eights), (2, fours), (1, twos), (0, ones)):
        if dimension >> place & 1:
            equal &= plane
        else:
            enough |= equal & plane
            equal &= ~plane
    return enough | equal


@in_place
def _drop_facets(start, stop, masks, facets, fstart, fstop, dimension):
    """Take out the facets on which fewer than d corners of a cell lie, in place; returns the end of the list."""
    count = fstop - fstart
    kept = 0
    for w in range((count + 63) // 64):
        stay = _tally(start, stop, masks, w, dimension) & range_mask(w, 0, count)
        place, rest = kept, stay
        while rest != 0:
            facets[fstart + kept] = facets[fstart + 64 * w + lowest_bit(rest)]
            rest &= rest - np.uint64(1)
            kept += 1
        _close_gaps(start, stop, masks, w, place, stay, min(64, count - 64 * w) - kept + place)
    return fstart + kept


@inlined
def _close_gaps(start, stop, masks, w, place, stay, dropped):
    """Move the bits `stay` of word w of a cell's masks together, in order, to `place` and on; the others go.

    Bits on their way down by 1, 2, 4, ... places: where an odd number of gaps lies below a bit, it moves by one; of
    what is left, half, and so on. The same steps for every corner.
    """
    gaps = ~stay << np.uint64(1)  # below the bit at hand
    left = stay
    for c in range(start, stop):
        masks[c, w] &= stay
    step = 0
    while 1 << step <= dropped:  # no bit moves farther
        odd = gaps
        for shift in range(6):
            odd ^= odd << np.uint64(1 << shift)
        moving = odd & left
        if moving != 0:
            for c in range(start, stop):
                part = masks[c, w] & moving
                masks[c, w] = (masks[c, w] ^ part) | (part >> np.uint64(1 << step))
        left = (left ^ moving) | (moving >> np.uint64(1 << step))
        gaps &= ~odd
        step += 1
    if w > 0:  # facets only move down, so words before this one are done
        to, shift = place // 64, np.uint64(place % 64)
        for c in range(start, stop):
            bits = masks[c, w]
            masks[c, w] = np.uint64(0)
            masks[c, to] |= bits << shift
            if shift != 0 and to + 1 <= w:
                masks[c, to + 1] |= bits >> (np.uint64(64) - shift)


@inlined
def _child(corners, masks, start, stop, signs, other, fresh, fresh_masks, made, facet, top):
    """Write at `top` the part of a cell that is not on the `other` side of a unit, and the new corners.

    `top` may be `start`: a corner never moves up.
    """
    w, bit = facet // 64, np.uint64(1) << np.uint64(facet % 64)
    if masks.shape[1] == 1:  # nearly always
        to, to_masks = corners[top:], masks[top:]
        own, own_masks = corners[start:stop], masks[start:stop]
        n = 0
        for i in range(len(own)):  # no branches: nobody can guess the signs
            sign = signs[i]
            to[n] = own[i]
            to_masks[n, 0] = own_masks[i, 0] | bit * np.uint64(sign == 0)
            n += sign != other
        top += n
        for m in range(made):
            corners[top + m] = fresh[m]
            masks[top + m, 0] = fresh_masks[m, 0]
    else:
        for c in range(start, stop):
            sign = signs[c - start]
            corners[top] = corners[c]
            for i in range(masks.shape[1]):
                masks[top, i] = masks[c, i]
            masks[top, w] |= bit * np.uint64(sign == 0)
            top += sign != other
        for m in range(made):
            corners[top + m] = fresh[m]
            for i in range(masks.shape[1]):
                masks[top + m, i] = fresh_masks[m, i]
    return top + made


@inlined
def _cutting(corners, start, stop, pos, neg, w):
    """The units of one word that take both signs on a cell."""
    p = n = np.uint64(0)
    for c in range(start, stop):
        p |= pos[corners[c], w]
        n |= neg[corners[c], w]
    return p & n


@inlined
def _sides(start, stop, corners, masks, k, pos, neg, signs, above, below, below_masks):
    """Fill the signs of a cell's corners and the lists of those above and below the fold.

    Returns the lists' lengths, and which units of the word of k are positive and negative somewhere on the part above
    the fold and on the part below it.
    """
    w, shift = k // 64, np.uint64(k % 64)
    ups = downs = 0
    upper_pos = upper_neg = lower_pos = lower_neg = np.uint64(0)
    own, own_masks = corners[start:stop], masks[start:stop]
    for i in range(len(own)):
        v, c = np.uint32(own[i]), start + i
        p, n = pos[v, w], neg[v, w]
        up, down = (p >> shift) & np.uint64(1), (n >> shift) & np.uint64(1)
        upper, lower = down - np.uint64(1), up - np.uint64(1)  # all bits if the corner belongs to that part
        upper_pos |= p & upper
        upper_neg |= n & upper
        lower_pos |= p & lower
        lower_neg |= n & lower
        signs[i] = np.int64(up) - np.int64(down)
        above[ups] = c
        below[downs] = c
        below_masks[downs] = own_masks[i, 0]
        ups += np.int64(up)
        downs += np.int64(down)
    return ups, downs, upper_pos, upper_neg, lower_pos, lower_neg


@in_place
def split_cells(
    offsets, corners, masks, facet_offsets, facets, first, last, labels, count,
    names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, table,
    out_offsets, out_corners, out_masks, out_facet_offsets, out_facets,
    stack_corners, stack_masks, stack_starts, stack_stops, stack_facets, stack_facet_starts, stack_words, stack_left,
    signs, above, below, below_masks, fresh, fresh_masks,
):  # fmt: skip
    """Cut every cell along the folds of units first <= k < last, in ascending order of k.

    Returns (status, vertices, cells). Children stand in the place of their parent, negative side first.
    """
    dimension = points.shape[1]
    words = masks.shape[1]
    before_first, sign_words = first // 64 - 1, (last + 63) // 64
    old = cuts.shape[0]
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
            for w in range(words):
                stack_masks[c, w] = masks[offsets[i] + c, w]
        for f in range(facet_count):
            stack_facets[f] = facets[facet_offsets[i] + f]
        stack_starts[0], stack_stops[0] = 0, n
        stack_facet_starts[0], stack_facet_starts[1] = 0, facet_count
        stack_words[0], stack_left[0] = before_first, np.uint64(0)
        depth = 1
        while depth > 0:
            start, stop = stack_starts[depth - 1], stack_stops[depth - 1]
            fstart, fstop = stack_facet_starts[depth - 1], stack_facet_starts[depth]
            w_cut, left = stack_words[depth - 1], stack_left[depth - 1]  # units of that word that cut the cell
            while left == 0 and w_cut + 1 < sign_words:
                w_cut += 1
                left = _cutting(stack_corners, start, stop, pos, neg, w_cut) & range_mask(w_cut, first, last)
            k = 64 * w_cut + lowest_bit(left) if left != 0 else -1
            left &= left - np.uint64(1)
            if k < 0 or fstop - fstart == 64 * words:
                fstop = _drop_facets(start, stop, stack_masks, stack_facets, fstart, fstop, dimension)
            if k < 0:
                at, fat = out_offsets[cells], out_facet_offsets[cells]
                full = cells + 2 > out_offsets.shape[0] or at + stop - start > out_corners.shape[0]
                if full or fat + fstop - fstart > out_facets.shape[0]:
                    return TILES_FULL, count, cells
                for c in range(start, stop):
                    out_corners[at + c - start] = stack_corners[c]
                    for w in range(words):
                        out_masks[at + c - start, w] = stack_masks[c, w]
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
            ups, downs, upper_pos, upper_neg, lower_pos, lower_neg = _sides(
                start, stop, stack_corners, stack_masks, k, pos, neg, signs, above, below, below_masks
            )
            new_pos = new_neg = np.uint64(0)
            made = 0
            blocks = (downs + 63) // 64
            for pair in range(ups * blocks):
                a, block = above[pair // blocks], 64 * (pair % blocks)
                near = _near(a, block, min(block + 64, downs), below, below_masks, stack_masks, dimension)
                simple = _facets_of(a, stack_masks) == dimension  # then any d - 1 of its facets meet in an edge
                while near != 0:
                    b = below[block + lowest_bit(near)]
                    near &= near - np.uint64(1)
                    simple_end = simple or _facets_of(b, stack_masks) == dimension
                    if not simple_end and not _alone(a, b, start, stop, stack_masks):
                        continue
                    if count + 1 > names.shape[0]:
                        return VERTICES_FULL, count, cells
                    if 2 * (count + 1 - old) > table.shape[0]:  # it holds new vertices only
                        return TABLE_FULL, count, cells
                    if made + 1 > fresh.shape[0]:
                        return STACK_FULL, count, cells
                    q = cut_edge(
                        stack_corners[a], stack_corners[b], k, labels[k], count,
                        names, points, parents, weights, pos, neg, cuts, new_cuts, filled, tol, table,
                    )  # fmt: skip
                    count += q == count
                    new_pos |= pos[q, w_cut]
                    new_neg |= neg[q, w_cut]
                    fresh[made] = q
                    for w in range(words):
                        fresh_masks[made, w] = stack_masks[a, w] & stack_masks[b, w]
                    fresh_masks[made, facet // 64] |= np.uint64(1) << np.uint64(facet % 64)
                    made += 1
            base = stop + made  # the part below goes there, the part above over the cell itself
            if base + stop - start + made >= stack_corners.shape[0] or fstop + facet + 2 > stack_facets.shape[0]:
                return STACK_FULL, count, cells
            top = _child(stack_corners, stack_masks, start, stop, signs, 1, fresh, fresh_masks, made, facet, base)
            middle = _child(stack_corners, stack_masks, start, stop, signs, -1, fresh, fresh_masks, made, facet, start)
            stack_stops[depth - 1], stack_starts[depth], stack_stops[depth] = middle, base, top
            stack_facets[fstop] = labels[k]  # both children have the parent's facets, and the new one
            for f in range(facet + 1):
                stack_facets[fstop + 1 + f] = stack_facets[fstart + f]
            stack_facet_starts[depth], stack_facet_starts[depth + 1] = fstop + 1, fstop + facet + 2
            stack_words[depth - 1] = stack_words[depth] = w_cut
            stack_left[depth - 1] = left & (upper_pos | new_pos) & (upper_neg | new_neg)
            stack_left[depth] = left & (lower_pos | new_pos) & (lower_neg | new_neg)
            depth += 1
    return DONE, count, cells
