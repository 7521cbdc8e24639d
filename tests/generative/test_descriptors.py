"""Local geometry of a generator: scaling, rank, complexity."""

from __future__ import annotations

import torch
from torch import nn

from splinescope.generative import geometry_map, local_geometry, log_volume
from splinescope.generative.descriptors import effective_rank
from splinescope.generative.exact import TiledManifold


def test_effective_rank_of_equal_values_is_their_number() -> None:
    values = torch.tensor([[2.0, 2.0, 2.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    assert torch.allclose(effective_rank(values), torch.tensor([3.0, 1.0, 0.0], dtype=torch.float64))


def test_scaling_and_rank_are_those_of_the_volume() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6)).double()
    z = torch.randn(5, 4, dtype=torch.float64)
    found, volumes = local_geometry(net, z), log_volume(net, z)
    assert torch.equal(found.scaling, volumes.log)
    assert torch.equal(found.rank, volumes.rank)
    assert ((found.effective_rank > 1) & (found.effective_rank <= 4)).all()
    assert found.complexity.isnan().all()


def test_a_map_takes_the_tiles_volumes(surface: nn.Sequential, manifold: TiledManifold) -> None:
    t, geometry = geometry_map(surface, manifold.tiling.view, resolution=12)
    assert t.shape == (144, 2)
    assert t[1, 0] > t[0, 0]
    known = set(manifold.log_volumes[manifold.log_volumes > -1e300].round(9))
    full = geometry.rank == 2
    assert full.any()
    assert all(float(value.round(decimals=9)) in known for value in geometry.scaling[full])


def test_complexity_counts_folds_near_the_latent() -> None:
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 3), nn.Sigmoid()).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0]]))
        net[0].bias.zero_()
    z = torch.tensor([[0.05, 0.3], [2.0, 0.3]], dtype=torch.float64)
    found = local_geometry(net, z, radius=0.5)
    assert found.complexity.tolist() == [1.0, 0.0]
