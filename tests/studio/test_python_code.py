"""The Python that the microscope gives makes the picture that is shown, whatever was opened and however it is cut."""

import shutil

import numpy as np
import pytest

from splinescope.studio.jobs import Job
from splinescope.studio.library import EXAMPLE, Library
from splinescope.studio.microscope import Microscope

AXES = {"kind": "axes", "axes": [0, 1], "low": -1, "high": 1}
THROUGH = {"kind": "through", "rows": [2, 0, 5]}
POINT = {"kind": "point", "of": THROUGH, "at": [0.1, -0.2], "half": 0.5, "seed": 4}
RANDOM = {"kind": "random", "half": 0.5, "seed": 3}
TILING = "<img src=x onerror=alert(1)>.tiling"
SHOWN = [
    ("first.onnx", AXES, None, None),
    ("first.onnx", AXES, [-0.5, -0.4, 0.1, 0.2], None),
    ("second.onnx", THROUGH, None, None),
    ("first.onnx", POINT, [-0.1, -0.1, 0.1, 0.2], None),
    ("solid.onnx", RANDOM, None, None),
    ("solid.onnx", {**AXES, "axes": [0, 1, 2]}, None, None),
    ("hand.nnet", AXES, None, None),
    ("ranges.nnet", {"kind": "axes", "axes": [1, 2], "low": [-3, 0], "high": 3, "center": [500, 0, 2]}, None, None),
    ("run/step-10.safetensors", AXES, None, None),
    ("run", THROUGH, None, None),
    ("run", THROUGH, None, 1),
    ("life.timeline", None, None, 2),
    (TILING, None, None, None),
    (EXAMPLE, THROUGH, None, None),
    ("upload/mine.onnx", AXES, None, None),
]


@pytest.fixture(scope="module")
def lens(shelf, tmp_path_factory):
    uploads = tmp_path_factory.mktemp("uploads")
    shutil.copy(shelf / "second.onnx", uploads / "mine.onnx")
    return Microscope(Library(shelf, uploads, "lens_models:small"))


@pytest.mark.parametrize(("name", "cut", "window", "moment"), SHOWN)
def test_the_code_makes_the_tiles_that_are_shown(lens, shelf, tmp_path, monkeypatch, name, cut, window, moment):
    monkeypatch.chdir(shelf)  # where the studio was started
    monkeypatch.syspath_prepend(shelf)
    if name.startswith("upload/"):  # the reader's own file is where the reader is
        shutil.copy(shelf / "second.onnx", tmp_path / "mine.onnx")
        monkeypatch.chdir(tmp_path)
    kept, message = {}, {"pane": "a", "name": name, "slice": cut, "window": window}
    if moment is None:
        lens.tile(kept, Job(), message)
    else:
        lens.timeline(kept, Job(), message)
        lens.moment(kept, Job(), {**message, "index": moment})
    code = lens.code(kept, Job(), {**message, "moment": moment, "color": "slope"})["code"]
    names = {}
    exec(compile(code.replace('"microscope.png"', repr(str(tmp_path / "code.png"))), "microscope", "exec"), names)
    assert np.array_equal(names["tiling"].vertices, kept["a"][-1][1].vertices)
    assert (tmp_path / "code.png").stat().st_size > 5_000


@pytest.mark.parametrize(("color", "lines"), [("class", 0), ("folds", 2)])
def test_the_code_draws_what_is_ticked(lens, shelf, tmp_path, monkeypatch, color, lines):
    monkeypatch.chdir(shelf)
    kept, message = {}, {"pane": "a", "name": "first.onnx", "slice": AXES, "window": None}
    lens.tile(kept, Job(), message)
    boundary = color == "folds"
    code = lens.code(kept, Job(), {**message, "color": color, "walls": False, "boundary": boundary})["code"]
    names = {}
    exec(compile(code.replace('"microscope.png"', repr(str(tmp_path / "code.png"))), "microscope", "exec"), names)
    assert sum(not len(each.get_facecolor()) for each in names["ax"].collections) == lines
