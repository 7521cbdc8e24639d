"""How layers subdivide tiles: against tilings of the first layers alone, and on a network that is self-similar."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope_research import subdivision
from splinescope_research.folds.subdivision import Level, cuts_within


def view(dimension: int) -> ss.Slice:
    return ss.Slice.axes([0.0] * dimension, tuple(range(dimension)), -2.0, 2.0)


def network(dimension: int, width: int) -> nn.Sequential:
    torch.manual_seed(3)
    layers = [nn.Linear(dimension, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(width, 2)).double().eval()


@pytest.mark.parametrize(("dimension", "width"), [(1, 12), (2, 10), (3, 6)])
def test_the_tiles_of_the_first_layers_are_those_of_the_first_layers_alone(dimension, width):
    net = network(dimension, width)
    found = subdivision(ss.tessellate(net, view(dimension)))
    assert [level.depth for level in found.levels] == [0, 1, 2]
    for level in found.levels[1:]:
        alone = ss.tessellate(net[: 2 * level.depth], view(dimension))
        np.testing.assert_allclose(np.sort(level.sizes**dimension), np.sort(alone.areas), rtol=1e-8)
    counts = [len(level.sizes) for level in found.levels]
    assert [int(level.children.sum()) for level in found.levels] == [
        *counts[1:],
        ss.tessellate(net, view(dimension)).count,
    ]
    for level in found.levels:
        assert (level.children >= level.cuts + 1).all()  # every fold that meets a convex tile cuts it
        assert ((level.cuts == 0) == (level.children == 1)).all()
        of_tile = np.bincount(level.parents, level.shares, len(level.sizes))
        np.testing.assert_allclose(of_tile, np.where(level.children > 1, level.children, 0))


def test_sides_and_cuts_are_counted_once_each():
    net = network(2, 10)
    tiling = ss.tessellate(net[:2], view(2))
    found = subdivision(ss.tessellate(net, view(2))).levels[1]
    inside = found.sides[found.sides >= 0]
    rim = np.unique(tiling.walls.tiles[tiling.walls.sites < 0].max(1))
    true = np.setdiff1d(np.arange(tiling.count), rim)
    assert sorted(inside) == sorted(len(tiling.tile(i)) for i in true)
    patterns = torch.tensor(tiling.vertices) @ net[0].weight.T + net[0].bias
    assert subdivision(tiling).levels[0].cuts == ((patterns > 1e-9).any(0) & (patterns < -1e-9).any(0)).sum()


class SideBySide(nn.Module):
    """Two networks on one input, neither of which knows of the other."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.first(x), self.second(x)], 1)


def test_folds_of_an_unrelated_network_cut_the_tiles_of_the_first():
    """Beside it a single fold: it cuts the tiles that have corners on both of its sides, once each."""
    net, line = network(2, 8)[:2], nn.Sequential(nn.Linear(2, 1), nn.ReLU()).double().eval()
    both = ss.tessellate(SideBySide(net, line), view(2))
    found = cuts_within(both, ["first.1"], ["second.1"])
    alone = ss.tessellate(net, view(2))
    np.testing.assert_allclose(np.sort(found.sizes**2), np.sort(alone.areas), rtol=1e-9)
    side = (torch.tensor(alone.vertices) @ line[0].weight.T + line[0].bias).detach().numpy()[:, 0]
    crossed = [
        (side[list(alone.tiles[i])] > 0).any() and (side[list(alone.tiles[i])] < 0).any() for i in range(alone.count)
    ]
    assert set(found.cuts) <= {0, 1}
    assert found.cuts.sum() == sum(crossed)
    with pytest.raises(ss.InputError, match="'third'"):
        cuts_within(both, ["first.1"], ["third"])


def test_a_sawtooth_is_self_similar():
    """Folding the line upon itself again and again: every tile is halved, whatever its size."""
    tent = [nn.Linear(2, 2), nn.Linear(2, 1)]
    with torch.no_grad():
        tent[0].weight.copy_(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
        tent[0].bias.copy_(torch.tensor([0.0, -0.4]))  # uneven, so that sizes differ
        tent[1].weight.copy_(torch.tensor([[2.5, -2.5 - 1 / 0.6]]))
        tent[1].bias.zero_()
    layers: list[nn.Module] = [tent[0], nn.ReLU(), tent[1]]
    for _ in range(3):
        again = nn.Linear(1, 2)
        with torch.no_grad():
            again.weight.fill_(1.0)
            again.bias.copy_(torch.tensor([0.0, -0.4]))
        layers += [again, nn.ReLU(), tent[1]]
    tiling = ss.tessellate(nn.Sequential(*layers).double().eval(), ss.Slice.axes([0.0, 0.0], (0, 1), 0.001, 0.999))
    found = subdivision(tiling)
    for level in found.levels[1:]:
        assert (level.cuts == 1).all()
        assert len(np.unique(level.sizes.round(6))) > 1
        assert level.exponent == pytest.approx(0.0, abs=1e-8)


def test_the_exponent_is_that_of_the_law_it_was_drawn_from():
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(-2, 2, 4000))
    none = np.zeros(0)
    for exponent in (0.0, 0.5, 1.0):
        cuts = rng.poisson(2 * sizes**exponent)
        level = Level(1, sizes, cuts, cuts + 1, cuts, none, none, none)
        assert level.exponent == pytest.approx(exponent, abs=0.05)  # 4000 tiles: standard error 0.01
    assert np.isnan(Level(1, sizes, 0 * cuts, cuts, cuts, none, none, none).exponent)
    assert "every tile is cut alike" in subdivision(ss.tessellate(network(2, 5), view(2))).summary()


def test_the_sides_of_tiles_are_not_taken_for_cuts():
    tiling = ss.tessellate(network(2, 6), view(2))
    with pytest.raises(ss.InputError, match="'1' in both"):
        cuts_within(tiling, ["1", "3"], ["1"])
    with pytest.raises(ss.InputError, match="none in by"):
        cuts_within(tiling, ["1"], [])
