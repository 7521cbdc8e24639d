from collections.abc import Callable
from functools import partial

import pytest
import torch

from splinescope import InputError
from splinescope.meanfield import Data, GaussianInputs
from splinescope.meanfield.data import as_covariance

SIGMA = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64)


def test_uncentered_data_is_refused_or_centered_as_asked() -> None:
    x = torch.randn(30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 5
    y = torch.zeros(30)
    with pytest.raises(InputError, match='center="center"'):
        Data.of(x, y)
    data = Data.of(x, y, center="center")
    assert data.x.mean(0).abs().max() < 1e-14
    assert torch.allclose(data.covariance, torch.cov(x.T, correction=0), rtol=1e-12)


def test_centering_is_judged_by_the_spread_and_the_precision_of_the_data() -> None:
    x = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x -= x.mean(0)
    y = torch.zeros(1000)
    for scale in (1e-9, 1.0, 1e9):
        assert Data.of(scale * x, y).x.shape == x.shape
        with pytest.raises(InputError, match="mean zero"):
            Data.of(scale * (x + 1e-3), y)
    rounded = (100 * x + 7).float()
    rounded -= rounded.mean(0)
    assert Data.of(rounded, y).x.dtype == torch.float32


def test_data_without_variance_in_a_direction_is_refused() -> None:
    with pytest.raises(InputError, match="positive definite"):
        Data.of([[1.0, 2.0], [-1.0, -2.0], [3.0, 6.0], [-3.0, -6.0]], [0, 0, 0, 0])


@pytest.mark.parametrize(
    ("x", "y", "weights", "words"),
    [
        ([[1.0], [-1.0]], [1.0], None, r"y must have shape \(2,\)"),
        ([1.0, -1.0], [1.0, 1.0], None, r"shape \(N, d\)"),
        ([[1.0], [-1.0]], [1.0, 1.0], [0.5, 0.6], "probabilities"),
        ([[1.0], [float("nan")]], [1.0, 1.0], None, "x must be finite"),
        ([[1.0, 0.0], [-1.0]], [1.0, 1.0], None, "x must be numbers"),
        ([[1.0], [-1.0]], ["a", "b"], None, "y must be numbers"),
        (torch.tensor([[1.0], [-1.0]]).half(), [1.0, 1.0], None, "x must be float32 or float64"),
        ([[1.0j], [-1.0j]], [1.0, 1.0], None, "x must be float32 or float64"),
    ],
)
def test_bad_data_is_refused(x: object, y: object, weights: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Data.of(x, y, weights=weights)


def test_quadrature_is_exact_for_polynomials() -> None:
    data = GaussianInputs(SIGMA).quadrature(lambda x: x[:, 0] ** 2 * x[:, 1] ** 2, order=6)
    # Isserlis: E x1^2 x2^2 = s11 s22 + 2 s12^2
    assert (data.weights @ data.y).item() == pytest.approx(2 * 1 + 2 * 0.25, rel=1e-13)
    assert torch.allclose((data.weights[:, None] * data.x).T @ data.x, SIGMA, rtol=1e-13)


def test_matched_sample_has_the_moments_of_the_population() -> None:
    generator = torch.Generator().manual_seed(0)
    data = GaussianInputs(SIGMA).sample(50, lambda x: x[:, 0], generator=generator)
    assert data.x.mean(0).abs().max() < 1e-14
    assert torch.allclose(data.x.T @ data.x / 50, SIGMA, rtol=1e-12)


def test_gaussian_refuses_what_it_cannot_do() -> None:
    with pytest.raises(InputError, match="at most 4"):
        GaussianInputs(torch.eye(5)).quadrature(lambda x: x[:, 0])
    with pytest.raises(InputError, match="exceed the dimension"):
        GaussianInputs(SIGMA).sample(2, lambda x: x[:, 0])
    with pytest.raises(InputError, match="count must be a whole number"):
        GaussianInputs(SIGMA).sample(10.5, lambda x: x[:, 0])
    with pytest.raises(InputError, match="order must be a whole number"):
        GaussianInputs(SIGMA).quadrature(lambda x: x[:, 0], order=0)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (lambda x: x[:, :1], r"one number per row, shape \(9,\), got \(9, 1\)"),
        (lambda x: x[:3, 0], r"got \(3,\)"),
        (lambda x: x[:, 0].log(), "finite"),
        (lambda x: "sin", "must be numbers"),
    ],
)
def test_bad_targets_are_refused(target: Callable[[torch.Tensor], object], words: str) -> None:
    for make in (partial(GaussianInputs(SIGMA).sample, 9), partial(GaussianInputs(SIGMA).quadrature, order=3)):
        with pytest.raises(InputError, match=words):
            make(target)


def test_a_batch_normalizes_itself() -> None:
    data = GaussianInputs(SIGMA).sample(50, lambda x: x[:, 0], generator=torch.Generator().manual_seed(0))
    part = data.batch(torch.arange(10))
    assert part.x.mean(0).abs().max() < 1e-14
    assert torch.allclose(part.covariance, torch.cov(data.x[:10].T, correction=0))


@pytest.mark.parametrize(
    ("covariance", "words"),
    [
        ([[1.0, 0.0], [0.0, 0.0]], "positive definite"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive definite"),
        ([[1.0, 0.5], [0.0, 1.0]], "symmetric"),
        ([[1.0, 0.0]], r"shape \(d, d\)"),
        ([[float("nan")]], "finite"),
    ],
)
def test_bad_covariances_are_refused(covariance: list[list[float]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        as_covariance(covariance)
