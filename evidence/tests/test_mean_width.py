"""The mean width of a ReLU layer's image, which an experiment measures, against a grid."""

from __future__ import annotations

import numpy as np
import pytest

from splinescope_evidence.decomposed.mean_width import _widths


def test_mean_widths_are_those_of_a_fine_grid() -> None:
    """The exact maximum over the disc, arc by arc, against 100,000 directions."""
    rng = np.random.default_rng(0)
    turn = np.linspace(0, 2 * np.pi, 100_000)
    for _ in range(5):
        weight, g = rng.standard_normal((7, 2)), rng.standard_normal(7)
        before = weight @ np.array([np.cos(turn), np.sin(turn)])
        linear, bent = _widths(weight, g)
        assert linear == pytest.approx((g @ before).max(), rel=1e-8)
        grid = max(0.0, (g @ np.maximum(before, 0)).max())
        assert grid <= bent + 1e-12
        assert bent == pytest.approx(grid, rel=1e-4)  # a kink lies between two directions of the grid
