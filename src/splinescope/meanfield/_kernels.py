"""The slopes of a ReLU are bits: forces on many neurons by table look-up instead of a matrix product.

`sum_n 1[z_nk > 0] v_n` multiplies a matrix of zeros and ones. Eight points at a time have only 256 possible sums: they
are tabulated once, each by one addition, and every neuron looks its own up by the byte of its eight signs (the "method
of the four Russians" for Boolean matrices). That is an eighth of the additions of the product, and the signs take a
bit each instead of a float.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..support.compile import jit

POINTS = 8
"""Points that share a table: one bit each of a byte."""
TABLES = 4
"""Tables looked up at once: a quarter of the loads and stores of the sums, and the tables stay in the second cache."""
COLUMNS = 128
"""Coordinates of the points that are summed at once, for the same reason."""

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]


def code_rows(points: int) -> int:
    """Rows of `codes` for so many points: a byte for eight, whole batches of tables."""
    return -(-points // (POINTS * TABLES)) * TABLES


@jit(fastmath={"reassoc", "contract", "nsz"})  # not a number must stay one
def pack_signs(z: Floats, a: Floats, f: Floats, codes: Bytes) -> None:
    """`f[n] = sum_k a_k max(z_nk, 0)`, and bit `n % 8` of `codes[n // 8, k]` says whether `z_nk > 0`.

    What is not a number counts as positive, so that it reaches `f`.
    """
    codes[:] = 0
    for n in range(z.shape[0]):
        row, code, bit = z[n], codes[n // POINTS], np.uint8(n % POINTS)
        total = 0.0
        for k in range(len(a)):
            active = not row[k] <= 0
            total += a[k] * (row[k] if active else 0.0)
            code[k] |= np.uint8(active) << bit
        f[n] = total


@jit
def add_sums(vectors: Floats, codes: Bytes, tables: Floats, sums: Floats) -> None:
    """Add to `sums[k]` the vectors whose bits are set in `codes[:, k]`; `tables` is memory to work in."""
    for first in range(0, len(codes), TABLES):
        _tabulate(vectors[POINTS * first :], tables)
        codes_s, codes_t, codes_u, codes_v = codes[first], codes[first + 1], codes[first + 2], codes[first + 3]
        for k in range(len(sums)):
            s, t = tables[0, codes_s[k]], tables[1, codes_t[k]]
            u, v = tables[2, codes_u[k]], tables[3, codes_v[k]]
            own = sums[k]
            for j in range(len(own)):
                own[j] += (s[j] + t[j]) + (u[j] + v[j])


@jit
def _tabulate(vectors: Floats, tables: Floats) -> None:
    """`tables[q, c]`: the sum of the vectors of the q-th eight whose bits are set in `c`."""
    for q in range(len(tables)):
        table = tables[q]
        table[0] = 0
        for i in range(min(POINTS, len(vectors) - POINTS * q)):
            vector, half = vectors[POINTS * q + i], 1 << i
            for c in range(half):
                without, with_it = table[c], table[half + c]
                for j in range(len(vector)):
                    with_it[j] = without[j] + vector[j]
