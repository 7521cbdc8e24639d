"""What is in the studio's folder, or sent to it: a bad file is named and harms nothing else."""

import shutil

import numpy as np
import pytest

import splinescope as ss
from splinescope.studio.jobs import Job
from splinescope.studio.library import EXAMPLE, Library
from splinescope.studio.microscope import Microscope
from splinescope.studio.tables import read_rows


@pytest.fixture
def library(shelf, tmp_path):
    given, uploads = tmp_path / "given", tmp_path / "uploads"
    uploads.mkdir()
    given.mkdir()
    shutil.copy(shelf / "first.onnx", given / "net.onnx")
    return Library(given, uploads)


def header_alone(path, shape):
    """A .npy file that says it holds so much, and holds nothing."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})


def test_an_array_longer_than_its_file_is_refused_before_memory_is_asked_for(library, tmp_path):
    header_alone(tmp_path / "given" / "a.npy", (10**12, 2))
    assert (tmp_path / "given" / "a.npy").stat().st_size == 128
    np.save(tmp_path / "given" / "b.npy", np.arange(8.0).reshape(4, 2))
    found = library.examples((2,))
    assert found.file == "b.npy"
    assert len(found.unread) == 1
    assert found.unread[0].startswith("a.npy ")
    assert "(1000000000000, 2)" in found.unread[0]


def test_every_row_of_a_file_can_be_chosen_and_the_first_three_are_of_different_classes(library, tmp_path):
    rows = np.random.default_rng(0).normal(size=(178, 2))
    np.save(tmp_path / "given" / "wine.npy", rows)
    np.save(tmp_path / "given" / "wine.labels.npy", np.repeat([2, 0, 1], (59, 71, 48)))
    lens, kept = Microscope(library), {}
    told = lens.examples(kept, Job(), {"name": "net.onnx"})["frame"]
    assert (told["from"], told["count"], len(told["names"])) == ("wine.npy", 178, 60)
    assert told["start"] == [0, 59, 130]
    assert told["rows"] == [*range(20), *range(59, 79), *range(130, 150)]
    assert told["names"][20] == "row 59: class 0"
    asked = {"id": 1, "pane": "a", "name": "net.onnx"}
    lens.tile(kept, Job(), {**asked, "slice": {"kind": "through", "rows": [0, 61, 177]}})
    assert kept["a"][-1][1].view.inputs(kept["a"][-1][1].view.anchors) == pytest.approx(rows[[0, 61, 177]])
    with pytest.raises(ss.InputError, match="from 0 to 177"):
        lens.tile(kept, Job(), {**asked, "slice": {"kind": "through", "rows": [0, 1, 178]}})


@pytest.mark.parametrize(
    ("text", "columns", "where"),
    [
        ("\ufeffash,hue,Cultivar\n1,2,red\n3,4.5,white\n5,6,red\n", ["ash", "hue"], "column 'Cultivar'"),
        ("Label;ash;hue\n1;1;2\n0;3;4.5\n1;5;6\n\n", ["ash", "hue"], "column 'Label'"),
        ('1,2,"red, dark"\n3,4.5,white\n5,6,"red, dark"\n', [], "column '3'"),
        ("1\t2\t7\n3\t4.5\t2\n5\t6\t7\n", [], "column '3'"),
        ("ash,class,hue\n1,1.0,2\n3,0.0,4.5\n5,1.0,6\n", ["ash", "hue"], "column 'class'"),
    ],
)
def test_a_table_s_classes_and_header_are_told_and_rows_are_of_all_classes(
    library, tmp_path, monkeypatch, text, columns, where
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given" / "wine.csv").write_text(text, encoding="utf-8")
    found = library.examples((2,))
    assert (found.file, found.columns, found.classes_from) == ("wine.csv", columns, where)
    assert found.data.tolist() == [[1, 2], [3, 4.5], [5, 6]]
    assert found.labels[0] == found.labels[2] != found.labels[1]
    assert found.start == [0, 1, 2]
    named = [name.partition(": class ")[2] for name in found.names]
    assert named[0] == named[2] in text
    names = {"np": np}
    exec(f"data = {found.made_by}", names)
    assert np.array_equal(names["data"], found.data)


def test_a_column_of_fractions_is_no_class_and_a_table_of_words_is_refused(library, tmp_path):
    (tmp_path / "given" / "a.csv").write_text("1,2,0.5\n3,4,1.5\n")
    (tmp_path / "given" / "b.csv").write_text("1,2,red,round\n3,4,blue,square\n")
    found = library.examples((2,))
    assert found.file is None
    assert found.unread[0] == "column '3' of a.csv must hold classes, as text or whole numbers."
    assert found.unread[1].startswith("b.csv must hold numbers and at most one column of text")


def test_classes_of_any_digits_are_told_apart(library, tmp_path):
    for first in ("--5", "1e30", "\u00b2"):
        (tmp_path / "given" / "a.csv").write_text(f"1,2,{first}\n3,4,7\n", encoding="utf-8")
        assert library.examples((2,)).start == [0, 1], first


@pytest.mark.parametrize(
    ("text", "told"), [("1,2,inf\n3,4,1\n", "whole numbers"), ("ash,hue\n1,2,red\n", "got 2 for 3")]
)
def test_endless_classes_and_headers_with_too_few_names_are_refused(tmp_path, text, told):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ss.InputError, match=told):
        read_rows(tmp_path / "x.csv", 2)


def test_text_beside_a_column_of_classes_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("name,x,y,class\nann,1,2,0\nbob,3,4,1\n")
    with pytest.raises(ss.InputError, match="text in column 'name' beside the classes"):
        read_rows(tmp_path / "x.csv", 3)  # else the class would be an input


def test_folders_named_like_uploads_or_the_example_are_opened_as_themselves(shelf, tmp_path):
    given, uploads = tmp_path / "given", tmp_path / "uploads"
    for folder in (uploads, given / "upload", given / EXAMPLE):
        folder.mkdir(parents=True)
    shutil.copy(shelf / "first.onnx", given / "upload" / "net.onnx")
    shutil.copy(shelf / "solid.onnx", uploads / "net.onnx")
    for step in (0, 10):
        shutil.copy(shelf / "run" / f"step-{step}.safetensors", given / EXAMPLE)
    library = Library(given, uploads, "lens_models:small")
    names = [entry["name"] for entry in library.entries()]
    assert len(set(names)) == len(names)
    assert library.specimen("upload/net.onnx").input_shape == (3,)
    assert library.specimen("./upload/net.onnx").input_shape == (2,)
    assert library.path(f"./{EXAMPLE}") == given / EXAMPLE


def test_what_is_sent_is_listed_only_if_it_can_be_read(library, shelf, tmp_path):
    for name, content in (("net.onnx", b"\0broken"), ("x.npy", b"\x93NUMPY"), ("x.csv", b"a,b\nc,d\n")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ss.SplinescopeError, match=rf"^upload/{name} (?!.*\w+Error\b)"):  # in the page's words
            library.add(tmp_path / name)
    assert [entry["name"] for entry in library.entries()] == ["net.onnx", EXAMPLE]
    shutil.copy(shelf / "solid.onnx", tmp_path / "net.onnx")
    assert library.add(tmp_path / "net.onnx") == "upload/net.onnx"
    assert library.specimen("upload/net.onnx").input_shape == (3,)
    with pytest.raises(ss.InputError, match=r"may have 200 bytes, got 305"):
        library.upload_name("é" * 150 + ".onnx")  # fewer letters than bytes
    with pytest.raises(ss.InputError, match="--factory"):
        library.upload_name("weights.safetensors")


@pytest.mark.parametrize(
    "wrong",
    [
        {"do": "details", "x": [0], "y": 0.1},
        {"do": "details", "x": "north"},
        {"do": "details", "picture": [1]},
        {"do": "tile", "window": ["a", "b", "c", "d"]},
        {"do": "tile", "window": [0, 0, None, 1]},
    ],
)
def test_a_wrong_value_is_refused_in_words(library, wrong):
    lens, kept = Microscope(library), {}
    asked = {"id": 1, "name": "net.onnx", "pane": "a", "slice": {"kind": "axes"}, "picture": 1}
    lens.tile(kept, Job(), asked)
    with pytest.raises(ss.InputError):
        lens.verbs[wrong["do"]](kept, Job(), {**asked, **wrong})


def test_a_picture_answers_for_itself_until_two_newer_ones_are_there(library):
    lens, kept = Microscope(library), {}
    asked = {"name": "net.onnx", "pane": "a", "x": 0.1, "y": 0.2}
    told = []
    for picture in range(3):
        cut = {"kind": "axes", "low": -1 - picture, "high": 1}
        lens.tile(kept, Job(), {**asked, "id": picture, "slice": cut})
        told.append(lens.details(kept, Job(), {**asked, "picture": picture}))
    assert lens.details(kept, Job(), {**asked, "picture": 1}) == told[1] != told[2]
    with pytest.raises(ss.InputError, match="gone: tile it again"):
        lens.details(kept, Job(), {**asked, "picture": 0})
