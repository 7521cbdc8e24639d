"""The interval of a correlation over runs that share seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from splinescope.evidence.survey_migration import rank_correlation_of_seeds


def test_copies_of_a_run_tell_nothing_new() -> None:
    rng = np.random.default_rng(3)
    known, onset = rng.normal(size=(2, 1, 7))
    once = rank_correlation_of_seeds(known, onset + known, 0.95)
    copied = rank_correlation_of_seeds(np.repeat(known, 3, 0), np.repeat(onset + known, 3, 0), 0.95)
    assert copied == pytest.approx(once, abs=1e-12)
    assert once[0] == pytest.approx(stats.spearmanr(known[0], (onset + known)[0]).statistic)


def test_the_interval_meets_an_absent_correlation_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        # arms that start alike: a seed's own part is nine tenths of the variance in every arm
        known, onset = (3 * rng.normal(size=(1, 8)) + rng.normal(size=(3, 8)) for _ in range(2))
        _, low, high = rank_correlation_of_seeds(known, onset, 0.95)
        hits += low <= 0 <= high
    assert 0.90 <= hits / 400 <= 0.99
