"""Tiles over width, depth and seed: each count is that of a tiling."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope_research import sweep_tiles
from splinescope_research.sweep_tiles import relu_network

VIEW = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)


def test_every_count_is_that_of_its_network():
    state = torch.get_rng_state()
    found = sweep_tiles(VIEW, widths=(3, 6), depths=(1, 2), seeds=2, progress=False)
    assert torch.equal(torch.get_rng_state(), state)
    for (i, width), (j, depth), seed in product(enumerate((3, 6)), enumerate((1, 2)), range(2)):
        assert found.counts[i, j, seed] == ss.tessellate(relu_network(2, width, depth, seed), VIEW).count
        assert found.units[i, j] == width * depth
    assert found.certainty == "exact"
    assert "6" in found.summary().splitlines()[-2]


def test_a_builder_of_ones_own_is_asked_for_every_network():
    asked, told = [], []

    def build(width: int, depth: int, seed: int) -> nn.Module:
        asked.append((width, depth, seed))
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, 1)).eval()

    line = ss.Slice.segment([-9.0], [9.0])
    found = sweep_tiles(
        line, widths=[5], depths=[1], seeds=3, build=build, progress=lambda share, _: told.append(share)
    )
    assert asked == [(5, 1, 0), (5, 1, 1), (5, 1, 2)]
    assert found.counts.tolist() == [[[ss.tessellate(build(5, 1, seed), line).count for seed in range(3)]]]
    assert told[-1] == 1.0


def test_the_picture_has_a_line_for_each_depth():
    pytest.importorskip("matplotlib").use("Agg")
    found = sweep_tiles(VIEW, widths=(6, 3), depths=(1, 2), seeds=2, progress=False)
    ax = found.plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["1 layer", "2 layers"]
    assert ax.lines[0].get_xdata().tolist() == [3, 6]
    assert ax.lines[0].get_ydata().tolist() == np.median(found.counts[::-1, 0], axis=1).tolist()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"widths": 4}, "widths must be whole numbers"),
        ({"widths": ()}, "one or more different"),
        ({"widths": (4, 4)}, "one or more different"),
        ({"widths": (4,), "depths": (0,)}, "depths must be a whole number >= 1, got 0"),
        ({"widths": (4,), "seeds": 0}, "seeds must be a whole number >= 1"),
        ({"widths": (4,), "build": 3}, "build must be a function"),
        (
            {"widths": (4,), "build": lambda *_: {}},
            r"what build\(4, 1, 0\) returns must be a torch.nn.Module, got dict",
        ),
    ],
)
def test_bad_input_is_told(given, told):
    with pytest.raises(ss.InputError, match=told):
        sweep_tiles(VIEW, progress=False, **given)


def test_a_limit_stops_the_sweep():
    with pytest.raises(ss.LimitReached):
        sweep_tiles(VIEW, widths=(16,), depths=(2,), seeds=1, max_tiles=5, progress=False)
