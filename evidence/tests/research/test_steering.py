"""Steering by beta: the bend of known boundaries, what must hold of every beta, and the picture of undecided tiles."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from tests.real import cifar_images, needs_real_networks, resnet20
from torch import Tensor, nn

import splinescope as ss
import splinescope_research
from splinescope import InputError, UnsupportedModelError
from splinescope_research.drawings import plot_entropy


class Sphere(nn.Module):
    """One score: inside or outside a sphere."""

    def __init__(self, radius: float) -> None:
        super().__init__()
        self.radius = radius

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1).norm(dim=1, keepdim=True) - self.radius


class Polygon(nn.Module):
    """One score: inside or outside a regular polygon whose sides have distance 1."""

    def __init__(self, sides: int) -> None:
        super().__init__()
        angle = torch.arange(sides, dtype=torch.float64) * 2 * torch.pi / sides
        self.register_buffer("normals", torch.stack([angle.cos(), angle.sin()], 1))

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.normals.T).amax(1, keepdim=True) - 1


def around(size: int, generator: torch.Generator) -> Tensor:
    """Points at distances 0 to 4."""
    x = torch.randn(200, size, generator=generator)
    return x / x.norm(dim=1, keepdim=True) * torch.rand(200, 1, generator=generator) * 4


@pytest.mark.parametrize(("size", "radius"), [(2, 2.0), (5, 0.9), (30, 2.0)])
def test_a_sphere_turns_by_one_over_its_radius(size: int, radius: float) -> None:
    x = around(size, torch.Generator().manual_seed(0))
    found = splinescope_research.boundary_curvature(Sphere(radius), x, reach=1e-3)
    assert np.allclose(found.turns, 1 / radius, rtol=1e-5)
    assert np.allclose(np.linalg.norm(found.points, axis=1), radius)
    assert found.lost == 0
    wide = splinescope_research.boundary_curvature(Sphere(radius), x, reach=0.2)
    assert np.allclose(wide.turns, math.atan(0.2 / radius) / 0.2)


@pytest.mark.parametrize("sides", [5, 7])
def test_corners_count_by_their_angles_per_length(sides: int) -> None:
    """On a polygon with places spread evenly over its sides the mean turn is 2 pi over the perimeter."""
    side = 2 * math.tan(math.pi / sides)
    along = (torch.arange(40, dtype=torch.float64) + 0.5) / 40 * side - side / 2
    places = torch.cat([n + along[:, None] * torch.stack([-n[1], n[0]]) for n in Polygon(sides).normals])
    x = torch.cat([torch.zeros_like(places), 2 * places])  # rays from the center meet the boundary at the places
    reach = side / 40 * 3  # the corner is passed from three of the forty, on either side
    found = splinescope_research.boundary_curvature(Polygon(sides), x, places=3000, tangents=1, reach=reach)
    expected = 2 * math.pi / (sides * side)
    assert found.lost == 0
    assert abs(found.mean - expected) < 4 * found.error
    assert set(np.unique(np.round(found.turns * reach, 9))) == {0.0, round(2 * math.pi / sides, 9)}


def trained() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    x, y = ss.data.two_moons(80, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net, x, y


@pytest.fixture(scope="module")
def moons() -> tuple[nn.Module, Tensor, Tensor]:
    return trained()


def test_every_beta_is_measured_as_its_softened_network(moons) -> None:
    net, x, y = moons
    before = copy.deepcopy(net.state_dict())
    found = splinescope_research.steer(
        net, x, y, epsilon=0.1, betas=(1.0, 0.4, 0.8), steps=3, restarts=1, queries=4, places=16
    )
    assert found.betas.tolist() == [0.4, 0.8, 1.0]
    reach = splinescope_research.boundary_curvature(net, x, places=16).reach
    for i, beta in enumerate(found.betas):
        soft = ss.soften(net, float(beta))
        assert np.array_equal(found.right[i], (soft(x).argmax(1) == y).numpy())
        assert found.curvature[i] == pytest.approx(
            splinescope_research.boundary_curvature(soft, x, places=16, reach=reach).mean
        )
        alone = ss.complexity.robustness(soft, x, y, epsilons=0.1, steps=3, restarts=1, queries=4)
        assert found.robust[i] <= float(alone.gradient[0])
    assert not (found.survived & ~found.right).any()
    assert found.best() == found.betas[np.flatnonzero(found.accuracy == found.accuracy.max())[-1]]
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_without_a_boundary_there_is_no_curvature(moons) -> None:
    net, x, _ = moons
    one = net(x).argmax(1)
    found = splinescope_research.steer(
        net, x[one == 0], one[one == 0], epsilon=0.1, betas=(1.0,), steps=1, restarts=1, queries=1
    )
    assert np.isnan(found.curvature).all()
    assert found.accuracy.tolist() == [1.0]


def test_the_curves_and_the_map_are_drawn_with_labels(moons) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    net, x, y = moons
    found = splinescope_research.steer(
        net, x, y, epsilon=0.1, betas=(0.6, 1.0), steps=1, restarts=1, queries=1, places=4
    )
    ax = found.plot()
    assert ax.get_xlabel().startswith("beta")
    assert [line.get_label() for line in ax.get_lines()] == ["accuracy", "under linf 0.1"]
    assert np.allclose(ax.get_lines()[0].get_ydata(), found.accuracy)
    entropy = splinescope_research.entropy_map(net, ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2), cells=6)
    ax = entropy.plot("1")
    assert np.allclose(ax.images[0].get_array(), entropy.entropy[0])
    assert np.allclose(plot_entropy(entropy).images[0].get_array(), entropy.total)
    with pytest.raises(InputError, match="'nothing'"):
        entropy.plot("nothing")
    pyplot.close("all")


def test_the_map_is_the_posterior_at_the_pixels_and_empty_outside(moons) -> None:
    net = moons[0]
    view = ss.Slice.through([0.0, 0.0], [2.0, 0.0], [0.0, 2.0], shape="triangle")
    found = splinescope_research.entropy_map(net, view, beta=0.8, cells=9, batch_size=7)
    grid = np.stack(np.meshgrid(found.t1, found.t2), -1).reshape(-1, 2)
    inputs = view.inputs(grid)
    inside = (inputs >= 0).all(1) & (inputs.sum(1) <= 2)
    total = found.total.reshape(-1)
    assert np.array_equal(np.isfinite(total), inside)
    assert 30 < inside.sum() < 60
    expected = splinescope_research.region_posterior(net, torch.from_numpy(inputs[inside]).float(), beta=0.8)
    assert np.allclose(total[inside], expected.total)
    assert found.paths == expected.paths


def test_bad_input_is_named(moons) -> None:
    net, x, y = moons
    with pytest.raises(InputError, match="one class only"):
        splinescope_research.boundary_curvature(net, x[:1])
    with pytest.raises(InputError, match="at least one value"):
        splinescope_research.steer(net, x, y, epsilon=0.1, betas=())
    with pytest.raises(InputError, match=r"\[0, 1\], got 2"):
        splinescope_research.steer(net, x, y, epsilon=0.1, betas=(2.0,))
    with pytest.raises(InputError, match="2-D Slice"):
        splinescope_research.entropy_map(net, ss.Slice.segment([0.0, 0.0], [1.0, 1.0]))
    gelu = nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 2))
    with pytest.raises(UnsupportedModelError, match="no ReLU"):
        splinescope_research.steer(gelu, x, y, epsilon=0.1)


@needs_real_networks
def test_a_real_network_is_steered() -> None:
    """A ResNet-20 near beta = 1 classifies as it did."""
    net, (x, y) = resnet20(), cifar_images()
    found = splinescope_research.steer(
        net, x[:5], y[:5], epsilon=0.02, betas=(0.98, 1.0), steps=1, restarts=1, queries=1, places=2
    )
    assert (found.right[0] == found.right[1]).all()
    assert found.right.sum() >= 8
    assert (found.curvature > 0).all()


def test_the_posterior_is_that_of_independent_units():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2), nn.ReLU()).double()
    x, beta = torch.randn(4, 2, dtype=torch.float64), 0.7
    found = splinescope_research.region_posterior(net, x, beta=beta)
    eta = beta / (1 - beta)
    z1 = net[0](x)
    z2 = net[2](z1 * torch.sigmoid(eta * z1))
    for site, z in enumerate((z1, z2)):
        p = torch.sigmoid(eta * z).detach().numpy()
        assert np.allclose(found.active[site], p)
        codes = np.array(np.meshgrid(*[[0, 1]] * p.shape[1], indexing="ij")).reshape(p.shape[1], -1)  # all of them
        each = np.where(codes[None] == 1, p[:, :, None], 1 - p[:, :, None]).prod(1)
        assert np.allclose(each.sum(1), 1)
        assert np.allclose(found.entropy[:, site], -(each * np.log2(each)).sum(1))
        assert np.allclose(found.log2_probability[:, site], np.log2(each.max(1)))
    assert splinescope_research.region_posterior(net, x, beta=1 - 1e-9).total.max() < 1e-6
    assert splinescope_research.region_posterior(net, x, beta=0.0).total == pytest.approx(5.0)
    assert found.paths == ("1", "3")


def test_the_posterior_of_no_relu_or_of_beta_1_is_refused():
    with pytest.raises(InputError, match=r"\[0, 1\)"):
        splinescope_research.region_posterior(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.zeros(1, 2), beta=1.0)
    with pytest.raises(UnsupportedModelError, match="No ReLU"):
        splinescope_research.region_posterior(nn.Linear(2, 2), torch.zeros(1, 2))
