"""Densities of folds: lengths add up, known planes are counted, batch norm favors the data."""

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.normalization import fold_density, initialize_
from splinescope.normalization.density import fold_counts
from splinescope.normalization.fold_distances import point_distances

from .. import cases


def blob() -> torch.Tensor:
    return 0.3 * torch.randn(60, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1.0


def test_lengths_in_cells_add_up_to_the_folds():
    density = fold_density(cases.model("two layers"), blob(), cases.view("two layers"), cells=20)
    lengths = cases.tiling("two layers").folds().lengths_by_layer()
    for depth, raster in density.rasters.items():
        assert raster.values.sum() == pytest.approx(lengths[depth], rel=1e-9)
    assert density.tiles == cases.tiling("two layers").count


def test_one_fold_has_the_ratio_computed_by_hand():
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU()).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0]]))
        net[0].bias.fill_(-0.5)  # the line x = .5
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -2.0, 2.0)
    at_line = fold_density(net, np.array([[0.6, 0.1], [0.6, 1.1]]), view, cells=4)
    assert at_line.rasters[1].values.tolist() == [[0, 0, 1, 0]] * 4
    assert at_line.ratio(1, near=0.6, far=1.5) == pytest.approx(7)  # 2 of 2 near cells, 1 of 7 far ones
    with pytest.raises(ss.InputError, match="depth"):
        at_line.ratio(2)
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
    """The shadow of a far point does not make the cells under it near."""
    view = ss.Slice.axes(np.zeros(3), (0, 1), -2.0, 2.0)
    on, above = np.array([[1.5, 0.0, 0.0]]), np.array([[-1.5, 0.0, 1.0]])
    here, there = (fold_density(one_line(at, 3), np.concatenate([on, above]), view, cells=16) for at in (1.5, -1.5))
    assert here.offsets.tolist() == [0.0, 1.0]
    assert here.ratio(1, near=0.5, far=2.0) == np.inf  # the fold through the datum on the slice
    assert there.ratio(1, near=0.5, far=1.2) < 0.01  # the fold under the other one: nothing near, something far
    assert there.ratio(1, near=1.1, far=1.5) > 1  # wide enough to reach it
    assert "1 on the slice, 1 off it by 1 to 1" in here.summary()
    with pytest.raises(ss.InputError, match=r"distances from .* 0 on the slice, 1 off it by 1 to 1"):
        fold_density(one_line(1.5, 3), above, view, cells=16).ratio(1, near=0.5, far=2.0)


def test_near_is_measured_in_the_input_space_whatever_the_basis():
    data = np.array([[1.0, 0.0], [-1.0, 0.5], [0.3, -0.2], [0.7, 0.9]])
    unit = ss.Slice.axes([0.0, 0.0], (0, 1), -2.0, 2.0)
    stretched = ss.Slice(np.zeros(2), np.diag([4.0, 4.0]), unit.domain / 4)
    one, other = (fold_density(one_line(0.9), data, view, cells=32) for view in (unit, stretched))
    assert one.ratio(1, near=0.4, far=1.0) == pytest.approx(other.ratio(1, near=0.4, far=1.0))
    assert (
        one.spacing == pytest.approx(other.spacing) == pytest.approx(np.median([1.17, 0.922, 0.728, 0.728]), rel=1e-1)
    )
    assert one.ratio(1) == pytest.approx(one.ratio(1, near=one.spacing, far=2 * one.spacing))


def test_data_aware_folds_favor_the_data_and_are_counted_alike():
    torch.manual_seed(0)
    net = cases.mlp(2, 40, 40, 2).double()
    random = fold_density(net, blob(), cases.view("two layers"), cells=40)
    initialize_(net, blob())
    aware = fold_density(net, blob(), cases.view("two layers"), cells=40)
    for depth in (1, 2):
        assert aware.ratio(depth, near=0.2, far=1.0) > 2 * random.ratio(depth, near=0.2, far=1.0)


def test_counts_are_those_of_the_planes_within_reach():
    """In the first layer a fold meets the ball iff its distance is below the radius."""
    net, x = cases.model("one layer"), blob()[:20]
    distances = point_distances(net, x)[0]
    counts = fold_counts(net, x, radius=0.4, directions=400, generator=torch.Generator().manual_seed(0))[1]
    assert (counts <= (distances < 0.4).sum(1)).all()
    assert (counts >= (distances < 0.4 * 0.99).sum(1)).all()  # 800 points leave caps below 1 % of the radius


def test_a_fold_around_the_center_is_counted():
    """|x| + |y| = 0.1 is a closed fold: the unit has one sign on the sphere of radius 1 and the other at its center."""
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1), nn.ReLU()).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]]))
        net[0].bias.zero_()
        net[2].weight.fill_(1.0)
        net[2].bias.fill_(-0.1)
    assert fold_counts(net, np.zeros((1, 2)), radius=1.0)[2].tolist() == [1]
    assert fold_counts(net, np.full((1, 2), 5.0), radius=1.0)[2].tolist() == [0]


def test_counts_without_a_generator_are_comparable_and_leave_the_global_one():
    net, state = cases.model("one layer"), torch.get_rng_state()
    first, second = (fold_counts(net, blob(), radius=0.2, directions=2)[1] for _ in range(2))
    assert (first == second).all()
    assert torch.equal(state, torch.get_rng_state())


def test_bad_input_is_told():
    with pytest.raises(ss.InputError, match="x must have shape"):
        fold_density(cases.model("one layer"), np.zeros((3, 3)), cases.Square)
    with pytest.raises(ss.InputError, match="radius"):
        fold_counts(cases.model("one layer"), blob(), radius=0.0)
