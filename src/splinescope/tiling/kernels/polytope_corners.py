"""Loops over finished cells of three and more dimensions: spanning corners, faces of lower dimension, look-up."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import jit

_SURELY_NEARER = 1.0 - 1e-9  # of the largest square of a distance: rounding does not make up for more


@jit
def spanning_corners(offsets, corners, points, tiles, chosen, thickness):
    """Per tile d + 1 corners, each farthest from the flat through those before; and the last one's distance.

    The first is the one farthest from the mean of the corners.
    """
    d = points.shape[1]
    most = 0
    for n in range(tiles.shape[0]):
        most = max(most, offsets[tiles[n] + 1] - offsets[tiles[n]])
    local, rest, sizes = np.empty((most, d)), np.empty((most, d)), np.empty(most)
    total, axis = np.empty(d), np.empty(d)
    for n in range(tiles.shape[0]):
        start, count = offsets[tiles[n]], offsets[tiles[n] + 1] - offsets[tiles[n]]
        total[:] = 0.0
        for c in range(count):
            for x in range(d):
                local[c, x] = points[corners[start + c], x] - points[corners[start], x]
                total[x] += local[c, x]
        nearly = 0.0
        for c in range(count):
            sizes[c] = 0.0
            for x in range(d):
                sizes[c] += (count * local[c, x] - total[x]) ** 2
            nearly = max(nearly, sizes[c])
        best, farthest = -1.0, 0
        for c in range(count):
            if sizes[c] < _SURELY_NEARER * nearly:
                continue
            size = 0.0
            for x in range(d):  # the sum of small differences, which symmetric corners tie in to the last bit
                away = 0.0
                for other in range(count):
                    away += points[corners[start + c], x] - points[corners[start + other], x]
                size += away * away
            if size > best:
                best, farthest = size, c
        chosen[n, 0] = corners[start + farthest]
        for c in range(count):
            for x in range(d):
                rest[c, x] = points[corners[start + c], x] - points[chosen[n, 0], x]
        for step in range(1, d + 1):
            best, farthest = -1.0, 0
            for c in range(count):
                size = 0.0
                for x in range(d):
                    size += rest[c, x] * rest[c, x]
                if size > best:
                    best, farthest = size, c
            chosen[n, step] = corners[start + farthest]
            thickness[n] = np.sqrt(best)
            for x in range(d):
                axis[x] = rest[farthest, x] / max(thickness[n], 1e-300)  # a flat cell keeps a zero direction
            for c in range(count):
                along = 0.0
                for x in range(d):
                    along += rest[c, x] * axis[x]
                for x in range(d):
                    rest[c, x] -= along * axis[x]


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
