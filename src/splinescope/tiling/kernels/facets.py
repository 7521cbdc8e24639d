"""What finished cells of three and more dimensions need: facets as vertex lists, their areas, directions and middles.

Cells are kept as in `kernels.cells`: corners with bit masks of the cell's facets. A facet of a cell is called a slot:
slots are numbered through all cells, cell i has `facet_offsets[i]` to `facet_offsets[i + 1]`.
"""

from __future__ import annotations

import numpy as np

from splinescope._compile import in_place, jit

from .bits import count_bits, mix
from .mesh import loses


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
                    key += mix(corners[c] + 1, corners[c] + 7, 3)
                    size += 1
            keys[facet_offsets[i] + f] = key
            sizes[facet_offsets[i] + f] = size


@in_place
def list_facets(slots, cells, offsets, corners, masks, facet_offsets, dimension, starts, places):
    """The corners (places in `corners`) of chosen slots of the given cells as CSR lists; in 3-D around the polygon.

    In a polygon two corners are neighbours if they share another facet of the cell.
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
            for p in range(starts[n], at - 1):  # bring a neighbour of corner p to place p + 1
                for q in range(p + 1, at):
                    near = False
                    for g in range(count):
                        if g != f and lies_on(places[p], g, masks) and lies_on(places[q], g, masks):
                            near = True
                            break
                    if near:
                        places[p + 1], places[q] = places[q], places[p + 1]
                        break


@in_place
def _subface(level, f, g, needed, count, first, masks, sets, sizes):
    """Fill sets[level + 1] with the corners of the face sets[level] on facet g if that is a facet of the face
    without its apex; returns whether it is."""
    apex = sets[level, 0]
    if g == f or lies_on(first + apex, g, masks):
        return False
    size = 0
    for s in range(sizes[level]):
        if lies_on(first + sets[level, s], g, masks):
            sets[level + 1, size] = sets[level, s]
            size += 1
    if size < needed:
        return False
    sizes[level + 1] = size
    if level == 0 and needed <= 3:  # a ridge lies on two facets, and none of lower dimension has that many corners
        return True
    for h in range(count):
        if h == g:
            continue
        inside = True
        for s in range(size):
            inside = inside and lies_on(first + sets[level + 1, s], h, masks)
        if inside:
            on = 0
            for s in range(sizes[level]):
                on += lies_on(first + sets[level, s], h, masks)
            if on < sizes[level] and (on > size or h < g):
                return False
    return True


@in_place
def _normal(rows, columns, normal):
    """A vector at right angles to the d - 1 rows, as long as the volume of the box they span; rows are used up."""
    d = rows.shape[1]
    size = 1.0
    for x in range(d):
        columns[x] = x
    for r in range(d - 1):
        best, br, bc = -1.0, r, r
        for i in range(r, d - 1):
            for x in range(r, d):
                if abs(rows[i, columns[x]]) > best:
                    best, br, bc = abs(rows[i, columns[x]]), i, x
        if best <= 0.0:
            normal[:] = 0.0
            return
        columns[r], columns[bc] = columns[bc], columns[r]
        for x in range(d):
            rows[r, x], rows[br, x] = rows[br, x], rows[r, x]
        pivot = rows[r, columns[r]]
        size *= pivot
        for i in range(r + 1, d - 1):
            share = rows[i, columns[r]] / pivot
            for x in range(r, d):
                rows[i, columns[x]] -= share * rows[r, columns[x]]
    normal[columns[d - 1]] = size
    for r in range(d - 2, -1, -1):
        total = 0.0
        for x in range(r + 1, d):
            total += rows[r, columns[x]] * normal[columns[x]]
        normal[columns[r]] = -total / rows[r, columns[r]]


@jit
def measure_facets(slots, cells, offsets, corners, masks, facet_offsets, points, vectors, centres):
    """Per chosen slot its area times its outward unit normal, and its centre of area.

    The facet is cut into simplices: from its first corner to its own facets that do not contain it, and so on down to
    edges. Sums over simplices, so that degenerate corners (more than d facets) need no care.
    """
    d = points.shape[1]
    most = 0
    for i in range(offsets.shape[0] - 1):
        most = max(most, offsets[i + 1] - offsets[i])
    sets = np.empty((d, most), np.int64)
    sizes = np.empty(d, np.int64)
    pointers = np.empty(d, np.int64)
    simplex = np.empty(d, np.int64)
    rows = np.empty((d - 1, d))
    columns = np.empty(d, np.int64)
    normal = np.empty(d)
    factorial = 1.0
    for x in range(2, d):
        factorial *= x
    for n in range(slots.shape[0]):
        i = cells[n]
        first = offsets[i]
        f = slots[n] - facet_offsets[i]
        count = facet_offsets[i + 1] - facet_offsets[i]
        size = 0
        for c in range(first, offsets[i + 1]):
            if lies_on(c, f, masks):
                sets[0, size] = c - first
                size += 1
        sizes[0] = size
        origin = corners[first + sets[0, 0]]
        vectors[n] = 0.0
        centres[n] = 0.0
        total = 0.0
        level = 0
        pointers[0] = 0
        while level >= 0:
            simplex[level] = sets[level, 0]
            if level == d - 2:  # an edge: the simplex is complete
                simplex[d - 1] = sets[level, 1]
                for r in range(d - 1):
                    v = corners[first + simplex[r + 1]]
                    for x in range(d):
                        rows[r, x] = points[v, x] - points[origin, x]
                _normal(rows, columns, normal)
                along = area = 0.0
                for x in range(d):
                    along += normal[x] * vectors[n, x]
                    area += normal[x] * normal[x]
                area = np.sqrt(area)
                total += area
                for x in range(d):
                    vectors[n, x] += normal[x] if along >= 0.0 else -normal[x]
                    for r in range(1, d):
                        centres[n, x] += area * (points[corners[first + simplex[r]], x] - points[origin, x])
                level -= 1
                continue
            found = False
            while not found and pointers[level] < count:
                found = _subface(level, f, pointers[level], d - 1 - level, count, first, masks, sets, sizes)
                pointers[level] += 1
            if found:
                level += 1
                pointers[level] = 0
            else:
                level -= 1
        outward = 0.0
        for x in range(d):
            centres[n, x] = points[origin, x] + (centres[n, x] / (total * d) if total > 0.0 else 0.0)
            mean = 0.0
            for c in range(first, offsets[i + 1]):
                mean += points[corners[c], x] - centres[n, x]
            outward -= vectors[n, x] * mean
        for x in range(d):
            vectors[n, x] *= (1.0 if outward >= 0.0 else -1.0) / factorial


@jit
def cell_moments(facet_offsets, offsets, corners, points, walls, vectors, centres, volumes, middles):
    """Volume and centre of mass of every cell: cones from the mean of its corners over its facets (`walls[slot]`)."""
    d = points.shape[1]
    inner = np.empty(d)
    for i in range(offsets.shape[0] - 1):
        n = offsets[i + 1] - offsets[i]
        origin = corners[offsets[i]]
        for x in range(d):
            inner[x] = 0.0
            for c in range(offsets[i], offsets[i + 1]):
                inner[x] += (points[corners[c], x] - points[origin, x]) / n
            inner[x] += points[origin, x]
            middles[i, x] = 0.0
        total = 0.0
        for s in range(facet_offsets[i], facet_offsets[i + 1]):
            w = walls[s]
            cone = 0.0
            for x in range(d):
                cone += vectors[w, x] * (centres[w, x] - inner[x])
            cone = abs(cone)
            total += cone
            for x in range(d):
                middles[i, x] += cone * (centres[w, x] - inner[x])
        volumes[i] = total / d
        for x in range(d):
            middles[i, x] = inner[x] + (middles[i, x] / total * d / (d + 1) if total > 0.0 else 0.0)


@in_place
def _facet_loses(i, f, offsets, corners, masks, j, stage, final, elements, windows, tol):
    """Whether unit j of a stage loses its tournament somewhere on facet f of cell i."""
    for c in range(offsets[i], offsets[i + 1]):
        if lies_on(c, f, masks) and loses(corners[c], j, stage, final, elements, windows, tol):
            return True
    return False


@in_place
def mark_lost_facets(
    offsets, corners, masks, facet_offsets, labels, low, stage, final, elements, windows, tol
):  # fmt: skip
    """`mark_lost_walls` for cells of three and more dimensions."""
    for i in range(offsets.shape[0] - 1):
        for s in range(facet_offsets[i], facet_offsets[i + 1]):
            j = labels[s] - low
            if 0 <= j < elements.shape[0] and _facet_loses(
                i, s - facet_offsets[i], offsets, corners, masks, j, stage, final, elements, windows, tol
            ):
                labels[s] = -2 - labels[s]


@in_place
def keep_shared_facets(
    offsets, corners, masks, facet_offsets, labels, low, high, cuts, cut_tol, stage, final, elements, windows, tol
):  # fmt: skip
    """`keep_shared_walls` for cells of three and more dimensions."""
    for i in range(offsets.shape[0] - 1):
        for s in range(facet_offsets[i], facet_offsets[i + 1]):
            if not low <= -2 - labels[s] < high:
                continue
            f = s - facet_offsets[i]
            for j in range(cuts.shape[1]):
                zero = True
                draws = False
                for c in range(offsets[i], offsets[i + 1]):
                    away = abs(cuts[corners[c], j]) > cut_tol[j]
                    zero = zero and not (away and lies_on(c, f, masks))
                    draws = draws or away
                if (
                    zero
                    and draws
                    and not _facet_loses(i, f, offsets, corners, masks, j, stage, final, elements, windows, tol)
                ):
                    labels[s] = -2 - labels[s]
                    break
