"""Several slices at once are the slices one by one; a module that has changed is tiled as it is."""

import copy
import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import splinescope as ss
from splinescope.tiling import tessellate_each
from tests.tiling.same import assert_same

SQUARE = ss.Slice.axes([0.0, 0.0], (0, 1), -2.0, 2.0)
LINE = ss.Slice.segment([-1.0, 0.5], [1.0, -0.5])
VIEWS = [SQUARE, LINE, ss.Slice.axes([0.3, 0.0], (0, 1), -1.0, 0.5)]


@pytest.fixture
def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 6), nn.ReLU(), nn.Linear(6, 2))


@pytest.fixture
def smooth() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).double()


def test_several_slices_are_the_slices_one_by_one(net: nn.Sequential) -> None:
    told: list[tuple[float, str]] = []
    found = tessellate_each(net, VIEWS, threads=1, progress=lambda share, now: told.append((share, now)))
    assert told[-1] == (1.0, "3 of 3 slices")
    for view, tiling in zip(VIEWS, found, strict=True):
        assert_same(tiling, ss.tessellate(net, view, threads=1))
        assert tiling.check().ok


def test_smooth_networks_keep_their_tolerance_on_every_slice(smooth: nn.Sequential) -> None:
    for view, tiling in zip(VIEWS, tessellate_each(smooth, VIEWS, tolerance=0.1), strict=True):
        wanted = ss.tessellate(smooth, view, tolerance=0.1)
        assert_same(tiling, wanted)
        assert tiling.approximation.bound == wanted.approximation.bound <= 0.1


def test_what_goes_wrong_on_a_slice_says_on_which(net: nn.Sequential) -> None:
    few = ss.tessellate(net, LINE).count
    with pytest.raises(ss.LimitReached, match=r"slice 2 of 2: max_tiles=") as reached:
        tessellate_each(net, [LINE, SQUARE], max_tiles=few)
    assert not reached.value.partial.complete
    assert reached.value.partial.dimension == 2
    with pytest.raises(ss.InputError, match=r"slice 1 of 2: rtol must be"):
        tessellate_each(net, [LINE, SQUARE], rtol=-1.0)


def test_lists_that_are_none_are_refused(net: nn.Sequential) -> None:
    other = ss.Slice.axes([0.0, 0.0, 0.0], (0, 1), -1.0, 1.0)
    for views, words in (
        (SQUARE, "list of at least one Slice, got Slice"),
        ([], "at least one Slice"),
        ([SQUARE, "plane"], "got str as number 2"),
        ([SQUARE, other], "one input space.*number 2"),
    ):
        with pytest.raises(ss.InputError, match=words):
            tessellate_each(net, views)
    for wrong in ("tolerence", "out"):
        with pytest.raises(ss.InputError, match=rf"options must be of tolerance, rtol, .*, got {wrong}\."):
            tessellate_each(net, VIEWS, **{wrong: 1})
    with pytest.raises(ss.InputError, match="tessellate_each"):
        ss.tessellate(net, VIEWS)


def test_a_changed_module_is_read_anew() -> None:
    """More than weights may change between two tilings: a layer, its slope, the mode of a batch norm."""
    module = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1)).eval()
    ss.tessellate(module, SQUARE)
    module[2] = nn.LeakyReLU(0.3)
    assert_same(ss.tessellate(module, SQUARE), ss.tessellate(copy.deepcopy(module), SQUARE))
    module[2].negative_slope = 0.5
    assert_same(ss.tessellate(module, SQUARE), ss.tessellate(copy.deepcopy(module), SQUARE))
    module.train()
    with pytest.raises(ss.UnsupportedModelError, match="eval"):
        ss.tessellate(module, SQUARE)


class Corner(nn.Module):
    settings = types.ModuleType("settings")

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 4), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        signs = x.new_tensor(self.settings.signs)
        return self.last(F.relu(self.first(x))) + F.relu((x * signs).sum(1, keepdim=True) - self.settings.far)


def test_a_change_in_any_one_corner_of_a_view_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    module = Corner().double().eval()
    for corner in SQUARE.domain:
        size = np.linalg.norm(corner)
        monkeypatch.setattr(Corner.settings, "signs", tuple(corner / size), raising=False)
        monkeypatch.setattr(Corner.settings, "far", 0.9997 * size, raising=False)
        ss.tessellate(module, SQUARE)
        monkeypatch.setattr(Corner.settings, "far", 0.996 * size)
        tiling = ss.tessellate(module, SQUARE)
        outputs = module(torch.tensor(SQUARE.inputs(tiling.vertices))).detach().numpy()
        np.testing.assert_allclose(outputs, tiling.values, atol=1e-12)
