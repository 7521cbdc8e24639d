"""Tiles over width, depth and seed: each count is that of a tiling."""

from itertools import product

import numpy as np
import pytest
import torch

import splinescope as ss
from splinescope.complexity import sweep_tiles
from splinescope.complexity.sweep_tiles import _relu_network

VIEW = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)


def test_every_count_is_that_of_its_network_and_drawn():
    state = torch.get_rng_state()
    found = sweep_tiles(VIEW, widths=(6, 3), depths=(1, 2), seeds=2, build=lambda *size: _relu_network(2, *size))
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(found.counts, sweep_tiles(VIEW, widths=(6, 3), depths=(1, 2), seeds=2).counts)
    for (i, width), (j, depth), seed in product(enumerate((6, 3)), enumerate((1, 2)), range(2)):
        assert found.counts[i, j, seed] == ss.tessellate(_relu_network(2, width, depth, seed), VIEW).count
    pytest.importorskip("matplotlib").use("Agg")
    lines = found.plot().lines
    assert [line.get_xdata().tolist() for line in lines] == [[3, 6], [3, 6]]
    assert lines[0].get_ydata().tolist() == np.median(found.counts[::-1, 0], axis=1).tolist()


@pytest.mark.parametrize("given", [{"widths": 4}, {"widths": ()}, {"widths": (4, 4)}, {"depths": (0,)}, {"seeds": 0}])
def test_bad_input_is_told(given):
    with pytest.raises(ss.InputError, match=f"{next(iter(given))} must be"):
        sweep_tiles(VIEW, **{"widths": (4,), **given})
