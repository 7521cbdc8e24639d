"""Convolutions in float64: torch copies every window of an image, and takes channels by themselves in turn."""

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


@jit(fastmath={"contract"})  # a product and its sum in one instruction: twice as fast
def convolve(x, weight, taps, top, left, margins, corners, size, out):
    """Fill `out` `[n, O, h, w]` with convolutions at stride 1 of images `[n, C, H, W]`.

    An image lies at (top, left) in zeros of the size `margins`, which are one line of numbers. Output k is the sum of
    `weight[k]` times that line from each of `taps` on: loops as long as the image, nothing copied. Outputs start at
    `corners` `[n, 2]` of an image of the given size and are zero beyond it. There are whole fours of taps.
    """
    n, channels, rows, columns = x.shape
    outputs, height, width = out.shape[1:]
    line = margins[1]
    length = (height - 1) * line + width
    seen = np.zeros(channels * margins[0] * line)
    sums = np.empty((2, length))
    for image in range(n):
        for c in range(channels):
            for y in range(rows):
                start = (c * margins[0] + top + y) * line + left
                for x_ in range(columns):
                    seen[start + x_] = x[image, c, y, x_]
        first_y, first_x = max(0, -corners[image, 0]), max(0, -corners[image, 1])
        last_y, last_x = min(height, size[0] - corners[image, 0]), min(width, size[1] - corners[image, 1])
        for k in range(0, outputs, 2):
            one, two = sums[0], sums[1]
            other = min(k + 1, outputs - 1)
            for p in range(length):
                one[p] = 0.0
                two[p] = 0.0
            for t in range(0, len(taps), 4):  # several in one pass: sums stay in registers
                a0, a1, a2, a3 = weight[k, t], weight[k, t + 1], weight[k, t + 2], weight[k, t + 3]
                b0, b1, b2, b3 = weight[other, t], weight[other, t + 1], weight[other, t + 2], weight[other, t + 3]
                at0, at1, at2, at3 = seen[taps[t] :], seen[taps[t + 1] :], seen[taps[t + 2] :], seen[taps[t + 3] :]
                for p in range(length):
                    z0, z1, z2, z3 = at0[p], at1[p], at2[p], at3[p]
                    one[p] = (((one[p] + a0 * z0) + a1 * z1) + a2 * z2) + a3 * z3
                    two[p] = (((two[p] + b0 * z0) + b1 * z1) + b2 * z2) + b3 * z3
            for number in range(k, other + 1):
                found = sums[number - k]
                for y in range(height):
                    for x_ in range(width):
                        inside = first_y <= y < last_y and first_x <= x_ < last_x
                        out[image, number, y, x_] = found[y * line + x_] if inside else 0.0
