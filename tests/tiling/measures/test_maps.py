import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

import splinescope as ss
from splinescope.support.threads import ALONE
from splinescope.tiling.cells.polygons import Cells
from splinescope.tiling.kernels.polygon_shapes import spanning_triangles
from splinescope.tiling.measures.maps import vertex_values

from ... import cases


def outputs(name: str, t: np.ndarray) -> np.ndarray:
    """The user's own module in float64, at slice coordinates."""
    with torch.no_grad():
        return cases.model(name)(torch.from_numpy(cases.view(name).inputs(t))).flatten(1).numpy()


def autograd_slopes(name: str, tiles: np.ndarray) -> np.ndarray:
    """Jacobians `[k, C, D]` of the user's own module at the means of the tiles' corners, one by one."""
    tiling, net = cases.tiling(name), cases.model(name)
    rows = []
    for tile in tiles:
        x = torch.from_numpy(tiling.view.inputs(tiling.tile(tile).mean(0, keepdims=True)))
        rows.append(torch.autograd.functional.jacobian(lambda x: net(x).flatten(), x).flatten(1).numpy())
    return np.stack(rows)


@pytest.mark.parametrize("name", cases.CASES)
def test_means_over_corners_are_those_of_the_lists_of_corners(name: str) -> None:
    tiling = cases.tiling(name)
    expected = np.stack([tiling.vertices[corners].mean(0) for corners in tiling.tiles])
    np.testing.assert_allclose(tiling.tiles.corner_means(tiling.vertices), expected, atol=1e-12)
    np.testing.assert_allclose(tiling.tiles.corner_means(tiling.vertices[:, 0]), expected[:, 0], atol=1e-12)
    nothing = Cells(np.zeros(1, int), np.zeros(0, int))
    assert nothing.corner_means(tiling.vertices).shape == (0, tiling.dimension)


@pytest.mark.parametrize("name", cases.CASES)
def test_map_is_the_network_on_both_sides_of_every_wall(name: str) -> None:
    tiling = cases.tiling(name)
    slopes, offsets = tiling.slopes(), tiling.offsets()
    inner = (tiling.walls.tiles >= 0).all(1)
    t = tiling.vertices[tiling.walls.ends[inner, 0]]
    expected = outputs(name, t)
    for side in tiling.walls.tiles[inner].T:
        found = np.einsum("kcd,kd->kc", slopes[side], t) + offsets[side]
        assert np.abs(found - expected).max(initial=0) <= 1e-9 * np.abs(outputs(name, tiling.vertices)).max()


@pytest.mark.parametrize("name", cases.CASES)
def test_slopes_are_autograd_jacobians_along_the_slice(name: str) -> None:
    tiling = cases.tiling(name)
    tiles = np.random.default_rng(0).permutation(tiling.count)[:40]
    expected = autograd_slopes(name, tiles)
    np.testing.assert_allclose(tiling.input_slopes(tiles), expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    norms = np.linalg.norm(expected, 2, axis=(1, 2))
    np.testing.assert_allclose(tiling.input_slope_norms(tiles), norms, rtol=0, atol=1e-12 * norms.max())
    # 1e-9: eps times extent over thickness is at most 2e-10 down to the thickness at which the network takes over
    along = expected @ tiling.view.basis.reshape(tiling.dimension, -1).T
    np.testing.assert_allclose(tiling.slopes(tiles), along, rtol=0, atol=1e-9 * np.abs(along).max())


@pytest.mark.parametrize("name", cases.CASES)
def test_norms_are_those_of_the_matrices(name: str) -> None:
    tiling = cases.tiling(name)
    slopes = tiling.slopes()
    expected = np.linalg.norm(slopes, 2, axis=(1, 2))
    np.testing.assert_allclose(tiling.slope_norms(), expected, rtol=0, atol=1e-12 * expected.max())


@pytest.mark.parametrize("name", [name for name in cases.CASES if name != "image output"])
def test_slopes_need_no_network(name: str) -> None:
    """Not even where a side meets two neighbors, and three corners of a tile lie on one line (max-pool)."""
    tiling = cases.tiling(name)
    alone = replace(tiling, network=None).slopes()
    np.testing.assert_allclose(alone, tiling.slopes(), rtol=0, atol=1e-9 * np.abs(alone).max())


def test_slopes_come_from_corners_that_span_the_tile() -> None:
    """The corner (1, 0) lies on the longest side: of the other two, the one away from it is taken."""
    points = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [1.0, 1.0]])
    chosen, thickness = np.empty((1, 3), np.int64), np.empty(1)
    spanning_triangles(np.array([0, 4]), np.arange(4, dtype=np.int32), points, np.array([0]), chosen, thickness)
    assert set(chosen[0]) == {0, 2, 3}
    assert thickness[0] == 1.0


def test_slope_of_a_sliver_comes_from_the_network() -> None:
    """Two folds 1e-9 apart leave a tile whose corners hold no more than six digits of its slope across."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.3], [1.0, 0.3]]))
        net[0].bias.copy_(torch.tensor([0.7, 0.7 + 1e-9], dtype=torch.float64))
        net[2].weight.copy_(torch.tensor([[1.0, 1.0]]))
    tiling = ss.tessellate(net, cases.Square)
    assert tiling.count == 3
    thin = int(tiling.areas.argmin())
    assert tiling.areas[thin] < 1e-8
    np.testing.assert_allclose(tiling.slopes([thin])[0], [[1.0, 0.3]], rtol=1e-7)  # float32 weights: 0.3 is rounded
    np.testing.assert_allclose(tiling.slope_norms()[thin], tiling.input_slope_norms([thin])[0], rtol=1e-14)


def test_outputs_that_are_not_kept_are_computed_again() -> None:
    tiling = cases.tiling("image output")
    assert tiling.values is None
    rows = np.array([3, 0, 3])
    np.testing.assert_allclose(
        vertex_values(tiling, rows), outputs("image output", tiling.vertices[rows]), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("name", cases.CASES)
def test_an_affine_map_is_extreme_at_corners(name: str) -> None:
    tiling = cases.tiling(name)
    ranges = tiling.output_ranges(0)
    middle = outputs(name, np.stack([tiling.tile(k).mean(0) for k in range(tiling.count)]))[:, 0]
    slack = 1e-12 * np.abs(ranges).max()
    assert (ranges[:, 0] - slack <= middle).all()
    assert (middle <= ranges[:, 1] + slack).all()


@pytest.mark.parametrize("name", ["two layers", "line", "max-pool", "four layers, one output", "image output"])
def test_classes_and_active_units_are_those_of_the_network(name: str) -> None:
    tiling = cases.tiling(name)
    middles = np.stack([tiling.tile(k).mean(0) for k in range(tiling.count)])
    values = outputs(name, middles)
    np.testing.assert_array_equal(tiling.classes(), values.argmax(1) if values.shape[1] > 1 else values[:, 0] > 0)
    np.testing.assert_allclose(tiling.outputs(middles), values, atol=1e-12 * np.abs(values).max())
    x = torch.from_numpy(tiling.view.inputs(middles))
    expected = sum(pattern.sum(1) for pattern in tiling.network.program().patterns(x))
    np.testing.assert_array_equal(tiling.active_units(), expected)


def test_gradient_mode_and_parameters_are_left_as_found() -> None:
    net = cases.model("two layers")
    with torch.inference_mode():
        tiling = ss.tessellate(net, cases.Square)
        tiling.input_slope_norms([0, 1])
        tiling.input_margin([[0.1, 0.2]])
        assert torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()
    assert all(p.grad is None for p in net.parameters())


def test_bad_tiles_are_refused() -> None:
    tiling = cases.tiling("one layer")
    with pytest.raises(ss.InputError, match=r"numbers in \[0, "):
        tiling.slopes([tiling.count])
    with pytest.raises(ss.InputError, match="tile numbers"):
        tiling.slopes([0.5])
    with pytest.raises(ss.InputError, match="output must be"):
        tiling.output_ranges(3)
    assert tiling.slopes(np.zeros(tiling.count, bool)).shape == (0, 3, 2)


def test_slopes_are_right_while_another_thread_takes_derivatives():
    """torch has one level of tangents for the whole process: a second thread waits for it."""
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    tiling, found = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)), []
    thread = threading.Thread(target=lambda: found.append(tiling.input_slope_norms()))
    with ALONE, forward_ad.dual_level():
        thread.start()
        thread.join(0.3)
    thread.join()
    np.testing.assert_array_equal(found[0], tiling.input_slope_norms())
