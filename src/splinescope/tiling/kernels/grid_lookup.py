"""Polygons and segments on a grid: which cells they meet, and what is near a point."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import jit

_TOUCHED = 1e-6  # weight of a tile in cells beside that of its middle: seen where nothing else is


@jit
def sort_into_cells(offsets, corners, points, low, step, columns, rows, places, tiles, only_count):
    """For each tile and each row of cells it meets, the cells between its leftmost and rightmost point there.

    Counts per cell into `places`; or, with the first place of each cell in it, fills `tiles`. Cells are taken a
    hair larger than they are, so that a point on their edge finds every tile it touches.
    """
    hair = 1e-9
    for tile in range(len(offsets) - 1):
        start, stop = offsets[tile], offsets[tile + 1]
        bottom, top = np.inf, -np.inf
        for p in range(start, stop):
            y = (points[corners[p], 1] - low[1]) / step
            bottom, top = min(bottom, y), max(top, y)
        first = min(max(int(np.floor(bottom - hair)), 0), rows - 1)
        last = min(max(int(np.floor(top + hair)), 0), rows - 1)
        for row in range(first, last + 1):
            left, right = np.inf, -np.inf
            y0, y1 = row - hair, row + 1 + hair
            for p in range(start, stop):
                q = p + 1 if p + 1 < stop else start
                ax, ay = (points[corners[p], 0] - low[0]) / step, (points[corners[p], 1] - low[1]) / step
                bx, by = (points[corners[q], 0] - low[0]) / step, (points[corners[q], 1] - low[1]) / step
                if ay > by:  # upwards, so that one clip at each end will do
                    ax, ay, bx, by = bx, by, ax, ay
                if by < y0 or ay > y1:
                    continue
                if ay < y0:
                    ax += (bx - ax) * (y0 - ay) / (by - ay)
                    ay = y0
                if by > y1:
                    bx = ax + (bx - ax) * (y1 - ay) / (by - ay)
                left, right = min(left, ax, bx), max(right, ax, bx)
            if left > right:
                continue  # only the hair reaches into this row
            for column in range(max(int(np.floor(left - hair)), 0), min(int(np.floor(right + hair)), columns - 1) + 1):
                cell = row * columns + column
                if not only_count:
                    tiles[places[cell]] = tile
                places[cell] += 1


@jit
def _depth_inside(x, y, start, stop, corners, points):
    """Distance to the nearest side's line, negative if outside of it."""
    depth = np.inf
    for p in range(start, stop):
        a, b = corners[p], corners[p + 1 if p + 1 < stop else start]
        ex, ey = points[b, 0] - points[a, 0], points[b, 1] - points[a, 1]
        length = np.sqrt(ex * ex + ey * ey)
        if length > 0.0:
            depth = min(depth, (ex * (y - points[a, 1]) - ey * (x - points[a, 0])) / length)
    return depth if depth < np.inf else -np.inf  # a tile without any side has no inside


@jit
def locate_points(queries, offsets, corners, points, low, step, rows, columns, starts, tiles, slack, found):
    for n in range(len(queries)):
        x, y = queries[n, 0], queries[n, 1]
        column, row = int(np.floor((x - low[0]) / step)), int(np.floor((y - low[1]) / step))
        column, row = min(max(column, 0), columns - 1), min(max(row, 0), rows - 1)
        best = -slack
        cell = row * columns + column
        for p in range(starts[cell], starts[cell + 1]):
            depth = _depth_inside(x, y, offsets[tiles[p]], offsets[tiles[p] + 1], corners, points)
            # on a wall both tiles are equally deep: the first found stays
            if depth > best or (found[n] < 0 and depth >= best):
                best = depth
                found[n] = tiles[p]


@jit
def count_near(queries, radius, offsets, corners, points, low, step, rows, columns, starts, tiles, seen, counts, found):
    """Tiles nearer than `radius`; `seen[tile]` is the last query that met it. Fills `found` if it has room."""
    for n in range(len(queries)):
        x, y = queries[n, 0], queries[n, 1]
        first_row = min(max(int(np.floor((y - radius - low[1]) / step)), 0), rows - 1)
        last_row = min(max(int(np.floor((y + radius - low[1]) / step)), 0), rows - 1)
        first_column = min(max(int(np.floor((x - radius - low[0]) / step)), 0), columns - 1)
        last_column = min(max(int(np.floor((x + radius - low[0]) / step)), 0), columns - 1)
        for row in range(first_row, last_row + 1):
            for column in range(first_column, last_column + 1):
                cell = row * columns + column
                for p in range(starts[cell], starts[cell + 1]):
                    tile = tiles[p]
                    # a tile stands in every cell that it meets
                    if seen[tile] == n:
                        continue
                    seen[tile] = n
                    start, stop = offsets[tile], offsets[tile + 1]
                    near = _depth_inside(x, y, start, stop, corners, points) > 0.0
                    for q in range(start, stop):
                        if near:
                            break
                        a, b = corners[q], corners[q + 1 if q + 1 < stop else start]
                        ex, ey = points[b, 0] - points[a, 0], points[b, 1] - points[a, 1]
                        share, square = 0.0, ex * ex + ey * ey
                        if square > 0.0:
                            share = min(max(((x - points[a, 0]) * ex + (y - points[a, 1]) * ey) / square, 0.0), 1.0)
                        dx, dy = x - points[a, 0] - share * ex, y - points[a, 1] - share * ey
                        near = dx * dx + dy * dy < radius * radius
                    if near:
                        if counts[n] < len(found):
                            found[counts[n]] = tile
                        counts[n] += 1


@jit
def draw_lengths(segments, low, step, values):
    """Add to each cell the length of every segment within it, walking from grid line to grid line."""
    rows, columns = values.shape
    for n in range(len(segments)):
        x, y = (segments[n, 0, 0] - low[0]) / step[0], (segments[n, 0, 1] - low[1]) / step[1]
        dx, dy = (segments[n, 1, 0] - low[0]) / step[0] - x, (segments[n, 1, 1] - low[1]) / step[1] - y
        length = np.hypot(dx * step[0], dy * step[1])
        share = 0.0
        next_x, next_y = np.inf, np.inf  # shares at which the next grid line is reached
        line_x = np.floor(x) + 1.0 if dx > 0 else np.ceil(x) - 1.0
        line_y = np.floor(y) + 1.0 if dy > 0 else np.ceil(y) - 1.0
        if dx != 0.0:
            next_x = (line_x - x) / dx
        if dy != 0.0:
            next_y = (line_y - y) / dy
        while share < 1.0:
            until = min(next_x, next_y, 1.0)
            middle = 0.5 * (share + until)  # its cell is certain; that of an end lies on a grid line
            column = min(max(int(np.floor(x + middle * dx)), 0), columns - 1)
            row = min(max(int(np.floor(y + middle * dy)), 0), rows - 1)
            values[row, column] += (until - share) * length
            if next_x <= until:
                line_x += 1.0 if dx > 0 else -1.0
                next_x = (line_x - x) / dx
            if next_y <= until:
                line_y += 1.0 if dy > 0 else -1.0
                next_y = (line_y - y) / dy
            share = until


@jit
def _box(corners, points, start, stop):
    x0 = x1 = points[corners[start], 0]
    y0 = y1 = points[corners[start], 1]
    for c in range(start + 1, stop):
        x, y = points[corners[c], 0], points[corners[c], 1]
        x0, x1, y0, y1 = min(x0, x), max(x1, x), min(y0, y), max(y1, y)
    return x0, x1, y0, y1


@jit
def reaches(offsets, corners, points, out):
    """The longer side of the box around each tile."""
    for tile in range(len(offsets) - 1):
        x0, x1, y0, y1 = _box(corners, points, offsets[tile], offsets[tile + 1])
        out[tile] = max(x1 - x0, y1 - y0)


@jit
def largest_in_cells(offsets, corners, points, areas, kept, low, per_unit, best, found):
    """For each cell, the largest tile that is not kept and has its middle there, or else reaches it."""
    height, width = found.shape
    for tile in range(len(offsets) - 1):
        if kept[tile]:
            continue
        x0, x1, y0, y1 = _box(corners, points, offsets[tile], offsets[tile + 1])
        row = min(max(int((0.5 * (y0 + y1) - low[1]) * per_unit), 0), height - 1)
        column = min(max(int((0.5 * (x0 + x1) - low[0]) * per_unit), 0), width - 1)
        # tiles that reach further than the next cells are kept, unless there are millions of slivers
        first, last = int((y0 - low[1]) * per_unit), int((y1 - low[1]) * per_unit)
        left, right = int((x0 - low[0]) * per_unit), int((x1 - low[0]) * per_unit)
        for r in range(max(row - 1, first, 0), min(row + 1, last, height - 1) + 1):
            for c in range(max(column - 1, left, 0), min(column + 1, right, width - 1) + 1):
                weight = areas[tile] if r == row and c == column else _TOUCHED * areas[tile]
                if weight > best[r, c]:
                    best[r, c] = weight
                    found[r, c] = tile
