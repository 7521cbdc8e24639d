"""Five statistics of gate pre-activations, row by row while a row is in the cache."""

import numpy as np

from ..support.compile import jit


@jit(fastmath=True)
def row_statistics(z: np.ndarray, scale: np.ndarray, radius: float, out: np.ndarray) -> None:
    """Of d = z * scale, per row: share of d > 0, least |d|, number of |d| <= radius, mean and standard deviation.

    z `[N, H]` and scale `[H]` float32; out `[5, N]` float32. Each loop does one thing, so that it becomes vector
    instructions; for the least size these know integers only, whose order is that of sizes of floats.
    """
    count, units = z.shape
    limit, one, none = np.float32(radius), np.float32(1), np.float32(0)
    d = np.empty(units, np.float32)
    bits = d.view(np.int32)
    low = np.empty(1, np.int32)
    for i in range(count):
        for j in range(units):
            d[j] = z[i, j] * scale[j]
        total = square = active = near = none
        for j in range(units):
            total += d[j]
            square += d[j] * d[j]
        for j in range(units):
            active += one if d[j] > none else none
        for j in range(units):
            near += one if abs(d[j]) <= limit else none
        least = np.int32(0x7F800000)
        for j in range(units):
            least = min(least, bits[j] & np.int32(0x7FFFFFFF))
        low[0] = least
        mean = total / units
        out[0, i] = active / units
        out[1, i] = low.view(np.float32)[0]
        out[2, i] = near
        out[3, i] = mean
        out[4, i] = np.sqrt(max(square / units - mean * mean, 0.0))
