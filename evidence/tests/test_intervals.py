"""How far intervals over networks lie from a law: by their nearer end to refute it, by the farther one to hold."""

from __future__ import annotations

import numpy as np
import pytest

from splinescope_evidence.essay.jitter import _surely_off
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.survey.figures.fig10 import _off


def test_the_wider_an_interval_the_less_it_holds_and_the_less_it_refutes() -> None:
    narrow, wide = (-1.02 + spread * np.array([-1.0, 0.0, 1.0]) for spread in (0.001, 0.1))
    near, far = (_off(list(values), -1.0) for values in (narrow, wide))
    assert near[1] < far[1]
    assert near[0] > 0 > far[0]  # -1 is surely missed by the narrow one alone
    low, high = interval(wide)
    assert far == pytest.approx((-1 - high, -1 - low))  # the law lies nearer to the upper end


def test_a_ratio_is_surely_off_where_one_of_several_is_and_they_share_the_chance() -> None:
    off = 1.2 + 0.01 * np.array([-1.0, 0.0, 1.0])
    alone, beside = _surely_off(off[:, None]), _surely_off(np.stack([off, 2 - off, np.ones(3)], 1))
    assert 0 < beside < alone < 0.2
    assert _surely_off(np.array([[0.9], [1.0], [1.1]])) < 0
