"""Products with small matrices, row by row: what calling a BLAS costs is more, and no row knows of those beside it."""

from __future__ import annotations

from splinescope.support.compile import in_place

from .sign_bits import inlined


@inlined
def _multiply(x, bent, weight, bias, places, out):
    count = 0
    for k in range(x.shape[0]):
        places[count] = k
        count += x[k] > 0.0 or (x[k] < 0.0 and not bent)
    for j in range(out.shape[0]):
        out[j] = bias[j]
    i = 0
    while i + 4 <= count:  # four in one pass over the row, added in their order
        a, b, c, d = places[i], places[i + 1], places[i + 2], places[i + 3]
        xa, xb, xc, xd = x[a], x[b], x[c], x[d]
        for j in range(out.shape[0]):
            out[j] = (((out[j] + xa * weight[a, j]) + xb * weight[b, j]) + xc * weight[c, j]) + xd * weight[d, j]
        i += 4
    while i < count:
        a = places[i]
        xa = x[a]
        for j in range(out.shape[0]):
            out[j] += xa * weight[a, j]
        i += 1
    return count


@in_place
def multiply(x, bent, weight, bias, places, out):
    """Rows x `[n, K]`, or their ReLUs if `bent`, times a matrix `[K, U]`, plus the bias; `places` are K + 1 to use."""
    for row in range(x.shape[0]):
        _multiply(x[row], bent, weight, bias, places, out[row])


@in_place
def multiply_probes(x, bent, weight, bias, places, terms, out, sizes):
    """`multiply`; and in `sizes` `[m, U]`, which are zero, the largest sums of absolute terms of every n / m rows."""
    each = x.shape[0] // sizes.shape[0]
    for row in range(x.shape[0]):
        count = _multiply(x[row], bent, weight, bias, places, out[row])
        for j in range(terms.shape[0]):
            terms[j] = abs(bias[j])
        for i in range(count):
            size = abs(x[row, places[i]])
            for j in range(terms.shape[0]):
                terms[j] += size * abs(weight[places[i], j])
        for j in range(terms.shape[0]):
            sizes[row // each, j] = max(sizes[row // each, j], terms[j])
