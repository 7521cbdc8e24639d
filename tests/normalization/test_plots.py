"""The plots draw what they are given."""

import pytest
import torch

from splinescope import Slice
from splinescope.normalization import compare_normalizations


def test_comparison_is_drawn_a_line_each() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    from splinescope.plot.normalization import plot_comparison

    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = compare_normalizations(x, Slice.axes([0.0, 0.0], (0, 1), -5, 5), depth=2, width=8, names=("none", "batch"))
    ax = plot_comparison(rows)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["none", "batch"]
    pytest.importorskip("matplotlib.pyplot").close(ax.figure)
