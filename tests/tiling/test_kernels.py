"""Laws of single kernels that no whole tiling shows reliably."""

import numpy as np

from splinescope.tiling import kernels
from splinescope.tiling.kernels import edges


def planes(signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Signs `[V, U]` as the two bit-planes."""
    pos, neg = (np.zeros((len(signs), -(-signs.shape[1] // 64)), np.uint64) for _ in range(2))
    for (v, k), sign in np.ndenumerate(signs):
        plane = pos if sign > 0 else neg
        if sign:
            plane[v, k // 64] |= np.uint64(1) << np.uint64(k % 64)
    return pos, neg


def test_a_new_vertex_is_exactly_zero_where_it_has_no_sign():
    """A unit that is zero within the tolerance at a new vertex counts as zero: its fold passes through it. If the
    rounding were kept, later cuts along the same unit would miss the vertex by a hair."""
    cuts = np.array([[3.0, -1.0, 2.0], [-1.0, 1.0, 4.0]])  # of the parents
    weights = np.array([[1.0, 0.0], [0.0, 1.0], [0.25, 0.75]])
    parents = np.array([[0, 0], [1, 1], [0, 1]], np.int32)
    exact = weights[2] @ cuts
    np.testing.assert_array_equal(exact, [0.0, 0.5, 3.5])
    cuts[0, 0] += 1e-14  # unit 0 is not quite zero at the new vertex, but has no sign there
    pos, neg = planes(np.array([[1, -1, 1], [-1, 1, 1], [0, 1, 1]]))
    new_cuts, filled = np.full((1, 3), np.nan), np.zeros((1, 1), np.bool_)
    edges.fill(2, 0, parents, weights, pos, neg, cuts, new_cuts, filled)
    np.testing.assert_array_equal(new_cuts[0], exact)
    assert filled[0, 0]


def test_signs_are_those_beyond_the_tolerance():
    cuts = np.array([[2e-12, 1e-12, 0.0, -1e-12, -2e-12]])
    pos, neg = (np.full((1, 1), 77, np.uint64) for _ in range(2))
    kernels.sign_bits(cuts, np.full(5, 1e-12), 0, 1, pos, neg)
    assert (int(pos[0, 0]), int(neg[0, 0])) == (0b00001, 0b10000)
