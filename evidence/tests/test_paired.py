"""How paired comparisons are judged, and how statistics and loss are drawn apart."""

import numpy as np
import pytest
import torch

from splinescope_evidence import Verdict
from splinescope_evidence.shared.intervals import interval, ratio_interval
from splinescope_evidence.shared.normalization import moons_network, normalized_by, paired


def test_a_gain_is_judged_by_its_interval_over_seeds() -> None:
    """t = 3 is p = .10 with 3 seeds and p = .015 with 10: the same effect is open with few seeds."""
    few = np.array([1.0, 2.0, 3.0]) - 2 + np.sqrt(3)
    assert paired("text", "what", few).verdict == Verdict.INCONCLUSIVE
    many = np.linspace(-1, 1, 10)
    many = many + 3 * many.std(ddof=1) / np.sqrt(10)
    assert paired("text", "what", many).verdict == Verdict.HOLDS
    assert paired("text", "what", -many).verdict == Verdict.FAILS


def test_intervals_cover_the_mean_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    covered = np.mean([low < 0.3 < high for low, high in (interval(0.3 + rng.standard_normal(5)) for _ in range(2000))])
    assert covered == pytest.approx(0.95, abs=0.015)
    assert interval([1.0]) == (-np.inf, np.inf)
    low, high = ratio_interval([2.0, 8.0, 4.0])
    assert np.sqrt(low * high) == pytest.approx(4.0)


def test_statistics_of_the_same_batch_are_those_of_torch() -> None:
    torch.manual_seed(0)
    net, x = moons_network(8).double().train(), torch.randn(20, 2, dtype=torch.float64)
    torch.testing.assert_close(normalized_by(net, x, x), net(x))
    torch.testing.assert_close(normalized_by(net, x[:5], x), net(x)[:5])
