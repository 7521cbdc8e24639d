"""One unit, one name and one number per site, whoever speaks of it."""

import matplotlib.pyplot as plt
import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope.network.program import site_names
from splinescope.plot.normalization import plot_fold_distances


class Shared(nn.Module):
    """A pool between folds, functions of the model itself, and one module that has two paths."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act = nn.Conv2d(1, 2, 3), nn.ReLU()
        self.body = nn.Sequential(nn.Conv2d(2, 3, 2), self.act)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(self.act(self.first(x)), 2)
        return self.body(x).flatten(1).clamp(-0.2, 0.3)


NAMES = ["0 act relu", "1 max_pool2d", "2 body.1 relu", "3 clamp"]


@pytest.fixture(scope="module")
def network() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return Shared(), torch.randn(12, 1, 8, 8)


def test_every_part_has_the_same_sites(network):
    model, x = network
    traced = ss.trace(model, x).sites
    assert site_names(traced) == NAMES
    for method in ("frame", "distance"):
        found = ss.local_complexity(model, x[:2], radius=0.01, method=method)
        assert found.names == NAMES, method
        assert [site.units for site in found.sites] == [site.units for site in traced] == [72, 18, 12, 24], method
    monitor = ss.ComplexityMonitor(model, x, radius=0.1)
    monitor.step(0)
    assert [key.partition("/")[2] for key in monitor.records[0] if "/" in key] == NAMES
    tiling = ss.tessellate(model, ss.Slice.through(*x[:3].double()))
    assert site_names(tiling.sites) == NAMES
    for text in (ss.trace(model, x).summary(), found.summary(), ss.normalization.fold_distances(model, x).summary()):
        assert all(name in text for name in NAMES if "pool" not in name)


def test_distances_count_channels_and_number_sites_with_the_pools(network):
    model, x = network
    found = ss.normalization.fold_distances(model, x)
    assert found.names == [name for name in NAMES if "pool" not in name]
    assert [site.number for site in found] == [0, 2, 3]
    assert [(record["units"], record["channels"]) for record in found.records()] == [(72, 2), (12, 3), (24, 24)]
    ax = plot_fold_distances(found)
    assert ax.lines[0].get_xdata().tolist() == [0, 2, 3]
    plt.close(ax.figure)
    with torch.no_grad():
        model.body[0].bias[1] = -100.0
    dead = ss.normalization_report(model, x).of_kind("dead")
    assert [(f.where, f.channels, f.of) for f in dead] == [("2 body.1 relu", 1, 3)]
