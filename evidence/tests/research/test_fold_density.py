"""Densities of folds: lengths add up, batch norm favors the data."""

import numpy as np
import pytest
import torch
from tests import cases
from torch import nn

import splinescope as ss
from splinescope.normalization import initialize_
from splinescope_research import fold_density


def blob() -> torch.Tensor:
    return 0.3 * torch.randn(60, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1.0


def test_lengths_in_cells_add_up_to_the_folds():
    density = fold_density(cases.model("two layers"), blob(), cases.view("two layers"), cells=20)
    lengths = cases.tiling("two layers").folds().lengths_by_layer()
    for depth, raster in density.rasters.items():
        assert raster.values.sum() == pytest.approx(lengths[depth], rel=1e-9)
    assert density.tiles == cases.tiling("two layers").count


def test_one_fold_has_the_ratio_computed_by_hand():
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -2.0, 2.0)
    at_line = fold_density(one_line(0.5), np.array([[0.6, 0.1], [0.6, 1.1]]), view, cells=4)
    assert at_line.rasters[1].values.tolist() == [[0, 0, 1, 0]] * 4
    assert at_line.ratio(1, near=0.6, far=1.5) == pytest.approx(7)  # 2 of 2 near cells, 1 of 7 far ones
    with pytest.raises(ss.InputError, match="depth"):
        at_line.ratio(2, near=0.6, far=1.5)
    with pytest.raises(ss.InputError, match="no cells"):
        at_line.ratio(1, near=1e-9, far=1.0)


def one_line(at: float, size: int = 2) -> nn.Sequential:
    """A single fold, the plane x_0 = at."""
    net = nn.Sequential(nn.Linear(size, 1), nn.ReLU()).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.eye(1, size))
        net[0].bias.fill_(-at)
    return net


def test_data_off_the_slice_are_as_far_as_they_are():
    view = ss.Slice.axes(np.zeros(3), (0, 1), -2.0, 2.0)
    on, above = np.array([[1.5, 0.0, 0.0]]), np.array([[-1.5, 0.0, 1.0]])
    here, there = (fold_density(one_line(at, 3), np.concatenate([on, above]), view, cells=16) for at in (1.5, -1.5))
    assert here.offsets.tolist() == [0.0, 1.0]
    assert here.ratio(1, near=0.5, far=2.0) == np.inf  # the fold through the datum on the slice
    assert there.ratio(1, near=0.5, far=1.2) < 0.01  # the fold under the other one: nothing near, something far
    assert there.ratio(1, near=1.1, far=1.5) > 1  # wide enough to reach it
    with pytest.raises(ss.InputError, match=r"distances from .* 0 on the slice, 1 off it by 1 to 1"):
        fold_density(one_line(1.5, 3), above, view, cells=16).ratio(1, near=0.5, far=2.0)


def test_near_is_measured_in_the_input_space_whatever_the_basis():
    data = np.array([[1.0, 0.0], [-1.0, 0.5], [0.3, -0.2], [0.7, 0.9]])
    unit = ss.Slice.axes([0.0, 0.0], (0, 1), -2.0, 2.0)
    stretched = ss.Slice(np.zeros(2), np.diag([4.0, 4.0]), unit.domain / 4)
    one, other = (fold_density(one_line(0.9), data, view, cells=32) for view in (unit, stretched))
    assert one.ratio(1, near=0.4, far=1.0) == pytest.approx(other.ratio(1, near=0.4, far=1.0))


def test_data_aware_folds_favor_the_data():
    torch.manual_seed(0)
    net = cases.mlp(2, 40, 40, 2).double()
    random = fold_density(net, blob(), cases.view("two layers"), cells=40)
    initialize_(net, blob())
    aware = fold_density(net, blob(), cases.view("two layers"), cells=40)
    for depth in (1, 2):
        assert aware.ratio(depth, near=0.2, far=1.0) > 2 * random.ratio(depth, near=0.2, far=1.0)


def test_bad_input_is_told():
    with pytest.raises(ss.InputError, match="x must have shape"):
        fold_density(cases.model("one layer"), np.zeros((3, 3)), cases.Square)
