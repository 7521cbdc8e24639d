import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import splinescope as ss

from ... import cases
from .test_maps import outputs


def sampled_crossings(name: str, points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether the winner of the user's own module differs between points and others."""
    a, b = outputs(name, points), outputs(name, others)
    if a.shape[1] == 1:
        return (a[:, 0] > 0) != (b[:, 0] > 0)
    return a.argmax(1) != b.argmax(1)


@pytest.mark.parametrize("name", cases.CASES)
def test_boundary_lies_where_two_classes_tie_and_none_is_ahead(name: str) -> None:
    boundary = cases.tiling(name).decision_boundary()
    points = np.concatenate([boundary.segments[:, 0], boundary.segments.mean(1), boundary.segments[:, 1]])
    values = outputs(name, points)
    if values.shape[1] == 1:
        values = np.pad(values, ((0, 0), (1, 0)))
    scale = np.abs(outputs(name, cases.tiling(name).vertices)).max()
    rows, pairs = np.arange(len(values)), np.tile(boundary.classes, (3, 1))
    first, second = values[rows, pairs[:, 0]], values[rows, pairs[:, 1]]
    assert np.abs(first - second).max(initial=0) <= 1e-9 * scale
    assert (values.max(1, initial=-np.inf) - first).max(initial=0) <= 1e-9 * scale


@pytest.mark.parametrize("name", cases.planes())
def test_winner_changes_across_the_boundary(name: str) -> None:
    tiling = cases.tiling(name)
    boundary = tiling.decision_boundary()
    keep = boundary.lengths > 1e-3  # short ones leave no room to step aside
    segments, pairs = boundary.segments[keep], boundary.classes[keep]
    along = segments[:, 1] - segments[:, 0]
    aside = 1e-6 * np.stack([-along[:, 1], along[:, 0]], 1) / np.linalg.norm(along, axis=1, keepdims=True)
    middle = segments.mean(1)
    winners = []
    for sign in (-1, 1):
        values = outputs(name, middle + sign * aside)
        winners.append((values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(1))
    inside = tiling.locate(middle + aside) >= 0
    inside &= tiling.locate(middle - aside) >= 0
    np.testing.assert_array_equal(np.sort(np.stack(winners, 1), axis=1)[inside], pairs[inside])


@pytest.mark.parametrize("name", cases.planes())
def test_no_boundary_is_missed_on_a_dense_grid(name: str) -> None:
    """A step of the grid on which the winner changes must meet the boundary: it is no farther than half the step."""
    tiling = cases.tiling(name)
    low, high = tiling.view.domain.min(0), tiling.view.domain.max(0)
    x, y = (np.linspace(low[i], high[i], 71) for i in (0, 1))
    grid = np.stack(np.meshgrid(x, y), 2)
    boundary = tiling.decision_boundary()
    for a, b in ((grid[:-1], grid[1:]), (grid[:, :-1], grid[:, 1:])):
        a, b = a.reshape(-1, 2), b.reshape(-1, 2)
        inside = (tiling.locate(a) >= 0) & (tiling.locate(b) >= 0)
        a, b = a[inside], b[inside]
        step = np.linalg.norm(b[0] - a[0])
        changes = sampled_crossings(name, a, b)
        reach = boundary.distances((a[changes] + b[changes]) / 2)
        assert reach.max(initial=0) <= step / 2 * (1 + 1e-9)


def test_a_class_that_wins_at_no_corner_still_has_its_region() -> None:
    """Outputs 5x, -5x and 1 on a square: the third wins only in a strip through the middle of the only tile."""
    net = nn.Sequential(nn.Linear(2, 3)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[5.0, 0.0], [-5.0, 0.0], [0.0, 0.0]]))
        net[0].bias.copy_(torch.tensor([0.0, 0.0, 1.0]))
    boundary = ss.tessellate(net, cases.Square).decision_boundary()
    assert boundary.pairs == [(0, 2), (1, 2)]
    assert boundary.length == pytest.approx(8.0, rel=1e-12)
    line = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], 0, -2, 2)).decision_boundary()
    np.testing.assert_allclose(np.sort(line.segments[:, 0, 0]), [-0.2, 0.2], rtol=1e-12)


def absolute_against(weights: list[float]) -> nn.Sequential:
    """Two outputs: `weights @ (relu(x), relu(-x))` and zero."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
        net[0].bias.zero_()
        net[2].weight.copy_(torch.tensor([weights, [0.0, 0.0]]))
        net[2].bias.zero_()
    return net


@pytest.mark.parametrize(
    ("weights", "length"),
    [
        ([1.0, -1.0], 4.0),  # first wins right, second left: the boundary is the fold x = 0 itself
        ([-1.0, 1.0], 4.0),
        ([0.0, -1.0], 4.0),  # a tie on the whole right half belongs to the first, as in argmax
        ([-1.0, -1.0], 0.0),  # second wins on both sides and ties on the fold only: no boundary
        ([1.0, 1.0], 0.0),
    ],
)
def test_boundary_along_a_wall_is_found_once(weights: list[float], length: float) -> None:
    net = ss.trace(absolute_against(weights), torch.zeros(1, 2))
    boundary = ss.tessellate(net, cases.Square).decision_boundary()
    assert boundary.length == pytest.approx(length, abs=1e-12)
    np.testing.assert_allclose(boundary.segments[..., 0], 0.0, atol=1e-12)
    points = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], 0, -1, 1)).decision_boundary()
    assert len(points) == (length > 0)


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1)])
@pytest.mark.parametrize("hidden", [False, True])
def test_a_class_that_ties_only_on_the_boundary_is_not_named(order: tuple[int, ...], hidden: bool) -> None:
    """Outputs x, -x and 0 all tie on x = 0, where the last one wins nowhere; with folds at x = 0 or without."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 3)) if hidden else nn.Sequential(nn.Linear(2, 3))
    rows = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]] if hidden else [[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    with torch.no_grad():
        net[0].bias.zero_()
        net[-1].bias.zero_()
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]])) if hidden else None
        net[-1].weight.copy_(rows[list(order)])
    winners = tuple(sorted((order.index(0), order.index(1))))
    boundary = ss.tessellate(net.double(), cases.Square).decision_boundary()
    assert boundary.pairs == [winners]
    assert boundary.length == pytest.approx(4.0, rel=1e-12)


def test_boundary_along_a_wall_whose_ends_belong_to_other_classes_is_found() -> None:
    """min(x, 3x) + 1 and 1 tie on the wall x = 0; 3y and -3y win beyond |y| = 1/3, also at both its ends."""
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]))
        net[0].bias.copy_(torch.tensor([0.0, 0.0, 9.0]))  # the last one is y + 9, without a fold on the square
        net[2].weight.copy_(torch.tensor([[1.0, -3.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, -3.0]]))
        net[2].bias.copy_(torch.tensor([1.0, 1.0, -27.0, 27.0]))
    boundary = ss.tessellate(net, cases.Square).decision_boundary()
    along = boundary.segments[(boundary.classes == (0, 1)).all(1)]
    assert len(along) == 1
    np.testing.assert_allclose(along[0, :, 0], 0.0, atol=1e-12)
    np.testing.assert_allclose(np.sort(along[0, :, 1]), [-1 / 3, 1 / 3], rtol=1e-9)


@pytest.mark.parametrize("name", cases.planes())
def test_polylines_are_the_segments_joined(name: str) -> None:
    boundary = cases.tiling(name).decision_boundary()
    lines = boundary.polylines
    total = sum(np.linalg.norm(np.diff(points, axis=0), axis=1).sum() for _, points in lines)
    assert total == pytest.approx(boundary.length, rel=1e-12)
    assert sum(len(points) - 1 for _, points in lines) == len(boundary)
    assert {pair for pair, _ in lines} == set(boundary.pairs)
    ends: dict[tuple, int] = {}  # lines are as long as can be: no two could be joined to one
    for pair, points in lines:
        for end in (points[0], points[-1]):
            ends[(pair, *end)] = ends.get((pair, *end), 0) + 1
    closed = {(pair, *points[0]) for pair, points in lines if (points[0] == points[-1]).all()}
    assert all(count != 2 for end, count in ends.items() if end not in closed)


@settings(max_examples=20, deadline=None)
@given(st.floats(-0.9, 0.9), st.sampled_from([0, 1, 2]))
def test_output_equals_the_value_on_its_level_set(share: float, output: int) -> None:
    tiling = cases.tiling("two layers")
    value = share * np.abs(tiling.values[:, output]).max()
    level = tiling.level_set(value, output)
    heights = outputs("two layers", level.segments.reshape(-1, 2))[:, output]
    np.testing.assert_allclose(heights, value, atol=1e-11 * np.abs(tiling.values).max(), rtol=0)
    between = tiling.values[:, output].min() < value < tiling.values[:, output].max()
    assert (len(level) > 0) == between


def test_level_set_of_a_distance_has_its_known_length() -> None:
    """|x| + |y| = 1 is a square of side sqrt(2)."""
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        net[0].bias.zero_()
        net[2].weight.fill_(1.0)
        net[2].bias.fill_(-1.0)
    tiling = ss.tessellate(net, cases.Square)
    boundary = tiling.decision_boundary()
    assert boundary.length == pytest.approx(4 * np.sqrt(2), rel=1e-12)
    [(pair, points)] = boundary.polylines
    assert pair == (0, 1)
    np.testing.assert_array_equal(points[0], points[-1])
    assert tiling.level_set(-0.5).length == pytest.approx(2 * np.sqrt(2), rel=1e-12)
    with pytest.raises(ss.InputError, match="output must be"):
        tiling.level_set(0.0, output=1)


def test_samples_lie_on_the_boundary_in_proportion_to_length() -> None:
    boundary = cases.tiling("two layers").decision_boundary()
    points = boundary.sample(20_000, generator=torch.Generator().manual_seed(0))
    assert boundary.distances(points[:500]).max() <= 1e-12
    for pair in boundary.pairs:
        share = boundary.lengths[(boundary.classes == pair).all(1)].sum() / boundary.length
        values = outputs("two layers", points)
        top = np.sort(np.argsort(values, axis=1)[:, -2:], axis=1)
        assert (top == pair).all(1).mean() == pytest.approx(share, abs=4 * np.sqrt(share / 20_000))
    empty = ss.tessellate(absolute_against([1.0, 1.0]), cases.Square).decision_boundary()
    with pytest.raises(ss.InputError, match="no boundary"):
        empty.sample(1)
