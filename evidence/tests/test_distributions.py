"""Distances of distributions between depths and between networks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from splinescope_evidence.framework.experiment import Verdict
from splinescope_evidence.shared.distributions import alike, ks


def test_the_distance_is_that_of_the_two_sample_test() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=80), rng.integers(0, 3, 50).astype(float)
    assert ks(a, b) == pytest.approx(stats.ks_2samp(a, b).statistic)
    assert ks(b, b) == 0
    assert np.isnan(ks(a, a[:0]))


@pytest.mark.parametrize(
    ("depths", "verdict"),
    [(0.03, Verdict.HOLDS), (0.06, Verdict.INCONCLUSIVE), (0.1, Verdict.FAILS), (np.nan, Verdict.INCONCLUSIVE)],
)
def test_depths_are_alike_if_they_differ_as_two_networks_do(depths: float, verdict: Verdict) -> None:
    rng = np.random.default_rng(1)
    rows = {
        kind: [
            {"sides, depths": [depths + rng.normal(0, 0.01)] * 2, "sides, networks": [0.04 + rng.normal(0, 0.01)] * 3}
            for _ in range(8)
        ]
        for kind in ("one", "two")
    }
    assert alike(rows, "sides", "Sides").verdict == verdict
