"""The examples in the docstrings and under examples/ run and say what they print."""

import doctest
import importlib
import runpy
from pathlib import Path

import pytest

MODULES = ["gamma", "full_rank", "geometry", "gram", "invariant", "layers", "one_unit_per_point", "tree"]
SCRIPTS = sorted((Path(__file__).parents[2] / "examples" / "representation").glob("plot_*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    module = importlib.import_module(f"splinescope.representation.{name}")
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts(script: Path) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    pytest.importorskip("sklearn")
    runpy.run_path(str(script))
    pyplot = pytest.importorskip("matplotlib.pyplot")
    drawn = [axes for number in pyplot.get_fignums() for axes in pyplot.figure(number).axes if axes.has_data()]
    pyplot.close("all")
    assert drawn, "the script drew nothing"


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 3
