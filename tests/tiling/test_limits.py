"""Limits hold, and what they leave are finished tiles: by counted work and a clock that the test moves."""

import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.support.compile import notice
from splinescope.tiling.engine.advance import Engine
from splinescope.tiling.engine.time_limit import Clock

SQUARE = ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3)


def mlp(width: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, 1),
    )  # fmt: skip


def cnn() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2)
    ).double()


def images(dimension: int, spread: float) -> ss.Slice:
    random = np.random.default_rng(0)
    corners = np.array(list(product((0.0, 1.0), repeat=dimension)))
    corners = corners[[0, 2, 3, 1]] if dimension == 2 else corners
    return ss.Slice(random.random((1, 8, 8)), spread * random.standard_normal((dimension, 1, 8, 8)), corners)


def limited(*arguments, **options) -> tuple[ss.Tiling, str]:
    with pytest.raises(ss.LimitReached) as caught:
        ss.tessellate(*arguments, progress=False, **options)
    assert not caught.value.partial.complete
    report = caught.value.partial.check()
    assert report.ok
    assert any("incomplete" in sentence for sentence in report.skipped)
    return caught.value.partial, str(caught.value)


def places(tiling: ss.Tiling) -> set[tuple[float, ...]]:
    return {tuple(row) for row in np.round(np.column_stack([tiling.centroids(), tiling.areas]), 9) + 0.0}


@pytest.mark.parametrize(("most", "threads", "width"), [(1, 1, 24), (40, 1, 24), (1500, 2, 64)])
@pytest.mark.parametrize("rows", ["plain", "factored"])
def test_a_limit_on_tiles_leaves_that_many(most: int, threads: int, width: int, rows: str) -> None:
    partial, said = limited(mlp(width), SQUARE, max_tiles=most, threads=threads, rows=rows)
    assert partial.count == most
    whole = ss.tessellate(mlp(width), SQUARE)
    assert f"max_tiles={most} reached: the slice has at least " in said
    assert int(said.split("at least ")[1].split()[0]) < whole.count  # the work stopped there
    assert places(partial) <= places(whole)


@pytest.mark.parametrize(("dimension", "spread"), [(1, 5.0), (2, 0.7), (3, 0.15)])
def test_beside_a_max_what_is_left_are_whole_tiles(dimension: int, spread: float) -> None:
    """Pieces whose tile goes on beyond what is finished are no tiles."""
    view = images(dimension, spread)
    whole = ss.tessellate(cnn(), view)
    for share in (0.1, 0.3, 0.6):
        partial, _ = limited(cnn(), view, max_tiles=int(share * whole.count), threads=1)
        assert 0 < partial.count <= share * whole.count
        assert places(partial) <= places(whole)


@pytest.mark.parametrize(("dimension", "spread"), [(2, 0.7), (3, 0.15)])
def test_beside_a_max_a_limit_on_tiles_leaves_some(dimension: int, spread: float) -> None:
    """The first pieces there are no whole tiles yet."""
    partial, _ = limited(cnn(), images(dimension, spread), max_tiles=2, threads=1)
    assert 0 < partial.count <= 2


def test_time_that_went_into_compiling_is_told(seconds: list[float], monkeypatch) -> None:
    seconds[1] = 1.0
    advance = Engine.advance

    def compiled(*arguments):
        monkeypatch.setattr(notice, "seconds", notice.seconds + 0.5)
        return advance(*arguments)

    monkeypatch.setattr(Engine, "advance", compiled)
    _, said = limited(mlp(64), SQUARE, time_limit=3.0, threads=1)
    assert "s of it compiling kernels, once on this machine" in said


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock: every piece that is cut takes `seconds[1]`, ten times as much before the last fold."""
    now = [0.0, 0.0]
    advance = Engine.advance

    def timed(engine, chunk, *arguments):
        results = advance(engine, chunk, *arguments)
        if len(results) == 1:
            now[0] += now[1] * results[0].count * (10 if chunk.stage == len(engine._plan.folds) - 1 else 1)
        return results

    monkeypatch.setattr(Engine, "advance", timed)
    monkeypatch.setattr(Clock, "now", staticmethod(lambda: now[0]))
    return now


@pytest.mark.parametrize("limit", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("case", ["mlp", "cnn"])
def test_a_time_limit_holds_and_leaves_tiles(seconds: list[float], limit: float, case: str) -> None:
    model, view = (mlp(64), SQUARE) if case == "mlp" else (cnn(), images(2, 1.0))
    seconds[1] = 0.002
    partial, said = limited(model, view, time_limit=limit, threads=1)
    assert f"time_limit={limit} s reached" in said
    assert 0.99 * limit < seconds[0] <= limit + max(1.0, 0.1 * limit)
    assert partial.count > 0


@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"workers": 1}, {"out": "tiles.safetensors"}])
@pytest.mark.parametrize("case", ["mlp", "cnn"])
def test_tiles_are_returned_however_late_the_first_ones_come(
    seconds: list[float], tmp_path: Path, case: str, options: dict[str, Any]
) -> None:
    """Loading kernels and planning count too: each step here takes longer than all of the time."""
    model, view = (mlp(64), SQUARE) if case == "mlp" else (cnn(), images(2, 5.0))
    seconds[1] = 100.0
    if "out" in options:
        options = {"out": tmp_path / options["out"]}
    partial, said = limited(model, view, time_limit=0.1, **options)
    assert "time_limit=0.1 s reached" in said
    assert partial.count > 0
    assert not list(tmp_path.iterdir())


def test_a_search_that_may_find_nothing_ends_in_time(seconds: list[float]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    seconds[1] = 100.0
    with pytest.raises(ss.LimitReached, match=r"time_limit=0\.1 s reached"):
        ss.space.level_set(net, (-1.0, 1.0), time_limit=0.1)
    assert seconds[0] <= 100.0 * 16


@pytest.mark.parametrize("most", [1, 7, 100])
def test_a_limit_on_tiles_holds_for_parts(most: int) -> None:
    """Parts are joined before anyone knows how many tiles they have together."""
    whole = ss.tessellate(mlp(12), SQUARE)
    assert whole.count > 100
    partial, said = limited(mlp(12), SQUARE, max_tiles=most, workers=1)
    assert 0 < partial.count <= most
    assert f"max_tiles={most} reached" in said


def test_time_that_reading_the_network_took_leaves_some_for_the_first_tiles(seconds: list[float], monkeypatch) -> None:
    """Reading cannot be stopped: a limit that is over by then leaves tiles all the same."""
    program = ss.SplineNetwork.program

    def slow(network, *replace):
        seconds[0] += 10.0
        return program(network, *replace)

    monkeypatch.setattr(ss.SplineNetwork, "program", slow)
    seconds[1] = 0.001
    partial, _ = limited(mlp(64), SQUARE, time_limit=1.0, threads=1)
    assert partial.count > 0
    assert seconds[0] % 10.0 <= 1.0


def test_a_time_limit_leaves_the_time_that_joining_the_tiles_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1))
    view = ss.Slice.axes(np.zeros(3), (0, 1, 2), -2.0, 2.0)
    monkeypatch.setattr(
        sys.modules["splinescope.tiling.tessellate"], "_SECONDS_TO_JOIN", 1e3
    )  # an hour is over after two tiles
    with pytest.raises(ss.LimitReached, match="time_limit") as reached:
        ss.tessellate(model, view, time_limit=3600.0, threads=1)
    assert 0 < reached.value.partial.count < ss.tessellate(model, view).count
