"""Bounds of linear forms on every tile of a chunk, while folds are still to come, by linear relaxation."""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import jit


@jit
def local_coordinates(corners, points, start, stop, tau, normal):
    """Coordinates of a tile's corners about its middle, of size 1, and the inverse of their moments.

    Returns False if the tile is too thin for them.
    """
    d = points.shape[1]
    n = stop - start
    for k in range(d):
        low = high = points[corners[start], k]
        total = 0.0
        for c in range(start, stop):
            value = points[corners[c], k]
            total += value
            low = min(low, value)
            high = max(high, value)
        middle = total / n
        size = high - low
        if size == 0.0:
            size = 1.0
        for c in range(n):
            tau[c, k] = (points[corners[start + c], k] - middle) / size
    work = np.zeros((d, 2 * d))
    for i in range(d):
        for j in range(d):
            total = 0.0
            for c in range(n):
                total += tau[c, i] * tau[c, j]
            work[i, j] = total
        work[i, d + i] = 1.0
    for i in range(d):  # Gauss-Jordan with pivots: the matrix has a diagonal of order 1
        best = i
        for r in range(i + 1, d):
            if abs(work[r, i]) > abs(work[best, i]):
                best = r
        if abs(work[best, i]) < 1e-9:
            return False
        for j in range(2 * d):
            work[i, j], work[best, j] = work[best, j], work[i, j]
        pivot = work[i, i]
        for j in range(2 * d):
            work[i, j] /= pivot
        for r in range(d):
            if r != i and work[r, i] != 0.0:
                factor = work[r, i]
                for j in range(2 * d):
                    work[r, j] -= factor * work[i, j]
    normal[:] = work[:, d:]
    return True


@jit
def form_bounds(
    offsets, corners, points, rows, stage, sizes, hinges, by_input, in_starts, in_firsts, by_output, out_starts,
    out_firsts, biases, lows,
):  # fmt: skip
    """`lows[i, f]`: lower bounds of the forms on tile i, whose corners have `rows` before fold number `stage`.

    Layer l takes `sizes[l]` values, relu on the first `hinges[l]` of them, to W times that plus a bias; the last
    layer gives the forms. W is stored twice, without the zeros at the ends of its rows: `by_output` row by row,
    each from a column `out_firsts` on, and `by_input` row by row of its transpose. On a tile all values are affine:
    v = a . tau + k, off by at most e. Forwards, a relu whose sign is open is its chord; that gives the ranges of
    all layers. Backwards, each form takes the line below or above every relu that its sign asks for, down to the
    rows at the corners, whose least value is the bound. Both bounds hold; the larger one is given.
    """
    layers = sizes.shape[0] - 1
    ins = np.zeros(layers + 1, np.int64)  # the rows of each layer
    outs = np.zeros(layers + 1, np.int64)
    for layer in range(layers):
        ins[layer + 1] = ins[layer] + sizes[layer]
        outs[layer + 1] = outs[layer] + sizes[layer + 1]
    d = points.shape[1]
    widest, forms = sizes.max(), sizes[layers]
    most = 0
    for i in range(offsets.shape[0] - 1):
        most = max(most, offsets[i + 1] - offsets[i])
    tau = np.empty((most, d))
    normal = np.empty((d, d))
    value = np.empty((d + 1, widest))
    after = np.empty((d + 1, widest))
    error = np.empty(widest)
    error_after = np.empty(widest)
    low = np.empty(widest)
    high = np.empty(widest)
    row = np.empty(widest)
    upper = np.empty((layers, widest))
    lower = np.empty((layers, widest))
    lift = np.empty((layers, widest))
    back = np.empty((forms, widest))
    front = np.empty((forms, widest))
    rest = np.empty(forms)
    for i in range(offsets.shape[0] - 1):
        start, stop = offsets[i], offsets[i + 1]
        n = stop - start
        width = sizes[stage]
        low[:width] = high[:width] = rows[corners[start], :width]
        for c in range(start + 1, stop):
            vertex = corners[c]
            for j in range(width):
                low[j] = min(low[j], rows[vertex, j])
                high[j] = max(high[j], rows[vertex, j])
        thin = not local_coordinates(corners, points, start, stop, tau, normal)
        # v = a . tau + k by least squares over the corners; whatever that misses at a corner is error
        value[:, :width] = 0.0
        for c in range(n):
            vertex = corners[start + c]
            for j in range(width):
                value[d, j] += rows[vertex, j]
        value[d, :width] /= n
        if not thin:
            for k in range(d):
                for c in range(n):
                    weight = 0.0
                    for l in range(d):
                        weight += normal[k, l] * tau[c, l]
                    vertex = corners[start + c]
                    for j in range(width):
                        value[k, j] += weight * rows[vertex, j]
        error[:width] = 0.0
        for c in range(n):
            vertex = corners[start + c]
            for j in range(width):
                row[j] = rows[vertex, j] - value[d, j]
            for k in range(d):
                place = tau[c, k]
                for j in range(width):
                    row[j] -= place * value[k, j]
            for j in range(width):
                error[j] = max(error[j], abs(row[j]))
        for layer in range(stage, layers):
            width, bent, out = sizes[layer], hinges[layer], sizes[layer + 1]
            if layer > stage:
                low[:width] = np.inf
                high[:width] = -np.inf
                for c in range(n):
                    row[:width] = value[d, :width]
                    for k in range(d):
                        place = tau[c, k]
                        for j in range(width):
                            row[j] += place * value[k, j]
                    for j in range(width):
                        low[j] = min(low[j], row[j])
                        high[j] = max(high[j], row[j])
                low[:width] -= error[:width]
                high[:width] += error[:width]
            for j in range(width):
                if j >= bent or low[j] >= 0.0:
                    upper[layer, j] = lower[layer, j] = 1.0
                    lift[layer, j] = 0.0
                elif high[j] <= 0.0:
                    upper[layer, j] = lower[layer, j] = 0.0
                    lift[layer, j] = 0.0
                else:
                    chord = high[j] / (high[j] - low[j])
                    upper[layer, j] = chord
                    lift[layer, j] = -chord * low[j]
                    lower[layer, j] = 1.0 if high[j] > -low[j] else 0.0
            after[:d, :out] = 0.0
            after[d, :out] = biases[outs[layer] : outs[layer + 1]]
            error_after[:out] = 0.0
            for j in range(width):
                slope = upper[layer, j]
                half = 0.5 * lift[layer, j]
                if slope == 0.0:
                    continue
                r = ins[layer] + j
                column, first = by_input[in_starts[r] : in_starts[r + 1]], in_firsts[r]
                for k in range(d + 1):
                    factor = slope * value[k, j]
                    if k == d:
                        factor += half
                    if factor != 0.0:
                        target = after[k, first : first + column.size]
                        for o in range(column.size):
                            target[o] += factor * column[o]
                factor = slope * error[j] + half
                if factor > 0.0:
                    target = error_after[first : first + column.size]
                    for o in range(column.size):
                        target[o] += factor * abs(column[o])
            value[:, :out] = after[:, :out]
            error[:out] = error_after[:out]
        lows[i] = np.inf
        for c in range(n):
            for f in range(forms):
                total = value[d, f]
                for k in range(d):
                    total += tau[c, k] * value[k, f]
                lows[i, f] = min(lows[i, f], total - error[f])
        # backwards
        back[:, :forms] = np.eye(forms)
        rest[:] = 0.0
        for layer in range(layers - 1, stage - 1, -1):
            width, out = sizes[layer], sizes[layer + 1]
            front[:, :width] = 0.0
            for f in range(forms):
                for o in range(out):
                    factor = back[f, o]
                    if factor != 0.0:
                        r = outs[layer] + o
                        rest[f] += factor * biases[r]
                        weights, first = by_output[out_starts[r] : out_starts[r + 1]], out_firsts[r]
                        target = front[f, first : first + weights.size]
                        for j in range(weights.size):
                            target[j] += factor * weights[j]
                for j in range(width):
                    if front[f, j] >= 0.0:
                        back[f, j] = front[f, j] * lower[layer, j]
                    else:
                        rest[f] += front[f, j] * lift[layer, j]
                        back[f, j] = front[f, j] * upper[layer, j]
        width = sizes[stage]
        for f in range(forms):
            least = np.inf
            for c in range(n):
                vertex = corners[start + c]
                total = 0.0
                for j in range(width):
                    total += back[f, j] * rows[vertex, j]
                least = min(least, total)
            lows[i, f] = max(lows[i, f], least + rest[f])
