"""Several slices at once are the slices one by one, whoever tiles them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.tiling import several, tessellate_each
from tests.tiling.engine.test_workers import in_this_process
from tests.tiling.same import assert_same

VIEWS = [
    ss.Slice.axes([0.0, 0.0], (0, 1), -2.0, 2.0),
    ss.Slice.segment([-1.0, 0.5], [1.0, -0.5]),
    ss.Slice.axes([0.3, 0.0], (0, 1), -1.0, 0.5),
]


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 6), nn.ReLU(), nn.Linear(6, 2))


def assert_equal(made: ss.Tiling, wanted: ss.Tiling) -> None:
    assert_same(made, wanted)
    assert (made.complete, made.sites) == (wanted.complete, wanted.sites)
    np.testing.assert_array_equal(made.slopes(), wanted.slopes())


def test_several_slices_are_the_slices_one_by_one(
    model: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)  # which sends and reads what processes would
    one_by_one = [ss.tessellate(model, view, threads=1) for view in VIEWS]
    told: list[tuple[float, str]] = []
    here = tessellate_each(model, VIEWS, threads=1, progress=lambda share, now: told.append((share, now)))
    shared = tessellate_each(model, VIEWS, workers=2, folder=tmp_path)
    assert told[-1] == (1.0, "3 of 3 slices")
    for wanted, *made in zip(one_by_one, here, shared, strict=True):
        for tiling in made:
            assert_equal(tiling, wanted)
            assert tiling.check().ok


def test_a_second_run_makes_only_what_is_missing(
    model: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    first = tessellate_each(model, VIEWS, workers=2, folder=tmp_path)
    next(tmp_path.glob("slice2of3-*.safetensors")).unlink()
    made = []
    work = several._arrays_of_one
    monkeypatch.setattr(several, "_arrays_of_one", lambda *item: made.append(item[2]) or work(*item))
    again = tessellate_each(model, VIEWS, workers=2, folder=tmp_path)
    assert made == ["slice 2 of 3"]
    for a, b in zip(first, again, strict=True):
        assert_equal(a, b)
    with torch.no_grad():
        next(model.parameters()).mul_(1.5)
    tessellate_each(model, VIEWS, workers=2, folder=tmp_path)
    assert len(made) == 4, "another network is another work"


def test_smooth_networks_keep_their_tolerance_on_every_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    in_this_process(monkeypatch)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    for view, tiling in zip(VIEWS, tessellate_each(model, VIEWS, workers=2, tolerance=0.1), strict=True):
        wanted = ss.tessellate(model, view, tolerance=0.1)
        assert_equal(tiling, wanted)
        assert tiling.approximation.bound == wanted.approximation.bound <= 0.1


@pytest.mark.parametrize("workers", [None, 2])
def test_what_goes_wrong_on_a_slice_says_on_which(
    workers: int | None, model: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    few = ss.tessellate(model, VIEWS[1]).count
    views = [VIEWS[1], VIEWS[0]]
    folder = None if workers is None else tmp_path
    with pytest.raises(ss.LimitReached, match=r"slice 2 of 2: max_tiles=") as reached:
        tessellate_each(model, views, workers=workers, folder=folder, max_tiles=few)
    assert not reached.value.partial.complete
    assert reached.value.partial.dimension == 2
    assert workers is None or [file.name[:9] for file in tmp_path.iterdir()] == ["slice1of2"]
    with pytest.raises(ss.InputError, match=r"slice 1 of 2: rtol must be"):
        tessellate_each(model, views, workers=workers, rtol=-1.0)


def test_lists_that_are_none_are_refused(model: nn.Module) -> None:
    other = ss.Slice.axes([0.0, 0.0, 0.0], (0, 1), -1.0, 1.0)
    for views, words in (
        (VIEWS[0], "list of at least one Slice, got Slice"),
        ([], "at least one Slice"),
        ([VIEWS[0], "plane"], "got str as number 2"),
        ([VIEWS[0], other], "one input space.*number 2"),
    ):
        with pytest.raises(ss.InputError, match=words):
            tessellate_each(model, views)
    with pytest.raises(ss.InputError, match="out belongs to one slice"):
        tessellate_each(model, VIEWS, out="a.tiling")
    with pytest.raises(ss.InputError, match=r"options must be of tolerance, rtol, .*, got tolerence\."):
        tessellate_each(model, VIEWS, tolerence=1)
    with pytest.raises(ss.InputError, match="needs workers"):
        tessellate_each(model, VIEWS, folder="parts")
    with pytest.raises(ss.InputError, match="tessellate_each"):
        ss.tessellate(model, VIEWS)
