"""Stills of 3-D tilings, surfaces and unsafe sets, and the verb that makes surfaces."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import splinescope as ss
from splinescope.cli import main
from splinescope.guarantees import Property
from splinescope.plot.solid import plot_mesh
from tests.tiling.cells.test_solids import cube, plain_mlp

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def tiling() -> ss.Tiling:
    return ss.tessellate(plain_mlp(3, 8, 8, 2), cube(3, 1.0))


def test_cells_are_drawn_outside_only_or_all_pulled_apart(tiling: ss.Tiling) -> None:
    outside = tiling.plot("class")
    pulled = ss.plot.plot_cells(tiling, "slope", pull=0.5)
    walls = tiling.walls
    faces = [len(ax.collections[0].get_facecolor()) for ax in (outside, pulled)]
    assert faces == [(walls.cuts < 0).sum(), tiling.sides.sum()]
    assert pulled.get_xlim()[1] > outside.get_xlim()[1]
    assert pulled.get_zlabel()


def test_limits_are_those_of_the_cells_whatever_memory_holds(
    tiling: ss.Tiling, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ss.plot.plot_cells(tiling, pull=0.5).get_xlim()
    unset = SimpleNamespace(**{**vars(np), "empty": lambda shape: np.full(shape, 1.7e308)})  # what memory may hold
    monkeypatch.setattr("mpl_toolkits.mplot3d.art3d.np", unset)
    assert ss.plot.plot_cells(tiling, pull=0.5).get_xlim() == expected


def test_pictures_that_would_take_too_long_or_are_flat_are_refused(tiling: ss.Tiling) -> None:
    with pytest.raises(ss.InputError, match="max_faces"):
        ss.plot.plot_cells(tiling, pull=0.1, max_faces=10)
    with pytest.raises(ss.InputError, match="3-D axes"):
        ss.plot.plot_cells(tiling, ax=pyplot.subplots()[1])
    with pytest.raises(ss.InputError, match="order of x"):
        plot_mesh(tiling.level_set(0.0), axes="xx")
    with pytest.raises(ss.InputError, match="draws 3-D"):
        ss.plot.plot_cells(ss.tessellate(tiling.network, ss.Slice.axes(np.zeros(3), (0, 1), -1, 1)))


def test_the_verb_writes_mesh_picture_and_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trimesh")
    (tmp_path / "rings_for_tests.py").write_text("from tests.tiling.shapes3d import Torus\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["rings_for_tests:Torus", "--low", "-2", "--high", "2,2,2", "--quiet"]
    done = CliRunner().invoke(main, ["surface", *arguments, "--out", "ring.ply", "--plot", "ring.png", "--json"])
    assert done.exit_code == 0, done.output
    numbers = json.loads(done.stdout)
    assert numbers["certainty"] == "exact"
    assert numbers["closed"]
    assert numbers["euler"] == 0
    assert numbers["volume"] == pytest.approx(1.5)
    assert (tmp_path / "ring.ply").stat().st_size > 0
    assert (tmp_path / "ring.png").stat().st_size > 0
    for wrong, message in (
        (["--out", "ring.txt"], ".ply"),
        (["--low", "1,2"], "--low"),
        (["--plot", "a.gif"], "--plot"),
    ):
        refused = CliRunner().invoke(main, ["surface", *arguments, *wrong])
        assert refused.exit_code == 2
        assert message in refused.stderr


@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_every_polytope_is_drawn_in_the_frame_of_the_slice(inputs: int) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(inputs, 6), nn.ReLU(), nn.Linear(6, 1)).double()
    asked = Property.between(0, float(net(torch.zeros(1, inputs).double()).detach()))
    unsafe = ss.verify(net, asked, (-np.ones(inputs), np.ones(inputs)), complete=True).unsafe
    assert unsafe is not None
    assert len(unsafe) > 1
    ax = unsafe.plot(color="#ff0000")
    if inputs == 1:
        assert len(ax.patches) == len(unsafe)
    elif inputs == 2:
        assert len(ax.collections[0].get_paths()) == len(unsafe)
    else:
        assert len(ax.collections) == 1
        np.testing.assert_allclose(ax.get_zlim(), (-1, 1))
    np.testing.assert_allclose(ax.get_xlim(), (-1, 1))


def test_more_dimensions_are_sent_to_slices() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    unsafe = ss.verify(net, Property.between(0, 0.0), (-1.0, 1.0), complete=True).unsafe
    assert unsafe is not None
    with pytest.raises(ss.InputError, match="Slice of two or three"):
        unsafe.plot()
