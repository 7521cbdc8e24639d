"""Hinges replaced by their chords on every tile, for bounds of what comes behind them."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import jit


@jit
def chords(offsets, values, errors, gains, out_values, out_errors):
    """`values` `[M, W]` at the corners of tiles, off by at most `errors` `[K, W]`, sent through hinges.

    Hinge j has slope 1 above zero and 1 - gains[j] below. Where its sign is open on a tile, its chord over the range
    there, moved half its height up, is off by at most that half.
    """
    width = values.shape[1]
    low = np.empty(width)
    high = np.empty(width)
    slope = np.empty(width)
    lift = np.empty(width)
    for i in range(offsets.shape[0] - 1):
        start, stop = offsets[i], offsets[i + 1]
        for j in range(width):
            low[j] = high[j] = values[start, j]
        for c in range(start + 1, stop):
            for j in range(width):
                low[j] = min(low[j], values[c, j])
                high[j] = max(high[j], values[c, j])
        for j in range(width):
            a, b = low[j] - errors[i, j], high[j] + errors[i, j]
            # relu between a < 0 < b lies between this chord and the chord lowered by -a b / (b - a)
            chord = 1.0 if a >= 0.0 else 0.0 if b <= 0.0 else b / (b - a)
            rise = -0.5 * chord * min(a, 0.0)
            slope[j] = 1.0 - gains[j] + gains[j] * chord
            lift[j] = gains[j] * rise
            out_errors[i, j] = abs(slope[j]) * errors[i, j] + abs(lift[j])
        for c in range(start, stop):
            for j in range(width):
                out_values[c, j] = slope[j] * values[c, j] + lift[j]


@jit
def tile_ranges(offsets, heights, lows, highs):
    """Least and largest of the numbers at each tile's corners."""
    for i in range(offsets.shape[0] - 1):
        lows[i] = highs[i] = heights[offsets[i]]
        for c in range(offsets[i] + 1, offsets[i + 1]):
            lows[i] = min(lows[i], heights[c])
            highs[i] = max(highs[i], heights[c])
