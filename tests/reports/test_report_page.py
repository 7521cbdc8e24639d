"""The page of a report: what it shows and writes, in a browser, a notebook and from the shell."""

import copy
import html
import json
import os
import re

import pytest
import torch
from click.testing import CliRunner

import splinescope as ss
from splinescope.cli import main
from splinescope.reports.typical import places, top_findings

from ..browser import open_browser, opened
from .test_report import quiet


def test_a_notebook_shows_words_and_pictures_and_where_the_page_is(classifier, moons, tmp_path):
    shown = ss.report(classifier, *moons, out=tmp_path / "r.html", include=["network", "volume"], progress=False)
    assert str(tmp_path / "r.html") in repr(shown)
    assert "page" not in repr(quiet(classifier, *moons, include=["network"]))
    box = shown._repr_html_()
    assert box.count("<img") == box.count("data:image/png;base64,") == 1
    assert shown["network"].headline in box
    assert "at least twice as many" in box


def test_the_page_opens_with_its_most_telling_findings_and_what_to_do(classifier, moons, tmp_path):
    found = ss.report(classifier, *moons, out=tmp_path / "r.html", exclude=["curvature", "surface"], progress=False)
    text = (tmp_path / "r.html").read_text()
    opening = text[text.index("What to know first") : text.index("<section id='network'")]
    chosen, summary = top_findings(found.blocks), found.summary().split("\n\n")[0]
    assert summary.startswith("What to know first:\n1. ")
    assert opening.count("<li>") == len(chosen) == 3
    for block in chosen:
        for words in (block.finding, block.advice, block.call):
            assert words
            assert html.escape(words) in opening
            assert words in summary
    assert all(
        block.finding and block.advice for block in found.blocks if block.state == "measured" and block.key != "network"
    )
    dead = [block for block in chosen if block.key == "folds"]
    assert bool(dead) >= ("no findings" not in found["folds"].headline)  # what is wrong always comes first
    here, others = places(found["complexity"])
    assert text.count("class='scale'") == sum(bool(block.typical) for block in found.blocks)
    assert 0 <= min(here, *others.values()) == 0
    assert max(here, *others.values()) == 1


def test_page_and_numbers_are_written_and_nothing_else_is_changed(classifier, moons, tmp_path):
    before = copy.deepcopy(classifier.state_dict())
    state = torch.get_rng_state()
    found = ss.report(
        classifier, *moons, out=tmp_path / "r.html", include=["network", "tiles", "volume"], progress=False
    )
    text = (tmp_path / "r.html").read_text()
    assert text.count("data:image/png;base64,") == 4  # two pictures, each for light and for dark pages
    assert "http" not in re.sub(r"base64,[^']*|http-equiv", "", text)
    records = json.loads((tmp_path / "r.json").read_text())
    assert records["blocks"]["tiles"]["numbers"]["tiles"] == found["tiles"].numbers["tiles"]
    assert sorted(os.listdir(tmp_path)) == ["r.html", "r.json"]
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[k], v) for k, v in classifier.state_dict().items())


def test_an_interrupted_report_keeps_what_it_has(classifier, moons, tmp_path):
    def stop(share: float, _now: str) -> None:
        if share == 0.5:  # the second of two
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ss.report(classifier, *moons, out=tmp_path / "r.html", include=["network", "tiles"], progress=stop)
    assert list(json.loads((tmp_path / "r.json").read_text())["blocks"]) == ["network"]


@pytest.mark.parametrize("taken", ["r.html", "r.json"])
def test_a_report_replaces_one_and_no_other_file(classifier, moons, tmp_path, taken):
    again = {"out": tmp_path / "r.html", "include": ["network"], "progress": False}
    (tmp_path / taken).write_text("mine")
    with pytest.raises(ss.InputError, match=f"{taken} is no report"):
        ss.report(classifier, *moons, **again)
    with pytest.raises(ss.InputError, match=f"{taken} is no report"):
        ss.compare_models({"a": classifier, "b": classifier}, *moons, **again)
    assert (tmp_path / taken).read_text() == "mine"
    (tmp_path / taken).unlink()
    ss.report(classifier, *moons, **again)
    ss.report(classifier, *moons, **again)


def test_the_verb_writes_the_page_and_tells_the_rest(tmp_path, monkeypatch, moons):
    import numpy as np

    monkeypatch.chdir(tmp_path)
    (tmp_path / "reportnet.py").write_text(
        "import torch\ndef make():\n    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))\n"
    )
    np.save("x.npy", moons[0].numpy())
    np.save("y.npy", moons[1].numpy())
    told = CliRunner().invoke(
        main,
        ["report", "reportnet:make", "--data", "x.npy", "--labels", "y.npy", "--include", "network,surface", "--json"],
    )
    assert told.exit_code == 0, told.stderr
    assert json.loads(told.stdout)["blocks"]["surface"]["numbers"]["loss"] == "cross-entropy"
    assert (tmp_path / "report.html").is_file()
    wrong = CliRunner().invoke(
        main, ["report", "reportnet:make", "--data", "x.npy", "--out", "r.html", "--include", "all"]
    )
    assert wrong.exit_code == 2
    assert "among network" in wrong.stderr


def test_the_tiles_are_live_all_of_them_or_a_part(classifier, moons, tmp_path, monkeypatch):
    whole = ss.report(classifier, *moons, out=tmp_path / "whole.html", include=["tiles"], progress=False)
    tiles = whole["tiles"].numbers["tiles"]
    monkeypatch.setattr("splinescope.reports.near_data._MOST_LIVE", tiles // 4)
    ss.report(classifier, *moons, out=tmp_path / "part.html", include=["tiles"], progress=False)
    with open_browser() as browser:
        for name, all_of_them in (("whole", True), ("part", False)):
            with opened(browser, tmp_path / f"{name}.html") as page:
                page.frame_locator("iframe").locator("body[data-ready]").wait_for()
                shown = page.frames[1].evaluate("[view.count, view.colored]")
                assert (shown[0] == tiles) == all_of_them
                assert shown[1] == "slope"


def test_pictures_follow_a_dark_page(classifier, moons, tmp_path):
    ss.report(classifier, *moons, out=tmp_path / "r.html", include=["network", "complexity"], progress=False)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.count("<picture><source media='(prefers-color-scheme: dark)'") == 2
    corner = """() => { const image = document.querySelector("picture img")
        const ink = document.createElement("canvas").getContext("2d")
        ink.drawImage(image, 0, 0)
        return ink.getImageData(2, 2, 1, 1).data[0] }"""
    with open_browser() as browser:
        for scheme in ("light", "dark"):
            with opened(browser, tmp_path / "r.html", color_scheme=scheme) as page:
                page.wait_for_function("() => document.querySelector('picture img').complete")
                assert (page.evaluate(corner) > 200) == (scheme == "light")
