"""Late tiles: what counts as peak, onset and end; the interval of a correlation over runs that share seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from splinescope.evidence.survey_migration import (
    end_over_peak,
    looked_at,
    peak_and_onset,
    rank_correlation_of_seeds,
    with_end,
)


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


def course(folds: list[float], accuracy: list[float] | None = None) -> dict[str, list[float]]:
    return {"lc": folds, "accuracy": accuracy or [0.1] + [1.0] * (len(folds) - 1)}


def test_a_spike_at_the_end_is_neither_the_end_nor_the_peak() -> None:
    """Ten folds go down to five; of nine looks at the end four are spikes of 30, at which the accuracy falls too."""
    spaced = [8.0, 9.0, 10.0, 10.0, 9.0, 8.0, 6.0]
    late, wrong = [5.0, 30.0, 5.0, 30.0, 5.0, 30.0, 5.0, 5.0, 30.0], [1.0, 0.7, 1.0, 0.7, 1.0, 0.7, 1.0, 1.0, 0.7]
    found = course(
        with_end([*spaced, *late], 7).tolist(),
        with_end([0.1, *[1.0] * 6, *wrong], 7).tolist(),
    )
    assert end_over_peak(found) == pytest.approx(0.5)
    learnt, peak, onset = peak_and_onset(found)
    assert learnt == 1
    assert peak in (2, 3)
    assert onset == 6  # medians of three: 8, 9, 10, 10, 9, 8, 6, 5


def test_a_spike_on_the_way_is_no_peak() -> None:
    assert end_over_peak(course([8.0, 9.0, 10.0, 10.0, 90.0, 9.0, 8.0])) == pytest.approx(0.8)


def test_folds_that_grow_to_the_end_are_more_than_at_the_peak() -> None:
    """One would be the end over itself."""
    found = course([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0])
    assert end_over_peak(found) > 1
    assert peak_and_onset(found)[2] == 6


def test_looks_are_spaced_by_logarithms_and_then_evenly() -> None:
    spaced, last = looked_at(20_000, 8)
    assert spaced[0] == 0
    assert spaced[-1] < 18_000
    assert last == list(range(18_000, 20_001, 250))
