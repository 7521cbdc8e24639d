"""Loops over the windows of `Patches`: every row has its own place, so that no array operation takes them together."""

from __future__ import annotations

from splinescope.support.compile import jit


@jit
def paste(values, offsets, out):
    """Put each of `[n, C, h, w]` at its own offset `[n, 2]` into `out` `[n, C, H, W]`; what sticks out goes."""
    n, channels, h, w = values.shape
    height, width = out.shape[2:]
    for i in range(n):
        top = offsets[i, 0]
        left = offsets[i, 1]
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
            top = starts[j, 0] - target_starts[i, 0]
            left = starts[j, 1] - target_starts[i, 1]
            for c in range(channels):
                for y in range(max(0, -top), min(h, height - top)):
                    for x in range(max(0, -left), min(w, width - left)):
                        target[i, c, top + y, left + x] += factor * rows[j, c, y, x]
