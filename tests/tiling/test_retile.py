"""Tilings made again and again equal those made once."""

from __future__ import annotations

import functools
import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import splinescope as ss
from tests.tiling.same import assert_same


@pytest.fixture(scope="module")
def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 2))


SQUARE = ss.Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)


def test_every_tiling_is_that_of_the_weights_of_the_moment(net: nn.Sequential) -> None:
    retiler = ss.tiling.Retiler(net, SQUARE)
    seen = []
    for _ in range(3):
        tiling = retiler.tile()
        assert_same(tiling, ss.tessellate(net, SQUARE))
        seen.append(tiling.fingerprint)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.data.mul_(1.1)  # behind autograd's back, as optimisers written by hand do
    assert len(set(seen)) == 3


def test_another_window_is_tiled_as_if_it_were_the_first(net: nn.Sequential) -> None:
    retiler = ss.tiling.Retiler(net, SQUARE)
    retiler.tile()
    for corner in (-2.0, -1.9, 0.5):
        window = ss.Slice.axes([0.0, 0.0], (0, 1), corner, corner + 2.0)
        assert_same(retiler.tile(window), ss.tessellate(net, window))
    assert_same(retiler.tile(), ss.tessellate(net, SQUARE))


def test_limits_hold_for_every_tiling(net: nn.Sequential) -> None:
    with pytest.raises(ss.LimitReached) as caught:
        ss.tiling.Retiler(net, SQUARE, max_tiles=3).tile()
    assert not caught.value.partial.complete


def test_a_slice_of_another_space_is_refused(net: nn.Sequential) -> None:
    with pytest.raises(ss.InputError, match="does not take the slice's inputs"):
        ss.tiling.Retiler(net, SQUARE).tile(ss.Slice.axes([0.0, 0.0, 0.0], (0, 1), -1.0, 1.0))
    with pytest.raises(ss.InputError, match="view must be a Slice"):
        ss.tiling.Retiler(net, "square")  # type: ignore[arg-type]


def test_smooth_networks_are_tiled_within_the_tolerance() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 5), nn.GELU(), nn.Linear(5, 2)).double()
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)
    retiler = ss.tiling.Retiler(net, view, tolerance=0.1)
    before = retiler.tile()
    with torch.no_grad():
        net[0].bias.add_(0.4)
    after = retiler.tile()
    assert before.approximation is not None
    assert after.approximation is not None
    assert after.bound <= 0.1
    assert np.array_equal(after.vertices, ss.tessellate(net, view, tolerance=0.1).vertices)
    assert not np.array_equal(after.vertices, before.vertices)


def test_a_changed_module_is_read_anew_and_refused_where_tessellate_refuses_it(net: nn.Sequential) -> None:
    """More than weights may change between two tilings: a layer, its slope, the mode of a batch norm."""
    module = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1)).eval()
    retiler = ss.tiling.Retiler(module, SQUARE)
    retiler.tile()
    module[2] = nn.LeakyReLU(0.3)
    assert_same(retiler.tile(), ss.tessellate(module, SQUARE))
    module[2].negative_slope = 0.5
    assert_same(retiler.tile(), ss.tessellate(module, SQUARE))
    module.train()
    with pytest.raises(ss.UnsupportedModelError, match="eval"):
        retiler.tile()


class Hidden(nn.Module):
    """Its second layer is in a list that torch does not know, its slope in a function, its scale in another module."""

    settings = types.ModuleType("settings")

    def __init__(self) -> None:
        super().__init__()
        self.first, self.blocks = nn.Linear(2, 8), [nn.Linear(8, 2)]
        self.bend = functools.partial(F.leaky_relu, negative_slope=0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks[0](self.bend(self.first(x) - self.settings.scale))


def test_a_change_that_no_structure_shows_is_seen_as_tessellate_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hidden.settings, "scale", 0.0, raising=False)
    torch.manual_seed(0)
    module = Hidden().double().eval()
    module.blocks[0].double()
    retiler = ss.tiling.Retiler(module, SQUARE)

    def follows() -> None:
        tiling = retiler.tile()
        outputs = module(torch.tensor(SQUARE.inputs(tiling.vertices))).detach().numpy()
        np.testing.assert_allclose(outputs, tiling.values, atol=1e-12)

    follows()
    with torch.no_grad():
        module.blocks[0].weight.mul_(3)
    follows()
    module.bend.keywords["negative_slope"] = -0.9
    follows()
    monkeypatch.setattr(Hidden.settings, "scale", 0.5)
    follows()


class Corner(nn.Module):
    settings = types.ModuleType("settings")

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 4), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        signs = x.new_tensor(self.settings.signs)
        return self.last(F.relu(self.first(x))) + F.relu((x * signs).sum(1, keepdim=True) - self.settings.far)


def test_a_change_in_any_one_corner_of_a_view_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 2 * np.pi * np.arange(24) / 24
    round_view = ss.Slice([0.0, 0.0], np.eye(2), 3 * np.stack([np.cos(turns), np.sin(turns)], 1))
    torch.manual_seed(0)
    module = Corner().double().eval()
    for view, corners in ((round_view, round_view.domain[::9]), (SQUARE, SQUARE.domain)):
        for corner in corners:
            size = np.linalg.norm(corner)
            monkeypatch.setattr(Corner.settings, "signs", tuple(corner / size), raising=False)
            monkeypatch.setattr(Corner.settings, "far", 0.9997 * size, raising=False)
            ss.tessellate(module, view)
            monkeypatch.setattr(Corner.settings, "far", 0.996 * size)
            tiling = ss.tessellate(module, view)
            outputs = module(torch.tensor(view.inputs(tiling.vertices))).detach().numpy()
            np.testing.assert_allclose(outputs, tiling.values, atol=1e-12)


@pytest.mark.parametrize("bad", [{"threads": 0}, {"max_tiles": -1}, {"rtol": 5}, {"time_limit": -1.0}])
def test_bad_options_are_refused_at_once(net: nn.Sequential, bad: dict[str, float]) -> None:
    with pytest.raises(ss.InputError, match=next(iter(bad))):
        ss.tiling.Retiler(net, SQUARE, **bad)
