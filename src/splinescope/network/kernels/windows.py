"""Loops over the windows of `Patches`: every row has its own place, so that no array operation takes them together."""

from __future__ import annotations

from splinescope.support.compile import jit


@jit
def paste(values, offsets, out):
    """Put each of `[n, C, h, w]` at its own offset `[n, 2]` into `out` `[n, C, H, W]`; what sticks out goes."""
    n, channels, h, w = values.shape
    height, width = out.shape[2:]
    for i in range(n):
        top, left = offsets[i, 0], offsets[i, 1]
        for c in range(channels):
            for y in range(max(0, -top), min(h, height - top)):
                for x in range(max(0, -left), min(w, width - left)):
                    out[i, c, top + y, left + x] = values[i, c, y, x]


@jit
def add_windows(target, target_starts, rows, starts, factors):
    """Add `factors` `[n, m]` times windows `[m, C, h, w]` to windows `[n, C, H, W]` where these overlap, in place."""
    n, channels, height, width = target.shape
    m, _, h, w = rows.shape
    for i in range(n):
        for j in range(m):
            factor = factors[i, j]
            if factor == 0.0:  # most: a unit reaches few windows
                continue
            top, left = starts[j, 0] - target_starts[i, 0], starts[j, 1] - target_starts[i, 1]
            for c in range(channels):
                for y in range(max(0, -top), min(h, height - top)):
                    for x in range(max(0, -left), min(w, width - left)):
                        target[i, c, top + y, left + x] += factor * rows[j, c, y, x]


@jit
def pick(values, starts, height, width, elements, out):
    """Fill `out` `[n, m]` with elements (flat indices) of images `[n, C, height, width]` known by windows of them."""
    n, _, h, w = values.shape
    for e in range(elements.shape[0]):
        c = elements[e] // (height * width)
        place = elements[e] % (height * width)
        for i in range(n):
            y = place // width - starts[i, 0]
            x = place % width - starts[i, 1]
            out[i, e] = values[i, c, y, x] if 0 <= y < h and 0 <= x < w else 0.0


@jit
def scale_windows(values, starts, factors, out):
    """Fill `out` with windows `[n, C, h, w]` times the factors `[C, H, W]` at their places; zero beyond the image."""
    n, channels, h, w = values.shape
    height, width = factors.shape[1:]
    out[:] = 0.0
    for i in range(n):
        top, left = starts[i, 0], starts[i, 1]
        for c in range(channels):
            for y in range(max(0, -top), min(h, height - top)):
                for x in range(max(0, -left), min(w, width - left)):
                    out[i, c, y, x] = values[i, c, y, x] * factors[c, top + y, left + x]
