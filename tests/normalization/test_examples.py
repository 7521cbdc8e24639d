"""The examples in the docstrings and under examples/ run; the plots draw what they are given."""

from pathlib import Path

import pytest
import torch

from splinescope import Slice
from splinescope.normalization import compare_normalizations
from tests.checks import check_docstrings, check_script

MODULES = ["density", "fold_distances", "folding", "initialize", "jitter", "report"]
SCRIPTS = sorted((Path(__file__).parents[2] / "examples" / "normalization").glob("plot_*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    check_docstrings(f"splinescope.normalization.{name}")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts(script: Path) -> None:
    check_script(script)


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
