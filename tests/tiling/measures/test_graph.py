"""Tiles joined where they share a wall: the dual graph, and pieces of one affine map."""

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss

from ... import cases

POINTS = torch.tensor([[0.0, 0.0], [1.2, 0.4], [-0.9, 1.1], [-1.0, -0.8], [0.7, -1.3]], dtype=torch.float64)


class Lattice(nn.Module):
    """The max of five affine functions, behind a layer of pairs `relu(z) - relu(-z) = z` that fold without effect.

    Planes touch a paraboloid at five points, so each is the largest on one convex piece.
    """

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(18, 2, generator=generator, dtype=torch.float64))
        self.bias = nn.Parameter(torch.rand(18, generator=generator, dtype=torch.float64) - 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = x @ self.weight.T + self.bias
        same = (z.relu() - (-z).relu() - self.bias) @ torch.linalg.pinv(self.weight).T
        return (same @ (2 * POINTS).T - (POINTS**2).sum(1)).amax(1, keepdim=True)


def test_a_lattice_has_many_tiles_and_five_pieces() -> None:
    tiling = ss.tessellate(Lattice(), cases.Square)
    assert tiling.count > 100
    found = tiling.pieces()
    assert found.count == 5
    np.testing.assert_allclose(found.areas.sum(), tiling.view.size, rtol=1e-12)
    # the pieces are where each plane is the largest
    points = POINTS.numpy()
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
