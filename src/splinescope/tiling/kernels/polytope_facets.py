"""What finished cells of three and more dimensions need: facets that are facets indeed, and those as vertex lists.

Cells are kept as in `cut_polytopes`: corners with bit masks of the cell's facets. A facet of a cell is called a slot:
slots are numbered through all cells, cell i has `facet_offsets[i]` to `facet_offsets[i + 1]`.
"""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import in_place, jit

from .sign_bits import count_bits, mix


@in_place
def lies_on(c, f, masks):
    return (masks[c, f // 64] >> np.uint64(f % 64)) & np.uint64(1) != 0


@in_place
def real_facets(offsets, masks, facet_offsets, dimension, real):
    """Mark the slots that are facets indeed: at least d corners, not all of them on another facet of the cell.

    A fold that only touches a cell in a lower face was kept while it could not be told apart from a facet.
    """
    for i in range(offsets.shape[0] - 1):
        count = facet_offsets[i + 1] - facet_offsets[i]
        simple = True  # d facets at every corner: none is redundant
        for c in range(offsets[i], offsets[i + 1]):
            on = 0
            for w in range(masks.shape[1]):
                on += count_bits(masks[c, w])
            simple = simple and on == dimension
        for f in range(count):
            if simple:
                real[facet_offsets[i] + f] = True
                continue
            corners = 0
            for c in range(offsets[i], offsets[i + 1]):
                corners += lies_on(c, f, masks)
            good = corners >= dimension
            g = 0
            while good and g < count:
                if g != f:
                    inside = True
                    more = False
                    for c in range(offsets[i], offsets[i + 1]):
                        on_f, on_g = lies_on(c, f, masks), lies_on(c, g, masks)
                        inside = inside and (on_g or not on_f)
                        more = more or (on_g and not on_f)
                    good = not (inside and (more or g < f))
                g += 1
            real[facet_offsets[i] + f] = good


@jit
def keep_slots(offsets, masks, facet_offsets, real):
    """Renumber each cell's facets to the marked ones, in the masks, in place."""
    words = masks.shape[1]
    row = np.empty(words, np.uint64)
    for i in range(offsets.shape[0] - 1):
        for c in range(offsets[i], offsets[i + 1]):
            row[:] = np.uint64(0)
            kept = 0
            for f in range(facet_offsets[i + 1] - facet_offsets[i]):
                if real[facet_offsets[i] + f]:
                    if lies_on(c, f, masks):
                        row[kept // 64] |= np.uint64(1) << np.uint64(kept % 64)
                    kept += 1
            masks[c] = row


@in_place
def facet_keys(offsets, corners, masks, facet_offsets, keys, sizes):
    """A 64-bit key per slot that depends on its set of vertices alone, and how many there are."""
    for i in range(offsets.shape[0] - 1):
        for f in range(facet_offsets[i + 1] - facet_offsets[i]):
            key = np.uint64(0)
            size = 0
            for c in range(offsets[i], offsets[i + 1]):
                if lies_on(c, f, masks):
                    # a sum: the cells on both sides list the corners in different orders
                    key += mix(corners[c] + 1, corners[c] + 7, 3)
                    size += 1
            keys[facet_offsets[i] + f] = key
            sizes[facet_offsets[i] + f] = size


@in_place
def pair_facets(keys, table, first, second, numbers):
    """Number slots of equal keys as one wall, in the order of their first slots; how many walls, -1 for three slots.

    `table` has free places, -1, for twice as many walls; `second` is -1 where there is no second slot.
    """
    mask = np.uint64(table.shape[0] - 1)
    walls = 0
    for slot in range(keys.shape[0]):
        at = (keys[slot] ^ (keys[slot] >> np.uint64(31))) & mask
        while table[at] >= 0 and keys[first[table[at]]] != keys[slot]:
            at = (at + np.uint64(1)) & mask
        wall = table[at]
        if wall < 0:
            wall = table[at] = walls
            first[wall], second[wall] = slot, -1
            walls += 1
        # two sides are all that a wall has: a third one means that names of vertices went wrong
        elif second[wall] >= 0:
            return -1
        else:
            second[wall] = slot
        numbers[slot] = wall
    return walls


@in_place
def list_facets(slots, cells, offsets, corners, masks, facet_offsets, dimension, starts, places):
    """The corners (places in `corners`) of chosen slots of the given cells as CSR lists; in 3-D around the polygon.

    In a polygon two corners are neighbors if they share another facet of the cell.
    """
    for n in range(slots.shape[0]):
        i = cells[n]
        f = slots[n] - facet_offsets[i]
        count = facet_offsets[i + 1] - facet_offsets[i]
        at = starts[n]
        for c in range(offsets[i], offsets[i + 1]):
            if lies_on(c, f, masks):
                places[at] = c
                at += 1
        if dimension == 3:
            for p in range(starts[n], at - 1):  # bring a neighbor of corner p to place p + 1
                for q in range(p + 1, at):
                    near = False
                    for g in range(count):
                        if g != f and lies_on(places[p], g, masks) and lies_on(places[q], g, masks):
                            near = True
                            break
                    if near:
                        places[p + 1], places[q] = places[q], places[p + 1]
                        break
