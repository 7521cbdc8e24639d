"""Every script of the gallery runs, and each of its blocks draws what it opens, as the gallery shows it."""

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

from tests import real

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/plot_*.py"))


def test_every_part_has_a_script() -> None:
    parts = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert {script.parent.name for script in SCRIPTS} == parts


@pytest.mark.parametrize("there", [True, False])
def test_the_docs_leave_out_the_scripts_whose_networks_are_not_there(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLINESCOPE_TEST_DATA", str(tmp_path if there else tmp_path / "none"))
    monkeypatch.setattr(sys, "path", list(sys.path))  # which a configuration changes
    settings = runpy.run_path(str(EXAMPLES.parent / "docs" / "conf.py"))
    left_out = settings["sphinx_gallery_conf"]["ignore_pattern"]
    shown = {script for script in SCRIPTS if not re.search(left_out, script.name)}
    real_ones = {script for script in SCRIPTS if script.name.startswith("plot_real_")}
    assert real_ones
    assert shown == set(SCRIPTS) - (set() if there else real_ones)
    page = [(EXAMPLES.parent / "docs" / "gallery.md").read_text(encoding="utf-8")]
    settings["name_shown_scripts"](None, "gallery", page)
    assert set(re.findall(r"\.\./examples/(\S+)", page[0])) == {f"{each.parent.name}/{each.name}" for each in shown}
    links = [" ".join(f"[a](../examples/{each.parent.name}/{each.name})" for each in SCRIPTS)]
    settings["lead_to_gallery"](None, "tiling", links)
    expected = {f"{each.parent.name}/{each.stem}" for each in shown}
    assert set(re.findall(r"\(/gallery/(\S+)\.rst\)", links[0])) == expected


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_script_draws(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("sklearn")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    if script.name.startswith("plot_real_"):
        if not real.FOLDER.is_dir():
            pytest.skip(f"the trained networks are not at {real.FOLDER}; set SPLINESCOPE_TEST_DATA")
        monkeypatch.setenv("SPLINESCOPE_TEST_DATA", str(real.FOLDER))
    monkeypatch.chdir(tmp_path)  # some write files
    drawn = 0
    names = {"__name__": "__main__", "__file__": str(script)}
    for block in re.split(r"^# %%.*$", script.read_text(encoding="utf-8"), flags=re.MULTILINE):
        with torch.random.fork_rng(devices=[]):
            exec(compile(block, script, "exec"), names)
        axes = [axes for number in pyplot.get_fignums() for axes in pyplot.figure(number).axes]
        pyplot.close("all")  # as the gallery does after every block
        drawn += len(axes)
        assert all(ax.has_data() for ax in axes), "a block leaves axes empty"
    assert drawn, "the script drew nothing"
