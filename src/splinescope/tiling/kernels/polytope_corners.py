"""Loops over finished cells of three and more dimensions: spanning corners, faces of lower dimension, look-up."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import jit

from .polytope_facets import lies_on
from .sign_bits import mix


@jit
def spanning_corners(offsets, corners, points, tiles, chosen, thickness):
    """Per tile d + 1 corners, each farthest from the flat through those before; and the last one's distance.

    The first is the one farthest from the mean of the corners.
    """
    d = points.shape[1]
    basis = np.empty((d, d))
    rest = np.empty(d)
    for n in range(tiles.shape[0]):
        start, stop = offsets[tiles[n]], offsets[tiles[n] + 1]
        origin = -1
        for step in range(d + 1):
            best = -1.0
            for c in range(start, stop):
                size = 0.0
                for x in range(d):
                    if step == 0:  # corners times the distance from their mean: the same order, no division
                        rest[x] = 0.0
                        for other in range(start, stop):
                            rest[x] += points[corners[c], x] - points[corners[other], x]
                    else:
                        rest[x] = points[corners[c], x] - points[origin, x]
                for b in range(step - 1):
                    along = 0.0
                    for x in range(d):
                        along += rest[x] * basis[b, x]
                    for x in range(d):
                        rest[x] -= along * basis[b, x]
                for x in range(d):
                    size += rest[x] * rest[x]
                if size > best:
                    best = size
                    chosen[n, step] = corners[c]
                    if step > 0:
                        basis[step - 1] = rest
            if step == 0:
                origin = chosen[n, 0]
            else:
                thickness[n] = np.sqrt(best)
                basis[step - 1] /= max(thickness[n], 1e-300)  # a flat cell keeps a zero direction


@jit
def subfaces(offsets, corners, masks, facet_offsets, owners, starts, members, needed, out, out_sizes, keys):
    """The faces of one dimension less of given faces, from their cells' facet masks.

    Face n of cell `owners[n]` has the corners (places in `corners`) `members[starts[n]:starts[n + 1]]`. Its facets are
    written to `out` one after the other (sizes in `out_sizes`, keys that depend on the vertices alone in `keys`);
    returns their number, or -1 if there was no room.
    """
    count = 0
    at = 0
    for n in range(owners.shape[0]):
        i = owners[n]
        facets = facet_offsets[i + 1] - facet_offsets[i]
        size = starts[n + 1] - starts[n]
        for g in range(facets):
            if at + size > out.shape[0] or count + 1 > out_sizes.shape[0]:
                return -1
            on = 0
            key = np.uint64(0)
            for m in range(starts[n], starts[n + 1]):
                if lies_on(members[m], g, masks):
                    out[at + on] = members[m]
                    # a sum of mixed numbers: the same for both cells, whatever order their corners have
                    key += mix(corners[members[m]] + 1, corners[members[m]] + 7, 3)
                    on += 1
            if on < needed or on == size:
                continue  # too few to span one dimension less, or the facet holds the whole face
            # of facets that meet the face in the same corners the first counts; smaller meetings are no facets
            good = True
            h = 0
            while good and h < facets:
                if h != g:
                    inside = True
                    for s in range(at, at + on):
                        inside = inside and lies_on(out[s], h, masks)
                    if inside:
                        more = 0
                        for m in range(starts[n], starts[n + 1]):
                            more += lies_on(members[m], h, masks)
                        good = not (more < size and (more > on or h < g))
                h += 1
            if good:
                out_sizes[count] = on
                keys[count] = key
                count += 1
                at += on
    return count


@jit
def depth_inside(point, tile, facet_offsets, walls, sides, normals, heights):
    """Distance to the nearest facet's plane, negative if outside of it."""
    depth = np.inf
    for s in range(facet_offsets[tile], facet_offsets[tile + 1]):
        w = walls[s]
        height = heights[w]
        for x in range(point.shape[0]):
            height -= normals[w, x] * point[x]
        depth = min(depth, height if sides[w] == tile else -height)
    return depth


@jit
def locate_in_boxes(queries, lows, highs, order, facet_offsets, walls, sides, normals, heights, slack, found):
    """The tile of each point: an implicit binary tree of boxes over the tiles in `order`, from its root down."""
    leaves = (lows.shape[0] + 1) // 2
    stack = np.empty(128, np.int64)  # twice the depth of a tree of 2^63 tiles: two children replace their parent
    for n in range(queries.shape[0]):
        best = -slack
        stack[0] = 0
        top = 1
        while top > 0:
            top -= 1
            node = stack[top]
            inside = True
            for x in range(queries.shape[1]):
                inside = inside and lows[node, x] - slack <= queries[n, x] <= highs[node, x] + slack
            if not inside:
                continue
            if node < leaves - 1:
                stack[top], stack[top + 1] = 2 * node + 1, 2 * node + 2
                top += 2
                continue
            place = node - (leaves - 1)
            if place >= order.shape[0]:
                continue
            tile = order[place]
            depth = depth_inside(queries[n], tile, facet_offsets, walls, sides, normals, heights)
            # on a wall both tiles are equally deep: the first found stays
            if depth > best or (found[n] < 0 and depth >= best):
                best = depth
                found[n] = tile


@jit
def build_boxes(offsets, corners, points, order, lows, highs):
    """Fill the boxes of the implicit tree of `locate_in_boxes`, leaves first."""
    leaves = (lows.shape[0] + 1) // 2
    for node in range(lows.shape[0] - 1, -1, -1):
        for x in range(points.shape[1]):
            lows[node, x], highs[node, x] = np.inf, -np.inf
        if node < leaves - 1:
            for child in (2 * node + 1, 2 * node + 2):
                for x in range(points.shape[1]):
                    lows[node, x] = min(lows[node, x], lows[child, x])
                    highs[node, x] = max(highs[node, x], highs[child, x])
        elif node - (leaves - 1) < order.shape[0]:
            tile = order[node - (leaves - 1)]
            for c in range(offsets[tile], offsets[tile + 1]):
                for x in range(points.shape[1]):
                    lows[node, x] = min(lows[node, x], points[corners[c], x])
                    highs[node, x] = max(highs[node, x], points[corners[c], x])
