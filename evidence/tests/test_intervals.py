"""How far intervals over networks lie from a law: by their nearer end to refute it, by the farther one to hold."""

from __future__ import annotations

import numpy as np
import pytest

from splinescope_evidence.essay.jitter import _nearer_end
from splinescope_evidence.shared.intervals import interval, median_interval
from splinescope_evidence.survey.figures.fig10 import _off


def test_the_wider_an_interval_the_less_it_holds_and_the_less_it_refutes() -> None:
    narrow, wide = (-1.02 + spread * np.array([-1.0, 0.0, 1.0]) for spread in (0.001, 0.1))
    near, far = (_off(list(values), -1.0) for values in (narrow, wide))
    assert near[1] < far[1]
    assert near[0] > 0 > far[0]  # only the narrow one leaves -1 out
    low, high = interval(wide)
    assert far == pytest.approx((-1 - high, -1 - low))  # the law lies nearer to the upper end


def test_a_ratio_is_nearer_end_where_one_of_several_is_and_they_share_the_chance() -> None:
    off = 1.2 + 0.01 * np.array([-1.0, 0.0, 1.0])
    alone, beside = _nearer_end(off[:, None]), _nearer_end(np.stack([off, 2 - off, np.ones(3)], 1))
    assert 0 < beside < alone < 0.2
    assert _nearer_end(np.array([[0.9], [1.0], [1.1]])) < 0


def test_the_interval_for_a_median_covers_it_as_often_as_it_says_and_outlives_divergence() -> None:
    draws = np.random.default_rng(0).exponential(size=(4000, 24))
    ends = np.array([median_interval(row) for row in draws])
    covered = float(np.mean((ends[:, 0] < np.log(2)) & (np.log(2) < ends[:, 1])))
    assert 0.965 < covered < 0.99  # 97.7% with 24 values
    assert np.isfinite(median_interval([*range(20), *[np.inf] * 4])).all()
    assert median_interval(range(5)) == (-np.inf, np.inf)
