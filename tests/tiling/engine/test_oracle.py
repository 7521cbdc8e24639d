"""The engine against exact rational arithmetic on small and on degenerate networks."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import nn

import splinescope as ss
from tests.tiling.exact_oracle import area, exact_tiles

SQUARE = ss.Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)


def mlp(*widths: int, seed: int = 0, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b, dtype=torch.float64), activation()]
    return nn.Sequential(*layers[:-1])


def assert_equals_oracle(net: nn.Sequential, view: ss.Slice) -> None:
    tiling = ss.tessellate(net, view)
    exact = exact_tiles(net, view.domain)
    report = tiling.check()
    assert report.ok, str(report)
    assert tiling.count == len(exact)
    scale = view.size
    ours = np.sort(tiling.areas) / scale
    theirs = np.sort([float(area(tile)) for tile in exact]) / scale
    np.testing.assert_allclose(ours, theirs, atol=1e-12)  # positions are rounded to 1e-16 a few times over
    points = {tuple(np.round([float(c) for c in p], 7)) for tile in exact for p in tile.corners}
    near = max(2e-7, 1e-14 * np.abs(view.domain).max())  # of coordinates of 3e8, seven decimals are below rounding
    for t in np.round(tiling.vertices, 7) + 0.0:
        assert tuple(t) in points or any(np.abs(np.subtract(t, p)).max() <= near for p in points)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("activation", [nn.ReLU, nn.LeakyReLU, nn.Hardtanh])
def test_random_networks_have_the_tiles_of_the_oracle(seed: int, activation: type[nn.Module]) -> None:
    assert_equals_oracle(mlp(2, 6, 5, 1, seed=seed, activation=activation), SQUARE)


@pytest.mark.parametrize("seed", range(4))
def test_tiles_on_a_line_are_those_of_the_oracle(seed: int) -> None:
    net = mlp(1, 8, 6, 5, 1, seed=seed)
    assert_equals_oracle(net, ss.Slice.axes([0.0], 0, -4.0, 4.0))


@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_tiles_do_not_depend_on_the_scale_of_weights_and_of_the_domain(scale: float) -> None:
    heavy, far = mlp(2, 7, 5, 1), mlp(2, 7, 5, 1)
    with torch.no_grad():
        heavy[0].weight.mul_(scale)
        heavy[0].bias.mul_(scale)
        far[0].weight.div_(scale)
    assert_equals_oracle(heavy, SQUARE)
    assert_equals_oracle(far, ss.Slice.axes([0.0, 0.0], (0, 1), -3.0 * scale, 3.0 * scale))


def test_one_huge_unit_does_not_hide_the_others() -> None:
    net = mlp(2, 7, 5, 1)
    with torch.no_grad():
        net[0].weight[3].mul_(1e8)
        net[0].bias[3].mul_(1e8)
        net[2].weight[:, 3].div_(1e8)
    assert_equals_oracle(net, SQUARE)


def test_folds_through_one_point_meet_in_one_vertex() -> None:
    """Zero biases: all folds of the first layer pass through the origin, and those of the second as well."""
    net = mlp(2, 9, 7, 1)
    with torch.no_grad():
        for layer in net[::2]:
            layer.bias.zero_()
    assert_equals_oracle(net, SQUARE)


def test_duplicated_dead_and_parallel_units_make_no_false_tiles() -> None:
    net = mlp(2, 8, 6, 1)
    with torch.no_grad():
        net[0].weight[1], net[0].bias[1] = net[0].weight[0], net[0].bias[0]  # the same fold twice
        net[0].weight[2], net[0].bias[2] = -net[0].weight[0], -net[0].bias[0]  # and from its other side
        net[0].weight[4] = net[0].weight[3]  # parallel folds
        net[0].weight[5], net[0].bias[5] = 0.0, 0.0  # identically zero
        net[0].weight[6], net[0].bias[6] = 0.0, -1.0  # dead
        net[2].weight[2] = net[2].weight[1]
        net[2].bias[2] = net[2].bias[1]
    assert_equals_oracle(net, SQUARE)


def test_units_that_cancel_leave_no_noise_to_cut_at() -> None:
    """The second layer sees a difference of equal units: exactly zero in theory, rounding noise in practice."""
    net = mlp(2, 6, 4, 1)
    with torch.no_grad():
        net[0].weight[1], net[0].bias[1] = net[0].weight[0] * 3.0, net[0].bias[0] * 3.0
        net[2].weight[0] = 0.0
        net[2].weight[0, 0], net[2].weight[0, 1], net[2].bias[0] = 0.3, -0.1, 0.0
    tiling = ss.tessellate(net, SQUARE)
    assert tiling.check().ok
    with torch.no_grad():  # the network that is meant, without rounding: unit 1 repeats unit 0, the difference is 0
        net[0].weight[1], net[0].bias[1] = net[0].weight[0], net[0].bias[0]
        net[2].weight[1:, 1] *= 3.0
        net[2].weight[0] = 0.0
    assert tiling.count == len(exact_tiles(net, SQUARE.domain))


integers = st.integers(-2, 2)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_integer_networks_have_the_tiles_of_the_oracle(data: st.DataObject) -> None:
    """Small integers are as degenerate as it gets: folds coincide, meet in threes and pass through corners."""
    net = mlp(2, 4, 3, 1)
    with torch.no_grad():
        for layer in net[::2]:
            for parameter in (layer.weight, layer.bias):
                values = data.draw(st.lists(integers, min_size=parameter.numel(), max_size=parameter.numel()))
                parameter.copy_(torch.tensor(values, dtype=torch.float64).reshape(parameter.shape))
        net[4].weight.copy_(torch.tensor([[1.0, 2.0, 3.0]]))  # an output that is zero everywhere is not of interest
    assume(bool((net[2].weight.abs() @ net[0].weight.abs()).any()))  # networks that ignore their input are refused
    assert_equals_oracle(net, SQUARE)


@pytest.mark.parametrize(
    ("widths", "tiles", "vertices", "edges"),
    [((2, 20, 20, 20, 1), 1109, 1171, 2279), ((2, 64, 64, 64, 64, 1), 20876, 21115, 41990)],
)
def test_counts_that_independent_programs_agree_on(
    widths: tuple[int, ...], tiles: int, vertices: int, edges: int
) -> None:
    tiling = ss.tessellate(_float32(*widths), SQUARE)
    assert (tiling.count, len(tiling.vertices), len(tiling.walls)) == (tiles, vertices, edges)
    assert tiling.check().ok


def _float32(*widths: int) -> nn.Sequential:
    """Drawn in float32, as by those programs."""
    torch.manual_seed(0)
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def test_known_degenerate_counts() -> None:
    zero_bias, duplicated = _float32(2, 20, 20, 1), _float32(2, 20, 20, 1)
    with torch.no_grad():
        for layer in zero_bias[::2]:
            layer.bias.zero_()
        duplicated[0].weight[1::2] = duplicated[0].weight[0::2]
        duplicated[0].bias[1::2] = duplicated[0].bias[0::2]
    assert ss.tessellate(zero_bias, SQUARE).count == 86
    assert ss.tessellate(duplicated, SQUARE).count == 273
