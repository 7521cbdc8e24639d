"""What basis rows add to the range of each element, from the range of their coefficients."""

from __future__ import annotations

from splinescope.support.compile import in_place

_TOGETHER = 2048  # elements whose sums stay in the nearest cache


@in_place
def add_rows(rows, mid, rad, size, center, reach, error):
    """Add, per element, mid @ rows to `center`, rad @ |rows| to `reach` and size @ |rows| to `error`."""
    n, length = rows.shape
    for low in range(0, length, _TOGETHER):
        high = min(low + _TOGETHER, length)
        for i in range(n):
            m, r, s, row = mid[i], rad[i], size[i], rows[i]
            for e in range(low, high):
                value = row[e]
                center[e] += m * value
                reach[e] += r * abs(value)
                error[e] += s * abs(value)


@in_place
def column_ranges(rows, low, high):
    """Let `low` and `high` take in the numbers of each column."""
    for i in range(rows.shape[0]):
        row = rows[i]
        for e in range(row.shape[0]):  # in this form the compiler takes several at once
            low[e] = row[e] if row[e] < low[e] else low[e]
            high[e] = row[e] if row[e] > high[e] else high[e]


@in_place
def add_patches(values, starts, mid, rad, size, center, reach, error):
    """`add_rows` for rows `[n, channels, h, w]` that start at places of an image `[channels, height, width]`."""
    n, channels, h, w = values.shape
    height, width = center.shape[1:]
    for i in range(n):
        top, left = starts[i, 0], starts[i, 1]
        for c in range(channels):
            for y in range(max(0, -top), min(h, height - top)):
                for x in range(max(0, -left), min(w, width - left)):
                    value = values[i, c, y, x]
                    center[c, top + y, left + x] += mid[i] * value
                    reach[c, top + y, left + x] += rad[i] * abs(value)
                    error[c, top + y, left + x] += size[i] * abs(value)
