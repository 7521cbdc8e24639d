"""The interval model is the literal tree, at any depth; Theorems 10 and 11 with their corrected constants."""

import math

import numpy as np
import pytest

from splinescope import InputError
from splinescope_research import tree_representation
from splinescope_research.random_layers.tree_model import three_cluster_depth_bound, tree_gram, tree_rows


def batches() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    random = [rng.standard_normal(n) for n in (2, 3, 5, 8, 13)]
    tied = [rng.integers(0, 3, n).astype(float) for n in (4, 7, 12)]
    special = [
        np.array([0.0, 1.0]),
        np.arange(9.0),
        np.array([-1.0, 0.0, 0.0, 1.0]),
        1e8 + np.arange(6.0) ** 2,
    ]
    return [*random, *tied, *special]


@pytest.mark.parametrize("x", batches(), ids=lambda x: f"n{len(x)}")
def test_intervals_give_the_literal_gram_matrix(x: np.ndarray) -> None:
    tree = tree_representation(x, 0)
    for depth in range(13):
        rows = tree_rows(x, depth)
        expected = rows.T @ rows
        scaled = tree.gram() * math.exp(2 * tree.log_scale)
        # entries of size 1e8 carry rounding 1e-8 relative to their differences, which is what the rows hold
        tolerance = 1e-13 if abs(x).max() < 1e3 else 1e-7
        assert np.abs(scaled - expected).max() <= tolerance * np.abs(expected).max()
        sizes = [len(np.unique(row.round(9))) for row in rows] if tolerance < 1e-7 else []
        assert tree.cluster_counts() == {k: sizes.count(k) for k in sorted(set(sizes))} or not sizes
        assert (tree.depth, sum(tree.cluster_counts().values())) == (depth, 2**depth)
        tree = tree.advance()


def test_advancing_in_steps_is_advancing_at_once() -> None:
    x = np.random.default_rng(1).standard_normal(20)
    at_once = tree_representation(x, 300)
    in_steps = tree_representation(x, 10).advance(100).advance(190)
    assert np.allclose(at_once.angles(), in_steps.angles(), atol=1e-5)  # arccos near 1 keeps half of the digits
    assert at_once.log_scale + np.log(at_once.norms()) == pytest.approx(in_steps.log_scale + np.log(in_steps.norms()))


def test_a_hundred_thousand_layers_of_a_hundred_points_stay_finite() -> None:
    tree = tree_representation(np.random.default_rng(0).standard_normal(100), 100_000)
    assert np.isfinite(tree.gram()).all()
    assert tree.log_scale < -500


def test_theorem_10_three_clusters_from_the_bounded_depth_on() -> None:
    rng = np.random.default_rng(0)
    for n in (4, 5, 10, 20):
        for _ in range(20):
            x = rng.standard_normal(n)
            tree = tree_representation(x, three_cluster_depth_bound(x))
            assert max(tree.cluster_counts()) <= 3


def test_theorem_11_limits_with_sharp_constants() -> None:
    rng = np.random.default_rng(0)
    for n in (5, 10, 30):
        x = np.sort(rng.standard_normal(n))
        gram = tree_representation(x, 1).gram()
        assert gram[0, -1] == 0  # item 1, from the first layer on
        tree = tree_representation(x, 40 * n)
        angles, norms = tree.angles(), tree.norms()
        assert angles[0, -1] == 90
        assert angles[1:-1, 1:-1].max() < 1e-4  # item 2
        first, last = (tree.upper + tree.lower)[[0, -1]]
        q = min(first / last, last / first)
        ratio = norms[1:-1].max() / norms.max()
        assert ratio == pytest.approx(math.sqrt((1 + q) / ((n - 1) ** 2 + q)), rel=1e-12)  # item 3, sharp
        deviation = 90 - angles[norms.argmax(), n // 2]
        assert deviation <= math.degrees(math.asin(1 / math.sqrt(2 * ((n - 1) ** 2 + 1)))) + 1e-9  # item 4, sharp


def test_theorem_11_angles_contract_at_the_predicted_rate() -> None:
    n = 10
    tree = tree_representation(np.random.default_rng(3).standard_normal(n), 120)
    order = np.argsort(tree.values)
    angle = [t.angles()[order[1], order[-2]] for t in (tree, tree.advance(40))]
    assert (angle[1] / angle[0]) ** (1 / 40) == pytest.approx(
        math.sqrt((n * n - 4 * n + 8) / (n * n - 2 * n + 2)), rel=1e-3
    )


def test_vectors_add_the_gram_matrices_of_their_coordinates() -> None:
    x = np.random.default_rng(0).standard_normal((6, 3))
    x[:, 1] = 1.0  # constant: nothing is left after recentering
    gram, log_scale = tree_gram(x, 5)
    expected = sum(rows.T @ rows for rows in (tree_rows(x[:, c], 5) for c in (0, 2)))
    assert np.allclose(gram * math.exp(2 * log_scale), expected, rtol=1e-12)


def test_bad_batches_are_named() -> None:
    with pytest.raises(InputError, match="two distinct numbers"):
        tree_representation([1.0, 1.0], 3)
    with pytest.raises(InputError, match="at most 20"):
        tree_rows([0.0, 1.0], 21)
    with pytest.raises(InputError, match=r"shape \(n,\)"):
        tree_representation(np.zeros((2, 2)), 1)
    with pytest.raises(InputError, match="depth must be a whole number"):
        tree_representation([0.0, 1.0], 1.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="finite"):
        tree_representation([0.0, 1.0, float("nan")], 1)
    for scale in (1e-300, 1e300):  # squared lengths would be 0 or infinite
        with pytest.raises(InputError, match="rescale"):
            tree_representation([0.0, scale, 3 * scale], 1)
    with pytest.raises(InputError, match=r"shape \(n,\)"):
        three_cluster_depth_bound(np.eye(2))
