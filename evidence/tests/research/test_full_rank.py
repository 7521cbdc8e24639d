"""Full rank, the odd point's layer and one unit per point: what Lemma 2 and Theorems 3, 13 and 14 say."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from splinescope.support.errors import InputError
from splinescope_research import (
    full_rank_width,
    invariant_representation,
    odd_point_step,
    one_unit_per_point_,
    sign_classes,
)
from splinescope_research.random_layers.full_rank import (
    expected_width_bound,
    new_direction_probability,
    width_tail_bounds,
)
from splinescope_research.random_layers.invariant import sample_odd_point_step


def circle(n: int) -> np.ndarray:
    turn = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


def test_lemma_2_a_new_row_leaves_any_subspace_with_probability_gamma() -> None:
    rng = np.random.default_rng(0)
    for n in (3, 4, 6):
        for _ in range(10):
            x = rng.standard_normal((n, rng.integers(2, 4)))
            classes = sign_classes(x)
            rows = np.maximum(rng.standard_normal((int(rng.integers(1, n)), x.shape[1])) @ x.T, 0)
            if not rows.any():
                continue
            probability = new_direction_probability(x, rows, classes)
            assert probability >= classes.gamma
            _, s, basis = np.linalg.svd(rows)
            outside = basis[int(np.sum(s > 1e-9)) :]
            fresh = np.maximum(rng.standard_normal((4000, x.shape[1])) @ x.T, 0)
            measured = np.mean(np.linalg.norm(fresh @ outside.T, axis=1) > 1e-9)
            assert abs(measured - probability) < 5 * math.sqrt(0.25 / 4000)


def test_theorem_3_mean_width_and_tail() -> None:
    x = circle(5)
    gamma = sign_classes(x).gamma
    measured = full_rank_width(x, draws=1000)
    assert measured.reached == 1
    assert measured.mean <= expected_width_bound(5, gamma)
    assert measured.mean == pytest.approx(5.39, abs=4 * measured.standard_error)
    for alpha in (1.5, 2.0, 3.0):
        tighter, looser = width_tail_bounds(5, gamma, alpha)
        assert np.mean(measured.widths > math.ceil(alpha * 5 / gamma)) <= tighter < looser


@pytest.mark.parametrize(
    "x",
    [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 1.0], [-1.0, -1.0], [0.0, 1.0], [0.0, -1.0], [1.0, 2.0], [-1.0, -2.0]]],
    ids=["collinear", "antipodal pairs"],
)
def test_collinear_points_never_reach_full_rank(x: list[list[float]]) -> None:
    assert full_rank_width(x, draws=10, limit=500).reached == 0


def test_corollary_4_batch_norm_needs_the_centered_points() -> None:
    shifted = circle(5) + 10.0
    assert full_rank_width(shifted, recenter=True, draws=600).mean == pytest.approx(5.4, abs=0.25)
    line = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])  # not collinear through 0, but centered they are
    assert full_rank_width(line, draws=10, limit=500).reached == 1
    assert full_rank_width(line, recenter=True, draws=10, limit=500).reached == 0


def test_theorem_13_the_expected_gram_is_invariant() -> None:
    for n in (3, 10, 50):
        x = invariant_representation(n)
        step = odd_point_step(x)
        assert np.allclose(step.gram[:n, :n], x @ x.T, atol=1e-14)
        assert step.distance == pytest.approx(math.sqrt(1 + 1 / (n - 1) ** 2))
        assert not step.contracts  # R < n/(n-1): the hypotheses of Theorem 14 exclude it
        assert step.gram[0, -1] == pytest.approx(0, abs=1e-15)


def test_theorem_13_sampled_layers_agree_and_the_expected_representation_does_not() -> None:
    n, width, draws = 10, 200, 2000
    sample = sample_odd_point_step(invariant_representation(n), width, draws, torch.Generator().manual_seed(0))
    squares = np.square(sample).sum(axis=2)
    assert squares[:, 0].mean() == pytest.approx(1, abs=5 * math.sqrt(5 / width / draws))
    assert squares[:, 1].mean() * (n - 1) ** 2 == pytest.approx(1, abs=5 * math.sqrt(5 / width / draws))
    assert not (sample[:, 0] * sample[:, 1]).any()  # orthogonal almost surely
    assert np.square(sample.mean(axis=0)[0]).sum() == pytest.approx(1 / math.pi, rel=0.05)


def test_theorem_14_cluster_contracts_when_the_odd_point_is_far() -> None:
    rng = np.random.default_rng(0)
    for n in (5, 10):
        for far, radius in itertools.product((1.05, 1.5, 3.0), (0.1, 1.0, 3.0)):
            cluster = radius * rng.standard_normal((n - 1, 6))
            direction = rng.standard_normal(6)
            odd = cluster.mean(axis=0) + far * n / (n - 1) * direction / np.linalg.norm(direction)
            step = odd_point_step(np.vstack([odd, cluster]))
            assert step.contracts
            assert np.nanmax(step.ratios) <= step.gain * (1 + 1e-12) < 1
            assert step.gram[0, 0] == pytest.approx(1)
            assert step.gram[-1, -1] == pytest.approx(1 / (n - 1) ** 2)


def test_theorem_14_fails_when_the_odd_point_is_near() -> None:
    cluster = 0.01 * np.random.default_rng(0).standard_normal((4, 3))
    step = odd_point_step(np.vstack([cluster.mean(axis=0) + np.array([0.56, 0, 0]), cluster]))
    assert not step.contracts
    assert np.nanmax(step.ratios) > 1


def test_one_unit_per_point_represents_the_points_by_the_identity() -> None:
    x = torch.randn(40, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = nn.functional.normalize(x - x.mean(dim=0))
    for fraction in (1.0, 0.5):
        layer = nn.Linear(10, 40).double()
        one_unit_per_point_(layer, x, center=False, fraction=fraction)
        assert torch.allclose(torch.relu(layer(x)), torch.eye(40, dtype=torch.float64), atol=1e-12)


def test_one_unit_per_point_refuses_hidden_points() -> None:
    with pytest.raises(InputError, match="point 1 is not"):
        one_unit_per_point_(nn.Linear(2, 3), torch.tensor([[2.0, 0.1], [1.0, 0.0], [-3.0, 1.0]]))
    with pytest.raises(InputError, match="must have a bias"):
        one_unit_per_point_(nn.Linear(2, 3, bias=False), torch.zeros(3, 2))
    with pytest.raises(InputError, match=r"\(3, 2\), got \(4, 2\)"):
        one_unit_per_point_(nn.Linear(2, 3), torch.zeros(4, 2))


def test_bad_arguments_are_named() -> None:
    with pytest.raises(InputError, match="draws must be a whole number"):
        full_rank_width(np.eye(2), draws=0)
    with pytest.raises(InputError, match=r"gamma must lie in \(0, 1/2\]"):
        expected_width_bound(5, 2.0)
    with pytest.raises(InputError, match="must share n"):
        new_direction_probability(np.eye(2), np.eye(3), sign_classes(np.eye(2)))
    with pytest.raises(InputError, match="alpha must be above 1"):
        width_tail_bounds(5, 0.1, 1.0)
    with pytest.raises(InputError, match="k must be a whole number >= 2"):
        invariant_representation(5, 1)
    with pytest.raises(InputError, match="must be a torch"):
        one_unit_per_point_(nn.ReLU(), torch.zeros(3, 2))  # type: ignore[arg-type]
