"""How far the parts of tiles are from each other where as many folds cut them, and what that decides."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from splinescope.tiling import Slice
from splinescope_evidence.shared.divisions import LONG, Shape, distance, grid, matched
from splinescope_research.folds.subdivision import Level

VIEW = Slice.axes([0.5, -0.25], (0, 1), -2.0, 2.0)


def level(cuts: list[int], shares: list[float], parents: list[int]) -> Level:
    """Tiles with these numbers of cuts and parts; what is not compared is empty."""
    none = np.zeros(0)
    return Level(1, np.ones(len(cuts)), np.array(cuts), none, none, np.array(shares), np.array(parents), none)


def test_parts_are_compared_with_others_that_as_many_folds_cut() -> None:
    ours = level([1, 1, 2], [0.5, 1.5, 0.7, 1.3, 1.0, 1.0, 1.0], [0, 0, 1, 1, 2, 2, 2])
    others = level([1, 3], [0.5, 1.5, 0.4, 0.8, 1.2, 1.6], [0, 0, 1, 1, 1, 1])
    shares, weights, known = matched([ours], [others])
    assert sorted(shares) == [0.5, 0.7, 1.3, 1.5]  # no other is cut twice
    assert weights == pytest.approx([0.5, 0.5, 0, 0, 0, 0])
    assert distance(shares, weights, known) == pytest.approx(0.25)
    assert sorted(matched([ours], [others], more=1)[0]) == [1.0, 1.0, 1.0]  # as if cut three times


def test_with_equal_weights_the_distance_is_that_of_the_two_sample_test() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=70), rng.normal(0.3, 1, size=90)
    assert distance(a, np.full(90, 1 / 90), b) == pytest.approx(stats.ks_2samp(a, b).statistic)


@pytest.mark.parametrize(
    ("shape", "count", "area"), [("squares", 256, 1), ("triangles", 512, 0.5), ("rectangles", 32, LONG)]
)
def test_a_grid_has_equal_shapes(shape: Shape, count: int, area: float) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 1)).double()
    found = grid(net, VIEW, 16, shape)
    assert len(found.sizes) == count
    assert found.sizes**2 == pytest.approx(area * (4 / 16) ** 2)
    assert 0 < found.cuts.max() <= 5
