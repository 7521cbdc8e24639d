"""Laws of single kernels that no whole tiling shows reliably."""

import numpy as np

from splinescope.tiling import kernels
from splinescope.tiling.kernels import edge_vertices


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
    edge_vertices.fill(2, 0, parents, weights, pos, neg, cuts, new_cuts, filled)
    np.testing.assert_array_equal(new_cuts[0], exact)
    assert filled[0, 0]


def test_signs_are_those_beyond_the_tolerance():
    cuts = np.array([[2e-12, 1e-12, 0.0, -1e-12, -2e-12]])
    pos, neg = (np.full((1, 1), 77, np.uint64) for _ in range(2))
    kernels.sign_bits(cuts, np.full(5, 1e-12), 0, 1, pos, neg)
    assert (int(pos[0, 0]), int(neg[0, 0])) == (0b00001, 0b10000)


def test_an_edge_is_cut_once_however_many_meet_in_its_vertex():
    """Neighbors of a vertex lie side by side in the table up to some number, the others elsewhere in it."""
    star = 100  # edges from one vertex, where the unit is -1, to others where it is 1
    old, room = star + 1, 3 * star + 1  # for each edge twice
    cuts = np.where(np.arange(old) == star, -1.0, 1.0)[:, None]
    pos, neg = (np.concatenate([plane, np.zeros((2 * star, 1), np.uint64)]) for plane in planes(np.sign(cuts)))
    names, points = np.arange(1, room + 1, dtype=np.uint64), np.arange(float(room))[:, None]
    table = np.zeros((512, 2), np.uint64)
    rest = (np.empty((room, 2), np.int32), np.empty((room, 2)), pos, neg, cuts, np.empty((2 * star, 1)))
    made = []
    for vertex in [*range(star), *range(star)]:
        ends = (vertex, star) if len(made) < star else (star, vertex)
        count = old + len(set(made))
        arrays = (names, points, *rest, np.zeros((2 * star, 1), np.bool_), np.full(1, 1e-12), table)
        made.append(edge_vertices.cut_edge(*ends, 0, 0, count, *arrays))
    assert made == 2 * list(range(old, old + star))
    np.testing.assert_array_equal(points[old : old + star, 0], (np.arange(star) + star) / 2)


def test_names_are_mixed_alike_in_python_and_in_compiled_code() -> None:
    for a, b, unit in ((1, 2**33, 0), (2**64 - 1, 2**63 + 5, 10**6), (123456789, 987654321, 77)):
        assert kernels.mix_in_python(a, b, unit) == int(kernels.mix(np.uint64(a), np.uint64(b), unit))
