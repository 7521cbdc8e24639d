"""Every script of the gallery runs and draws something."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/plot_*.py"))


def test_every_part_has_a_script() -> None:
    parts = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert {script.parent.name for script in SCRIPTS} == parts


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_script_draws(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("sklearn")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)  # some write files
    with torch.random.fork_rng(devices=[]):
        runpy.run_path(str(script))
    drawn = [axes for number in pyplot.get_fignums() for axes in pyplot.figure(number).axes if axes.has_data()]
    pyplot.close("all")
    assert drawn, "the script drew nothing"
