"""The examples in the docstrings and under examples/ run; the plots draw what they are given."""

import doctest
import importlib
import runpy
from pathlib import Path

import pytest
import torch

from splinescope import Slice
from splinescope.normalization import compare_normalizations

MODULES = ["density", "fold_distances", "folding", "initialize", "jitter", "report"]
SCRIPTS = sorted((Path(__file__).parents[2] / "examples" / "normalization").glob("plot_*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"splinescope.normalization.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts(script: Path) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("sklearn")
    with torch.random.fork_rng(devices=[]):
        runpy.run_path(str(script))
    pyplot = pytest.importorskip("matplotlib.pyplot")
    drawn = [axes for number in pyplot.get_fignums() for axes in pyplot.figure(number).axes if axes.has_data()]
    pyplot.close("all")
    assert drawn, "the script drew nothing"


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 2


def test_comparison_is_drawn_a_line_each() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    from splinescope.plot.normalization import plot_comparison

    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = compare_normalizations(x, Slice.axes([0.0, 0.0], (0, 1), -5, 5), depth=2, width=8, names=("none", "batch"))
    ax = plot_comparison(rows)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["none", "batch"]
    pytest.importorskip("matplotlib.pyplot").close(ax.figure)
