"""Walls between losers of a maximum: none of the network's, unless another fold lies on them."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope.network.program import units_of_cuts
from splinescope.tiling.engine import advance, spurious_facets
from tests import cases

from .shared_maxima import KINDS, exact_count, graph_of

HALF = 3
DRAWS = 1  # network of each structure; run by hand with hundreds


def view(dimension: int) -> ss.Slice:
    return ss.Slice.axes([0.0] * dimension, tuple(range(dimension)), -HALF, HALF)


def assert_map_is_the_networks(tiling: ss.Tiling, model: nn.Module) -> None:
    points = np.random.default_rng(0).uniform(-HALF, HALF, (50, tiling.dimension))
    tiles = tiling.locate(points)
    found = np.einsum("kcd,kd->kc", tiling.slopes(tiles), points) + tiling.offsets(tiles)
    with torch.no_grad():
        np.testing.assert_allclose(found, model(torch.from_numpy(points)).numpy(), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_networks_with_shared_maxima_are_those_of_exact_arithmetic(kind: str) -> None:
    graph, dimension = graph_of(kind), KINDS[kind][0]
    network = ss.trace(graph, torch.zeros(2, dimension, dtype=torch.float64))
    for draw in range(DRAWS):
        graph.draw(0, draw)
        expected = exact_count(graph, dimension, HALF)
        for options in ({"rows": "plain"}, {"rows": "factored"}, {"rows": "factored", "chunk_bytes": 1}):
            tiling = ss.tessellate(network, view(dimension), progress=False, **options)
            assert tiling.count == expected, (draw, options)
            assert tiling.check().ok, (draw, options)
        assert_map_is_the_networks(tiling, graph)


class Losers(nn.Module):
    """The largest of three numbers, and a fold where two of them are equal."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.layer = nn.Linear(dimension, 3)
        with torch.no_grad():  # the third wins near the origin, where the first and the second are equal
            self.layer.weight.copy_(torch.eye(3, dimension) if dimension > 1 else torch.tensor([[1.0], [-1.0], [0.0]]))
            self.layer.bias.copy_(torch.tensor([0.25, 0.25, 1.0]))

    def forward(self, x: Tensor) -> Tensor:
        z = self.layer(x)
        return torch.stack([z.amax(1), (z[:, 0] - z[:, 1]).relu()], 1)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_tiles_with_different_maps_are_never_joined(dimension: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Losers(dimension).double()
    assert ss.tessellate(model, view(dimension)).count == 4  # the third wins on both sides of the fold
    monkeypatch.setattr(advance, "keep_used", lambda *given: None)
    with pytest.raises(ss.SplinescopeError, match="two tiles with different maps"):
        ss.tessellate(model, view(dimension))


def test_walls_name_a_site_that_folds_there() -> None:
    tiling = ss.tessellate(Losers(2).double(), view(2))
    inner = (tiling.walls.tiles >= 0).all(1)
    sites, _ = units_of_cuts(tiling.sites, tiling.walls.cuts[inner])
    middles = tiling.tiles.corner_means(tiling.vertices)[tiling.walls.tiles[inner]]
    z = Losers(2).double().layer(torch.from_numpy(middles)).detach().numpy()
    winner_changes = z[:, 0].argmax(1) != z[:, 1].argmax(1)
    side_changes = (z[:, 0, 0] > z[:, 0, 1]) != (z[:, 1, 0] > z[:, 1, 1])
    assert sorted(set(sites)) == [0, 1]
    assert np.where(sites == 0, winner_changes, side_changes).all()


def test_folds_on_walls_between_losers_stay_where_parts_of_a_plane_are_joined() -> None:
    model = graph_of("extremes")
    joined = ss.tessellate(model, view(2), workers=1)
    assert joined.check().ok
    assert_map_is_the_networks(joined, model)


def test_tie_of_values_that_are_zero_at_every_probe_is_seen() -> None:
    graph = graph_of("maxout")  # the least of three ReLUs, positive in a few small places alone
    graph.draw(0, 1)
    assert ss.tessellate(graph, view(2)).count == exact_count(graph, 2, HALF) == 47


class LeastOfLeast(nn.Module):
    """The smaller of two minima of ReLUs, which is zero everywhere, beside the ReLUs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 4)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([-0.4, 0.56, -0.23, 0.21])[:, None])
            self.layer.bias.copy_(torch.tensor([-0.03, 0.21, -0.16, -0.42]))

    def forward(self, x: Tensor) -> Tensor:
        z = self.layer(x).relu()
        least = torch.stack([torch.minimum(z[:, 0], z[:, 1]), z[:, 2:].amin(1)], 1)
        return torch.cat([least.amin(1, keepdim=True), z], 1)


@pytest.mark.parametrize("rows", ["plain", "factored"])
def test_values_that_are_zero_at_every_probe_are_rounded_as_what_they_were_made_from(rows: str) -> None:
    tiling = ss.tessellate(LeastOfLeast().double(), view(1), rows=rows, chunk_bytes=1)
    assert tiling.count == 6


@pytest.mark.parametrize("rows", ["plain", "factored"])
def test_sums_that_are_zero_at_every_probe_are_rounded_as_their_terms_in_every_tiling_of_a_network(rows: str) -> None:
    net = cases.mlp(6, 2, 2, 4, 1).double()  # parallel folds: a and -a, 2 b and b, and what is zero where b is
    weights = ([0, -1, -1, 0, -1, 1], [0, 1, 1, 0, 1, -1]), ([-1, -2], [-2, -4]), ([-1, -1], [1, 1], [2, 2], [-2, 0])
    with torch.no_grad():
        for layer, weight, bias in zip(net[:-1:2], weights, ([-1, 1], [1, 2], [0, 0, -1, 1]), strict=True):
            layer.weight.copy_(torch.tensor(weight))
            layer.bias.copy_(torch.tensor(bias))
    middle = np.array([0.29078254, -0.92681453, -0.98609686, 0.42452901, -0.67272618, 0.92846772])
    box = ss.Slice.axes(np.zeros(6), range(6), middle - 2.5, middle + 2.5)
    assert [ss.tessellate(net, box, rows=rows).count for _ in range(2)] == [8, 8]


class LeastWithNorm(nn.Module):
    """The least of four neighbors among the largest absolute value and the values: two pairs draw parts of a wall."""

    def __init__(self) -> None:
        super().__init__()
        rows = [-3, 14, 65, 50, 38, 105, 49, 34, 21, 6, 33, 14, -52, -9, -104, 30, -63, -9, 61, 8, -3]
        self.layer = nn.Linear(3, 7)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor(rows).reshape(7, 3) / 100)
            self.layer.bias.copy_(torch.tensor([82, -15, 56, -18, -26, 2, -44]) / 100)

    def forward(self, x: Tensor) -> Tensor:
        z = self.layer(x)
        return nn.functional.max_pool1d(-torch.cat([z.abs().amax(1, keepdim=True), z], 1)[:, None], 4, 1)[:, 0]


def test_two_solid_tiles_share_one_facet_whichever_pairs_of_a_max_draw_it() -> None:
    tiling = ss.tessellate(LeastWithNorm().double(), ss.Slice.axes([0.0] * 3, (0, 1, 2), -2, 2), progress=False)
    pairs = np.sort(tiling.walls.tiles[(tiling.walls.tiles >= 0).all(1)], axis=1)
    assert len(np.unique(pairs, axis=0)) == len(pairs)
    assert tiling.check().ok


def test_merged_solid_tiles_that_lose_volume_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    union = spurious_facets._union

    def without_a_corner(*given):
        ids, table, labels = union(*given)
        return ids[1:], table[1:], labels

    monkeypatch.setattr(spurious_facets, "_union", without_a_corner)
    with pytest.raises(ss.SplinescopeError, match=r"lost .* of the slice"):
        ss.tessellate(LeastWithNorm().double(), ss.Slice.axes([0.0] * 3, (0, 1, 2), -2, 2), progress=False)
