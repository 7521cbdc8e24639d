"""Pictures of experiments show what they were given."""

import itertools

import numpy as np
import pytest
from matplotlib import pyplot as plt

from splinescope import InputError
from splinescope_research import pictures as plots


def test_clouds_and_shares_are_drawn() -> None:
    assert plots.plot_cloud(np.zeros((5, 2)), x=np.ones((3, 2)), limit=2.0).get_xlim() == (-2, 2)
    ax = plots.plot_class_shares({"a": [0.5, 0.5], "b": [0.1, 0.9]}, spread={"a": [0.1, 0.1], "b": [0, 0]})
    assert len(ax.patches) == 4
    assert ax.get_ylabel() == "share of samples"


def test_tree_shows_every_row_of_every_layer() -> None:
    ax = plots.plot_tree([0.0, 1.0, 5.0, 6.0], 2)
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["1⁴", "2·1²", "2·1²", "2²", "2·1²", "2²", "2·1²"]
    plt.close(ax.figure)


def test_nodes_of_a_tree_do_not_overlap() -> None:
    ax = plots.plot_tree(np.random.default_rng(0).standard_normal(20), 5)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    legend = ax.get_legend()
    assert legend is not None
    boxes.append(legend.get_window_extent())
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    plt.close(ax.figure)


def test_deep_trees_are_refused() -> None:
    with pytest.raises(InputError, match=r"0\.\.5"):
        plots.plot_tree([0.0, 1.0], 6)
