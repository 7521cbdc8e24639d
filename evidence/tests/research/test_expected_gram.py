"""Expected Gram matrices against sampled layers."""

import itertools
import math

import numpy as np
import pytest

from splinescope import InputError
from splinescope_research import expected_gram
from splinescope_research.random_layers.expected_gram import arc_cosine, follow_expected_gram

CHOICES = [c for k in range(4) for c in itertools.combinations(("rc", "rs", "nl"), k)]


@pytest.mark.parametrize("spread", ["std", "rms"])
@pytest.mark.parametrize("components", CHOICES, ids="+".join)
def test_expected_gram_is_the_mean_over_random_units(components: tuple[str, ...], spread: str) -> None:
    rng = np.random.default_rng(0)
    n, draws = 8, 200_000
    x = rng.standard_normal((n, 5)) + 0.5
    z = rng.standard_normal((draws, 5)) @ x.T
    centered = z - z.mean(axis=1, keepdims=True)
    if "rc" in components:
        z = centered
    if "rs" in components:
        z = z / np.sqrt(np.mean((centered if spread == "std" else z) ** 2, axis=1, keepdims=True))
    if "nl" in components:
        z = np.maximum(z, 0)
    products = z[:, :, None] * z[:, None, :]
    error = np.abs(products.mean(axis=0) - expected_gram(x @ x.T, components, spread=spread))
    assert (error < 5.5 * products.std(axis=0) / math.sqrt(draws) + 1e-12).all()  # 64 entries: 5.5 standard errors


def test_rescaling_fixes_the_trace() -> None:
    g = np.diag([1.0, 1e-3, 1e3, 1.0])
    assert np.trace(expected_gram(g, ("rc", "rs"))) == pytest.approx(4, abs=1e-11)
    assert np.trace(expected_gram(g, ("rs", "nl"), spread="rms")) == pytest.approx(2, abs=1e-11)


def test_rescaling_by_a_spread_that_is_often_zero_has_no_expectation() -> None:
    with pytest.raises(InputError, match="infinite"):
        expected_gram(np.eye(3), ("rs",))


@pytest.mark.parametrize("n", [5, 9, 10])
def test_batch_norm_drives_all_angles_to_one_value(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 20))
    gram, _ = follow_expected_gram(x @ x.T, 60, ("rc", "rs", "nl"))
    cosine = (gram / np.sqrt(np.outer(np.diagonal(gram), np.diagonal(gram))))[np.triu_indices(n, 1)]
    assert np.allclose(cosine, arc_cosine(-1 / (n - 1)), atol=1e-8)


def test_no_layer_leaves_the_gram_with_trace_one() -> None:
    gram, log_scale = follow_expected_gram(2 * np.eye(3), 0)
    assert np.allclose(math.exp(log_scale) * gram, 2 * np.eye(3))
    assert np.trace(gram) == pytest.approx(1)


def test_arc_cosine_kernel_ends_and_middle() -> None:
    assert arc_cosine([-1.0, 0.0, 1.0]) == pytest.approx([0, 1 / math.pi, 1], abs=1e-15)


def test_bad_grams_are_named() -> None:
    with pytest.raises(InputError, match=r"shape \(n, n\)"):
        expected_gram(np.zeros((2, 3)))
    with pytest.raises(InputError, match="symmetric"):
        expected_gram(np.array([[1.0, 2.0], [0.0, 1.0]]))
    with pytest.raises(InputError, match="positive semi-definite"):
        expected_gram(np.array([[1.0, 2.0], [2.0, 1.0]]), ("nl",))
    with pytest.raises(InputError, match="layers must be a whole number"):
        follow_expected_gram(np.eye(3), -1)
