"""Tiles joined where they share a wall: the dual graph, and pieces of one affine map."""

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss

from ... import cases


def lattice_net() -> nn.Sequential:
    """The max of five affine functions, behind a layer of pairs `relu(z) - relu(-z) = z` that fold without effect.

    Planes touch a paraboloid at five points, so each is the largest on one convex piece. The max is taken as
    `max(a, b) = a + relu(b - a)`, one plane after another, carrying x along as pairs.
    """
    points = torch.tensor([[0.0, 0.0], [1.2, 0.4], [-0.9, 1.1], [-1.0, -0.8], [0.7, -1.3]], dtype=torch.float64)
    slopes, offsets = 2 * points, -(points**2).sum(1)
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(18, 2, generator=generator, dtype=torch.float64)
    b = torch.rand(18, generator=generator, dtype=torch.float64) - 0.5
    first = nn.Linear(2, 36).double()
    read = torch.linalg.pinv(w)  # x = read @ (z - b)
    with torch.no_grad():
        first.weight.copy_(torch.cat([w, -w]))
        first.bias.copy_(torch.cat([b, -b]))
    x_of = torch.cat([read, -read], 1)  # x + read @ b from the 36 units
    shift = read @ b
    layers: list[nn.Module] = [first, nn.ReLU()]
    # state (best so far, x): before the first comparison, best = plane 0
    state = torch.cat([(slopes[0] @ x_of)[None], x_of])
    state_bias = torch.cat([(offsets[0] - slopes[0] @ shift)[None], -shift])
    for k in range(1, 5):
        compare = torch.cat([torch.tensor([[-1.0]], dtype=torch.float64), slopes[k][None]], 1)
        rows = torch.cat([compare, torch.eye(3, dtype=torch.float64), -torch.eye(3, dtype=torch.float64)])
        linear = nn.Linear(state.shape[1], 7).double()
        with torch.no_grad():
            linear.weight.copy_(rows @ state)
            linear.bias.copy_(rows @ state_bias + torch.cat([offsets[k][None], torch.zeros(6)]))
        layers += [linear, nn.ReLU()]
        state = torch.cat([torch.zeros(3, 1), torch.eye(3), -torch.eye(3)], 1).double()
        state[0, 0] = 1.0
        state_bias = torch.zeros(3, dtype=torch.float64)
    last = nn.Linear(7, 1).double()
    with torch.no_grad():
        last.weight.copy_(state[:1])
        last.bias.zero_()
    return nn.Sequential(*layers, last)


def test_lattice_network_has_hundreds_of_tiles_and_five_pieces() -> None:
    tiling = ss.tessellate(lattice_net(), cases.Square)
    assert tiling.count > 200
    found = tiling.pieces()
    assert found.count == 5
    np.testing.assert_allclose(found.areas.sum(), tiling.view.size, rtol=1e-12)
    # the pieces are where each plane is the largest
    points = np.array([[0.0, 0.0], [1.2, 0.4], [-0.9, 1.1], [-1.0, -0.8], [0.7, -1.3]])
    planes = tiling.centroids() @ (2 * points).T - (points**2).sum(1)
    for label in range(5):
        assert len(np.unique(planes[found.labels == label].argmax(1))) == 1


@pytest.mark.parametrize("name", cases.CASES)
def test_tiles_of_a_piece_share_their_map_and_neighbors_of_others_do_not(name: str) -> None:
    tiling = cases.tiling(name)
    found = tiling.pieces()
    slopes = tiling.slopes()
    sides = tiling.walls.tiles[(tiling.walls.tiles >= 0).all(1)]
    gaps = np.linalg.norm(slopes[sides[:, 0]] - slopes[sides[:, 1]], axis=(1, 2))
    joined = found.labels[sides[:, 0]] == found.labels[sides[:, 1]]
    assert (gaps[~joined] > found.tolerance).all()
    for label in range(found.count):
        members = slopes[found.labels == label]
        assert np.linalg.norm(members - members[0], axis=(1, 2)).max() <= len(members) * found.tolerance
    assert (np.unique(found.labels) == np.arange(found.count)).all()


def test_a_dead_network_is_one_piece() -> None:
    net = cases.mlp(2, 6, 4, 2).double()
    with torch.no_grad():
        net[2].bias.fill_(-100.0)
    tiling = ss.tessellate(net, cases.Square)
    assert tiling.count > 5
    assert tiling.pieces().count == 1


@pytest.mark.parametrize("name", cases.CASES)
def test_degrees_count_the_walls_to_other_tiles(name: str) -> None:
    tiling = cases.tiling(name)
    graph = tiling.dual_graph()
    assert [degree for _, degree in graph.to_networkx().degree] == graph.degrees.tolist()
    neighbors: list[set[int]] = [set() for _ in range(tiling.count)]
    for a, b in tiling.walls.tiles:
        if a >= 0 and b >= 0:
            neighbors[a].add(int(b))
            neighbors[b].add(int(a))
    assert graph.edges.tolist() == sorted([a, b] for a, others in enumerate(neighbors) for b in others if a < b)
    np.testing.assert_array_equal(graph.degrees, [len(n) for n in neighbors])


def test_neighbors_across_a_wall_differ_in_activations() -> None:
    """One unit switches across a wall of one layer."""
    tiling = cases.tiling("one layer")
    active = tiling.active_units()
    edges = tiling.dual_graph().edges
    assert (np.abs(active[edges[:, 0]] - active[edges[:, 1]]) == 1).all()
