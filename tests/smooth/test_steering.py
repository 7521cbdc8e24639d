"""Steering by beta: the bend of known boundaries, what must hold of every beta, and the picture of undecided tiles."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope import InputError, UnsupportedModelError
from splinescope.complexity import robustness
from splinescope.complexity.attacks import rows_at_once
from splinescope.plot.smooth import plot_entropy
from tests.real import cifar_images, needs_real_networks, resnet20


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
    found = ss.smooth.boundary_curvature(Sphere(radius), x, reach=1e-3)
    assert np.allclose(found.turns, 1 / radius, rtol=1e-5)
    assert np.allclose(np.linalg.norm(found.points, axis=1), radius)
    assert found.lost == 0
    wide = ss.smooth.boundary_curvature(Sphere(radius), x, reach=0.2)
    assert np.allclose(wide.turns, math.atan(0.2 / radius) / 0.2)


class Wide(nn.Module):
    """Keeps `size` numbers per point for its gradient, and notes the most points it was given with gradients on."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.seen = size, 0
        self.first, self.last = nn.Linear(2, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self.seen = max(self.seen, len(x))
        h = torch.relu(self.first(x))
        return self.last(h) + (h[:, :1] * torch.ones(self.size, dtype=x.dtype)).sin().mean(1, keepdim=True)


def test_points_are_taken_as_many_at_a_time_as_their_activations_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    monkeypatch.setattr("splinescope.complexity.attacks._MEMORY", 1 << 20)
    model, x = Wide(1 << 11), torch.randn(60, 2)  # 16 KB per point in float64, and some
    y = model(x).argmax(1)
    given = []
    model.register_forward_pre_hook(lambda m, a: given.append(len(a[0])) if torch.is_grad_enabled() else None)
    ss.smooth.boundary_curvature(model, x, places=40)
    small = Wide(1).double()
    small.load_state_dict(model.state_dict())
    assert rows_at_once(small, x[:1].double()) == 1024
    assert 16 <= rows_at_once(model.double(), x[:1].double()) <= 64
    found = robustness(model, x.double(), y, epsilons=0.05, steps=2, restarts=1, queries=2, batch_size=None)
    assert max(given) <= 64
    model.seen = 0
    again = robustness(model, x.double(), y, epsilons=0.05, steps=2, restarts=1, queries=2)
    assert model.seen == 60
    assert torch.equal(found.right, again.right)


def test_the_bend_does_not_depend_on_how_many_points_are_taken_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x = around(3, torch.Generator().manual_seed(0))
    whole = ss.smooth.boundary_curvature(Sphere(2.0), x, reach=0.1)
    monkeypatch.setattr("splinescope.smooth.bending.rows_at_once", lambda *_: 7)
    parts = ss.smooth.boundary_curvature(Sphere(2.0), x, reach=0.1)
    assert np.allclose(parts.turns, whole.turns, rtol=1e-9)
    assert np.allclose(parts.points, whole.points, rtol=1e-9)


@pytest.mark.parametrize("sides", [5, 7])
def test_corners_count_by_their_angles_per_length(sides: int) -> None:
    """On a polygon with places spread evenly over its sides the mean turn is 2 pi over the perimeter."""
    side = 2 * math.tan(math.pi / sides)
    along = (torch.arange(40, dtype=torch.float64) + 0.5) / 40 * side - side / 2
    places = torch.cat([n + along[:, None] * torch.stack([-n[1], n[0]]) for n in Polygon(sides).normals])
    x = torch.cat([torch.zeros_like(places), 2 * places])  # rays from the center meet the boundary at the places
    reach = side / 40 * 3  # the corner is passed from three of the forty, on either side
    found = ss.smooth.boundary_curvature(Polygon(sides), x, places=3000, tangents=1, reach=reach)
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
    found = ss.smooth.steer(net, x, y, epsilon=0.1, betas=(1.0, 0.4, 0.8), steps=3, restarts=1, queries=4, places=16)
    assert found.betas.tolist() == [0.4, 0.8, 1.0]
    reach = ss.smooth.boundary_curvature(net, x, places=16).reach
    for i, beta in enumerate(found.betas):
        soft = ss.soften(net, float(beta))
        assert np.array_equal(found.right[i], (soft(x).argmax(1) == y).numpy())
        assert found.curvature[i] == pytest.approx(ss.smooth.boundary_curvature(soft, x, places=16, reach=reach).mean)
        alone = ss.complexity.robustness(soft, x, y, epsilons=0.1, steps=3, restarts=1, queries=4)
        assert found.robust[i] <= float(alone.gradient[0])
    assert not (found.survived & ~found.right).any()
    assert found.best() == found.betas[np.flatnonzero(found.accuracy == found.accuracy.max())[-1]]
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_without_a_boundary_there_is_no_curvature(moons) -> None:
    net, x, _ = moons
    one = net(x).argmax(1)
    found = ss.smooth.steer(net, x[one == 0], one[one == 0], epsilon=0.1, betas=(1.0,), steps=1, restarts=1, queries=1)
    assert np.isnan(found.curvature).all()
    assert found.accuracy.tolist() == [1.0]


def test_the_curves_and_the_map_are_drawn_with_labels(moons) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    net, x, y = moons
    found = ss.smooth.steer(net, x, y, epsilon=0.1, betas=(0.6, 1.0), steps=1, restarts=1, queries=1, places=4)
    ax = found.plot()
    assert ax.get_xlabel().startswith("beta")
    assert [line.get_label() for line in ax.get_lines()] == ["accuracy", "under linf 0.1"]
    assert np.allclose(ax.get_lines()[0].get_ydata(), found.accuracy)
    entropy = ss.smooth.entropy_map(net, ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2), cells=6)
    ax = entropy.plot("1")
    assert np.allclose(ax.images[0].get_array(), entropy.entropy[0])
    assert np.allclose(plot_entropy(entropy).images[0].get_array(), entropy.total)
    with pytest.raises(InputError, match="'nothing'"):
        entropy.plot("nothing")
    pyplot.close("all")


def test_the_map_is_the_posterior_at_the_pixels_and_empty_outside(moons) -> None:
    net = moons[0]
    view = ss.Slice.through([0.0, 0.0], [2.0, 0.0], [0.0, 2.0], shape="triangle")
    found = ss.smooth.entropy_map(net, view, beta=0.8, cells=9, batch_size=7)
    grid = np.stack(np.meshgrid(found.t1, found.t2), -1).reshape(-1, 2)
    inputs = view.inputs(grid)
    inside = (inputs >= 0).all(1) & (inputs.sum(1) <= 2)
    total = found.total.reshape(-1)
    assert np.array_equal(np.isfinite(total), inside)
    assert 30 < inside.sum() < 60
    expected = ss.smooth.region_posterior(net, torch.from_numpy(inputs[inside]).float(), beta=0.8)
    assert np.allclose(total[inside], expected.total)
    assert found.paths == expected.paths


def test_bad_input_is_named(moons) -> None:
    net, x, y = moons
    with pytest.raises(InputError, match="one class only"):
        ss.smooth.boundary_curvature(net, x[:1])
    with pytest.raises(InputError, match="at least one value"):
        ss.smooth.steer(net, x, y, epsilon=0.1, betas=())
    with pytest.raises(InputError, match=r"\[0, 1\], got 2"):
        ss.smooth.steer(net, x, y, epsilon=0.1, betas=(2.0,))
    with pytest.raises(InputError, match="2-D Slice"):
        ss.smooth.entropy_map(net, ss.Slice.segment([0.0, 0.0], [1.0, 1.0]))
    gelu = nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 2))
    with pytest.raises(UnsupportedModelError, match="no ReLU"):
        ss.smooth.steer(gelu, x, y, epsilon=0.1)


@needs_real_networks
def test_a_real_network_is_steered() -> None:
    """A ResNet-20 near beta = 1 classifies as it did."""
    net, (x, y) = resnet20(), cifar_images()
    found = ss.smooth.steer(
        net, x[:5], y[:5], epsilon=0.02, betas=(0.98, 1.0), steps=1, restarts=1, queries=1, places=2
    )
    assert (found.right[0] == found.right[1]).all()
    assert found.right.sum() >= 8
    assert (found.curvature > 0).all()
