"""Convolutions of each channel by itself in float64, for which torch has no kernel: it takes the channels in turn."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import jit


@jit
def convolve_channels(x, weight, stride_y, stride_x, dilation_y, dilation_x, out):
    """Fill `out` `[n, C, h, w]` from padded images `[n, C, H, W]` and weights `[C, ky, kx]`.

    At stride 1 a channel is one long line, whose ends of rows are computed in vain: long loops are fast ones.
    """
    n, channels, height, width = out.shape
    line = x.shape[3]
    flat = x.reshape(n, channels, x.shape[2] * line)
    length = (height - 1) * line + width
    sums = np.empty(length)
    for row in range(n):
        for c in range(channels):
            image = flat[row, c]
            if stride_y == 1 and stride_x == 1:
                sums[:] = 0.0  # one buffer for all channels stays in the cache
                for i in range(weight.shape[1]):
                    for j in range(weight.shape[2]):
                        factor = weight[c, i, j]
                        seen = image[i * dilation_y * line + j * dilation_x :]
                        for k in range(length):
                            sums[k] += factor * seen[k]
                for y in range(height):
                    for x_ in range(width):
                        out[row, c, y, x_] = sums[y * line + x_]
                continue
            for y in range(height):
                for x_ in range(width):
                    total = 0.0
                    for i in range(weight.shape[1]):
                        start = (y * stride_y + i * dilation_y) * line + x_ * stride_x
                        for j in range(weight.shape[2]):
                            total += weight[c, i, j] * image[start + j * dilation_x]
                    out[row, c, y, x_] = total
