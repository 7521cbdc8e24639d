"""Quality measures against cases whose value is known."""

from __future__ import annotations

import math

import pytest
import torch

import splinescope as ss
from splinescope.generative import class_histogram, fidelity, frechet_distance


def points(n: int, seed: int) -> torch.Tensor:
    return torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))


def test_same_law_scores_high_and_a_far_one_zero() -> None:
    same = fidelity(points(500, 0), points(500, 1))
    assert min(same.precision, same.recall, same.coverage) > 0.9
    assert 0.8 < same.density < 1.2
    far = fidelity(points(500, 0), points(500, 1) + 100)
    assert (far.precision, far.recall, far.density, far.coverage) == (0, 0, 0, 0)


def test_one_mode_of_two_is_precise_with_half_recall() -> None:
    real = torch.cat([points(400, 0), points(400, 1) + 50])
    one = fidelity(real, points(800, 2))
    assert one.precision > 0.9
    assert abs(one.recall - 0.5) < 0.1
    assert abs(one.coverage - 0.5) < 0.1


def test_fidelity_counts_by_hand() -> None:
    """Real points 0, 1, 3 on a line, k = 1: balls of radius 1, 1, 2."""
    real = torch.tensor([[0.0], [1.0], [3.0]])
    samples = torch.tensor([[0.5], [4.5], [9.0]])
    found = fidelity(real, samples, k=1)
    # 0.5 lies in two balls, 4.5 in one, 9 in none; sample balls have radius 4, 4, 4.5
    assert found.precision == pytest.approx(2 / 3)
    assert found.density == pytest.approx(3 / 3)
    assert found.coverage == 1.0
    assert found.recall == 1.0


def test_frechet_distance_of_gaussians_is_the_formula() -> None:
    x = points(20_000, 0).double() @ torch.tensor([[1.0, 0.3], [0.0, 0.5]]).double()
    y = points(20_000, 1).double() * 2 + torch.tensor([1.0, -1.0])
    first, second = torch.cov(x.T), torch.cov(y.T)
    root = torch.linalg.eigvals(first @ second).sqrt().real.sum()
    expected = float((x.mean(0) - y.mean(0)).square().sum() + first.trace() + second.trace() - 2 * root)
    assert frechet_distance(x, y) == pytest.approx(expected, rel=1e-9)
    assert frechet_distance(x, x) == pytest.approx(0, abs=1e-9)
    halved = frechet_distance(x, y, features=lambda data: data / 2)
    assert halved == pytest.approx(expected / 4, rel=1e-9)


def test_class_histogram_has_the_entropy_of_its_shares() -> None:
    found = class_histogram(torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0]]), lambda x: x)
    assert found.shares.tolist() == [0.5, 0.5, 0.0]
    assert found.entropy == pytest.approx(math.log(2))
    assert found.balance == pytest.approx(math.log(2) / math.log(3))


def test_bad_input_is_refused() -> None:
    with pytest.raises(ss.InputError, match="one size"):
        fidelity(torch.zeros(5, 2), torch.zeros(5, 3))
    with pytest.raises(ss.InputError, match=r"k must be in \[1, 4\]"):
        fidelity(torch.zeros(5, 2), torch.zeros(5, 2), k=5)
    with pytest.raises(ss.InputError, match="at least 2 rows"):
        frechet_distance(torch.zeros(1, 2), torch.zeros(5, 2))
    with pytest.raises(ss.InputError, match="scores of shape"):
        class_histogram(torch.zeros(5, 2), lambda x: x[:, 0])
    with pytest.raises(ss.InputError, match="at least one row"):
        class_histogram(torch.zeros(0, 2), lambda x: x)


def test_measures_refuse_values_that_are_not_finite() -> None:
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    for measure in (fidelity, frechet_distance):
        with pytest.raises(ss.InputError, match="samples must be finite"):
            measure(x, x / 0.0)
    with pytest.raises(ss.InputError, match="finite scores"):
        class_histogram(x * torch.nan, lambda scores: scores)
