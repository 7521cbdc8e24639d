"""Late tiles: what counts as peak, onset and end, and as going to the boundary; correlations over runs of one seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from splinescope_evidence import Verdict
from splinescope_evidence.shared.boundary import inside_classes, on_boundary
from splinescope_evidence.survey.questions.migration import (
    HIDDEN,
    _gather,
    end_over_peak,
    gathered,
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
    learned, peak, onset = peak_and_onset(found)
    assert learned == 1
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


def test_points_of_the_boundary_are_where_two_classes_meet_and_the_others_midway_inside_one() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 4)).double()
    x = 3 * torch.randn(40, 3, dtype=torch.float64)
    y = model(x).argmax(1)
    points = on_boundary(model, x)
    assert len(points) == int((y[1:] != y[:-1]).sum()) > 5
    best = model(points).detach().topk(2).values
    torch.testing.assert_close(best[:, 0], best[:, 1], atol=1e-4, rtol=0)
    assert len(on_boundary(model, x[y == y[0]])) == 0

    places = torch.tensor([[0.0], [10.0], [4.0], [12.0], [6.0]])
    assert inside_classes(places, torch.tensor([0, 1, 0, 1, 0])).flatten().tolist() == [2, 5, 11]


def tracks(data: float, boundary: float, at: dict[str, float], seed: int) -> dict[str, list]:
    """Ten folds near every point until the end; by which factors distances and folds are others then."""
    drift = 1 + 0.01 * seed
    found: dict[str, list] = {"accuracy": [0.1] + [1.0] * 6}
    for place in ("lc", "lc at boundary", "lc inside"):
        found[place] = [5.0, 9.0, 10.0, 10.0, 10.0, 9.0, 10.0 * at[place] * drift]
    for what, factor in (("to_data", data), ("to_boundary", boundary)):
        found[what] = [[0.1 * (layer + 1) * (factor * drift if i == 6 else 1) for layer in range(HIDDEN)]
                       for i in range(7)]  # fmt: skip
    return found


TO_BOUNDARY = {"data": 4.0, "boundary": 0.5, "at": {"lc": 0.4, "lc at boundary": 1.5, "lc inside": 0.5}}
AWAY = {"data": 4.0, "boundary": 2.0, "at": {"lc": 0.4, "lc at boundary": 0.5, "lc inside": 0.5}}
STAYING = {"data": 1.0, "boundary": 0.5, "at": {"lc": 1.0, "lc at boundary": 1.0, "lc inside": 1.0}}


def test_end_over_peak_of_distances_and_of_folds_at_places() -> None:
    found = tracks(**TO_BOUNDARY, seed=0)
    assert gathered(found, "lc at boundary") == pytest.approx(1.5)
    assert gathered(found, "lc at boundary", "lc") == pytest.approx(1.5 / 0.4)


@pytest.mark.parametrize(
    ("course", "verdicts"),
    [
        (TO_BOUNDARY, (Verdict.HOLDS, Verdict.HOLDS)),
        # off the data and off everything else: the boundary is no more than what is left over
        (AWAY, (Verdict.HOLDS, Verdict.FAILS)),
        (STAYING, (Verdict.FAILS, Verdict.FAILS)),
    ],
    ids=["to the boundary", "off everything", "staying"],
)
def test_folds_that_leave_everything_alike_do_not_go_to_the_boundary(course: dict, verdicts: tuple) -> None:
    runs = {arm: [tracks(**course, seed=seed) for seed in range(5)] for arm in ("squared", "cross-entropy")}
    claims = (
        _gather("lc", "", runs, "", []),
        _gather("lc inside", "", runs, "", []),
    )
    assert tuple(claim.verdict for claim in claims) == verdicts
