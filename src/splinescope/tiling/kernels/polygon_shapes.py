"""Moments of polygons, the largest discs in them, and the corners that span them best."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import jit


@jit
def polygon_moments(offsets, corners, points, out):
    """Sums over the triangles of a fan. Coordinates are taken from the first corner, so that no digits cancel."""
    for tile in range(len(offsets) - 1):
        start, stop = offsets[tile], offsets[tile + 1]
        x0, y0 = points[corners[start], 0], points[corners[start], 1]
        area = x = y = xx = xy = yy = 0.0
        for p in range(start + 1, stop - 1):
            ax, ay = points[corners[p], 0] - x0, points[corners[p], 1] - y0
            bx, by = points[corners[p + 1], 0] - x0, points[corners[p + 1], 1] - y0
            twice = max(ax * by - ay * bx, 0.0)  # below zero only by rounding
            area += twice
            x += twice * (ax + bx) / 3
            y += twice * (ay + by) / 3
            xx += twice * (ax * ax + ax * bx + bx * bx) / 6
            xy += twice * (2 * ax * ay + ax * by + bx * ay + 2 * bx * by) / 12
            yy += twice * (ay * ay + ay * by + by * by) / 6
        if area == 0.0:  # thinner than its corners' digits
            out[tile] = 0.0
            for p in range(start, stop):
                out[tile, 0] += points[corners[p], 0] / (stop - start)
                out[tile, 1] += points[corners[p], 1] / (stop - start)
            continue
        x, y = x / area, y / area
        out[tile, 0], out[tile, 1] = x0 + x, y0 + y
        out[tile, 2], out[tile, 3], out[tile, 4] = xx / area - x * x, xy / area - x * y, yy / area - y * y


@jit
def inscribed_discs(offsets, corners, points, sides, radii):
    """Chebyshev radius by duality: `min sum_i l_i b_i` over l >= 0 with `sum l_i n_i = 0`, `sum l_i = 1`.

    Sides are `n_i . x <= b_i` with unit normals; a least l has at most three non-zero entries, so all triples of
    sides are tried.
    """
    for tile in range(len(offsets) - 1):
        start, n = offsets[tile], offsets[tile + 1] - offsets[tile]
        x0 = y0 = 0.0
        for p in range(n):
            x0 += points[corners[start + p], 0] / n
            y0 += points[corners[start + p], 1] / n
        m = 0  # sides that have a length
        for p in range(n):
            a, b = corners[start + p], corners[start + (p + 1) % n]
            ex, ey = points[b, 0] - points[a, 0], points[b, 1] - points[a, 1]
            length = np.sqrt(ex * ex + ey * ey)
            if length > 0.0:
                sides[m, 0], sides[m, 1] = ey / length, -ex / length
                sides[m, 2] = sides[m, 0] * (points[a, 0] - x0) + sides[m, 1] * (points[a, 1] - y0)
                m += 1
        best = np.inf
        for i in range(m):
            for j in range(i + 1, m):
                lk = sides[i, 0] * sides[j, 1] - sides[i, 1] * sides[j, 0]
                for k in range(j + 1, m):
                    li = sides[j, 0] * sides[k, 1] - sides[j, 1] * sides[k, 0]
                    lj = sides[k, 0] * sides[i, 1] - sides[k, 1] * sides[i, 0]
                    total = li + lj + lk
                    if li >= 0 and lj >= 0 and lk >= 0 and total > 0:
                        best = min(best, (li * sides[i, 2] + lj * sides[j, 2] + lk * sides[k, 2]) / total)
        radii[tile] = best if best < np.inf else 0.0  # no three sides hold a disc: the tile has no area


@jit
def spanning_triangles(offsets, corners, points, tiles, chosen, thickness):
    """Per tile the two corners farthest apart and the one farthest from their line; and that distance."""
    for i in range(len(tiles)):
        start, stop = offsets[tiles[i]], offsets[tiles[i] + 1]
        longest = -1.0
        a = b = c = corners[start]
        for p in range(start, stop):
            for q in range(p + 1, stop):
                x = points[corners[q], 0] - points[corners[p], 0]
                y = points[corners[q], 1] - points[corners[p], 1]
                if x * x + y * y > longest:
                    longest = x * x + y * y
                    a, b = corners[p], corners[q]
        ux, uy = points[b, 0] - points[a, 0], points[b, 1] - points[a, 1]
        widest = -1.0
        for p in range(start, stop):
            if corners[p] == a or corners[p] == b:
                continue
            x, y = points[corners[p], 0] - points[a, 0], points[corners[p], 1] - points[a, 1]
            height = abs(ux * y - uy * x)
            if height > widest:
                widest = height
                c = corners[p]
        chosen[i, 0], chosen[i, 1], chosen[i, 2] = a, b, c
        thickness[i] = widest / np.sqrt(longest) if longest > 0.0 else 0.0
