"""Drawings show what the tiling says, and refuse what it cannot give."""

import itertools

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from torch import nn

import splinescope as ss
from splinescope import plot
from splinescope.plot._class_pieces import class_pieces
from splinescope.plot.tiling import shading
from splinescope.tiling.measures.quantities import QUANTITIES


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3, bias=False))


@pytest.fixture(scope="module")
def tiling(net):
    return ss.tessellate(net, ss.Slice.through([-1.0, -1.0], [1.0, -0.8], [0.0, 1.0], pad=0.3))


def drawn(ax):
    """The picture as an array, without decorations."""
    ax.axis("off")
    ax.set_position([0, 0, 1, 1])
    ax.figure.set_layout_engine("none")
    ax.figure.canvas.draw()
    return np.asarray(ax.figure.canvas.buffer_rgba())[..., :3].astype(int)


def pixel(ax, image, point):
    x, y = ax.transData.transform(point)
    return image[image.shape[0] - 1 - int(y), int(x)]


@pytest.mark.parametrize("color", QUANTITIES)
def test_each_tile_has_the_color_of_its_quantity(tiling, color):
    quantity = tiling.quantity(color)
    cmap, norm = shading(quantity)
    ax = tiling.plot(color=color, edges=False, anchors=False, colorbar=False)
    image = drawn(ax)
    roomy = np.argsort(tiling.inradii())[-12:]
    for tile in roomy:
        expected = 255 * np.array(cmap(norm(quantity.values[tile]))[:3])
        assert np.abs(pixel(ax, image, tiling.centroids()[tile]) - expected).max() <= 4  # 256 shades, 8 bits


@pytest.mark.parametrize(("limits", "shown"), [((8.0, 13.0), {"8", "10", "12"}), ((0.5, 40.0), {"1", "2", "5", "20"})])
def test_a_logarithmic_color_bar_of_a_few_times_has_plain_numbers(tiling, limits, shown):
    """8, 10, 12, not 8 x 10^0 and 10^1: powers of ten are for ranges of many of them."""
    bar = tiling.plot(color="slope", limits=limits).figure.axes[1]
    bar.figure.canvas.draw()
    low, high = limits
    assert bar.get_yscale() == "log"
    labels = {label.get_text(): y for y, label in zip(bar.get_yticks(), bar.get_yticklabels(), strict=True)}
    assert shown <= set(labels)
    assert all(float(text) == pytest.approx(y) for text, y in labels.items())
    assert sum(low <= y <= high for y in labels.values()) >= 4
    assert not [label for label in bar.get_yticklabels(minor=True) if label.get_text()]


@pytest.mark.parametrize("layout", ["constrained", "tight", "none"])
def test_a_color_bar_is_as_tall_as_its_axes_and_touches_nothing(tiling, layout):
    figure, axes = mpl.pyplot.subplots(1, 2, figsize=(9, 6), layout=layout)
    for ax in axes:
        tiling.plot(color="slope", ax=ax)
    figure.canvas.draw()
    boxes = [ax.get_tightbbox() for ax in figure.axes]
    for ax, bar in zip(axes, figure.axes[2:], strict=True):
        assert (bar.get_position().y0, bar.get_position().y1) == (ax.get_position().y0, ax.get_position().y1)
    if layout == "constrained":
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)


def test_classes_are_colored_by_the_point_not_by_the_tile(tiling):
    pieces = class_pieces(tiling)
    assert len(pieces.tiles)
    for ring, winner in zip(pieces.rings, pieces.classes, strict=True):
        middle = ring.mean(0, keepdims=True)
        assert tiling.outputs(middle).argmax() == winner
    areas = [(r[:, 0] * np.roll(r[:, 1], -1) - r[:, 1] * np.roll(r[:, 0], -1)).sum() / 2 for r in pieces.rings]
    assert sum(areas) == pytest.approx(tiling.areas[pieces.tiles].sum())  # nothing is lost, nothing twice


def test_the_boundary_is_drawn_in_red_where_classes_tie(tiling):
    ax = tiling.plot(color=None, edges=False, anchors=False, boundary=True)
    image = drawn(ax)
    middle = tiling.decision_boundary().segments.mean(1)
    lengths = tiling.decision_boundary().lengths
    assert len(lengths) > 5
    for point in middle[np.argsort(lengths)[-5:]]:
        red, green, blue = pixel(ax, image, point)
        assert red > 200
        assert max(green, blue) < 90


def test_a_highlighted_unit_is_drawn_along_its_fold(tiling):
    unit = int(np.bincount(tiling.walls.cuts[tiling.walls.cuts >= 0]).argmax())
    ax = plot.plot_folds(tiling, highlight=unit, colorbar=False)
    image = drawn(ax)
    mine = tiling.walls.ends[tiling.walls.cuts == unit]
    for point in tiling.vertices[mine].mean(1)[:5]:
        assert pixel(ax, image, point)[0] > 200
    for wrong in (20, "a"):
        with pytest.raises(ss.InputError, match=r"highlight must be in \[0, 20\)"):
            plot.plot_folds(tiling, highlight=wrong)


def test_points_are_drawn_at_their_place_on_the_plane(tiling):
    inputs = tiling.view.inputs(tiling.view.anchors)
    ax = plot.plot_points(tiling, inputs, y=[0, 1, 2])
    np.testing.assert_allclose(ax.collections[-1].get_offsets(), tiling.view.anchors, atol=1e-12)
    assert len({len(mark.vertices) for mark in ax.collections[-1].get_paths()}) == 3  # classes are told apart in gray
    with pytest.raises(ss.InputError, match="one class per point"):
        plot.plot_points(tiling, inputs, y=[0])


def test_anchors_of_a_network_of_two_inputs_are_drawn_in_slice_coordinates():
    points = torch.tensor([[3.0, 1.0], [4.0, 2.5], [2.0, 2.0]], dtype=torch.float64)
    tiling = ss.tessellate(torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU()), ss.Slice.through(*points))
    ax = plot.plot_tiles(tiling)
    np.testing.assert_allclose(ax.collections[-1].get_offsets(), tiling.view.anchors, atol=1e-12)


def test_a_surface_has_a_flat_facet_per_tile_at_the_heights_of_its_corners(tiling):
    ax = plot.plot_surface(tiling, output=1)
    facets = ax.collections[0]._faces
    assert len(facets) == tiling.count
    corners = tiling.tiles[7]
    np.testing.assert_array_equal(facets[7][: len(corners), 2], tiling.values[corners, 1])
    ax.figure.canvas.draw()
    with pytest.raises(ss.InputError, match="must be 3-D axes"):
        plot.plot_surface(tiling, mpl.pyplot.subplots()[1])


def test_a_graph_runs_through_the_outputs_at_the_vertices(net):
    line = ss.tessellate(net, ss.Slice.segment([-2.0, 0.0], [2.0, 1.0]))
    ax = plot.plot_graph(line)
    assert len(ax.lines) == 3 + len(line.view.anchors)
    x, y = ax.lines[2].get_data()
    np.testing.assert_allclose(y, line.outputs(x[:, None])[:, 2], rtol=1e-12, atol=1e-12)  # one forward pass
    assert len(line.plot().lines) == len(ax.lines)
    with pytest.raises(ss.InputError, match="plot_graph draws those"):
        plot.plot_tiles(line)
    points = line.decision_boundary().segments[:, 0, 0]
    assert len(points) > 0
    drawn = [x.get_xdata()[0] for x in line.plot(color="slope", boundary=True).lines[-len(points) :]]
    np.testing.assert_array_equal(drawn, points)
    with pytest.raises(ss.InputError, match="takes ax, boundary; got color, edges"):
        line.plot(color="area", edges=False)


def test_numbers_of_ones_own_and_nonsense(tiling):
    assert tiling.plot(color=np.arange(tiling.count), label="rank").figure.axes[1].get_ylabel() == "rank"
    with pytest.raises(ss.InputError, match="one number per tile"):
        tiling.plot(color=np.zeros(3))
    with pytest.raises(ss.InputError, match="must be one of 'slope'"):
        tiling.plot(color="flavour")
    with pytest.raises(ss.InputError, match=r"output must be in \[0, 3\)"):
        tiling.plot(color="value", output=3)
    with pytest.raises(ss.InputError, match="color must be finite"):
        tiling.plot(color=np.full(tiling.count, np.nan))
    with pytest.raises(ss.InputError, match="cmap must name a color map of matplotlib"):
        tiling.plot(cmap="nope")
    for limits in ((1.0,), (2.0, 1.0), 3.0):
        with pytest.raises(ss.InputError, match="limits must be two numbers"):
            tiling.plot(limits=limits)


def test_figures_are_dark_where_the_user_asked_for_dark_ones(net):
    line = ss.tessellate(net, ss.Slice.segment([-1.0, -1.0], [1.0, 1.0]))
    for style, ground in (("default", 1.0), ("splinescope.plot.dark", 0.1)):
        with plt.style.context(style):
            ax = line.plot()
        ink = [one.get_color() for one in ax.lines if one.get_linestyle() == ":"]
        assert np.mean(mpl.colors.to_rgb(ax.figure.get_facecolor())) == pytest.approx(ground, abs=0.05)
        assert np.mean(mpl.colors.to_rgb(ink[0])) == pytest.approx(1.0 - ground, abs=0.15)
