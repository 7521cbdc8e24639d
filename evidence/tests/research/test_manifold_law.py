"""How data lie on a generator's manifold: laws known by construction, and what cannot be told."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.generative import Box, Gaussian, Sphere
from splinescope_research import manifold_law, project
from splinescope_research.generators.manifold_law import _tilt


class Hill(nn.Module):
    """`z -> (z, height(z))`: injective, with volume factors from 1 to 3."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.height = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 1)).double()
        with torch.no_grad():
            self.height[0].weight.mul_(3)
            self.height[2].weight.mul_(4)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return torch.cat([z, self.height(z)], 1)


@pytest.fixture(scope="module")
def hill() -> Hill:
    return Hill().eval()


def drawn(hill: Hill, rho: float, count: int, seed: int) -> torch.Tensor:
    """Data whose law on the manifold is q^(1 - rho): latents of the square, weighted by the volume to the power rho."""
    rng = torch.Generator().manual_seed(seed)
    z = Box(2).draw(20_000, rng)
    weights = (rho * ss.log_volume(hill, z).log).softmax(0)
    return z[torch.multinomial(weights, count, generator=rng)]


def test_points_of_the_manifold_are_found_again(hill):
    z = drawn(hill, 0.0, 60, 1)
    found = project(hill, hill(z).detach(), Box(2), Box(2).draw(500, torch.Generator().manual_seed(2)))
    assert float(found.distances.max()) < 1e-9
    torch.testing.assert_close(found.latents, z, atol=1e-8, rtol=0)


def test_where_the_generator_is_flat_a_point_stays_or_moves_along_it():
    flat = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    with torch.no_grad():
        flat[0].weight.copy_(torch.eye(2))
    start = torch.tensor([[-0.5, -0.5], [0.5, -0.5]])  # both units are off, one is
    target = torch.tensor([[0.3, 0.4]])
    found = project(flat, target, Box(2), start[:1], starts=1)
    torch.testing.assert_close(found.latents, start[:1].double())
    assert float(found.distances) == pytest.approx(0.5)
    found = project(flat, target, Box(2), start[1:], starts=1, steps=60)
    torch.testing.assert_close(found.latents, torch.tensor([[0.3, -0.5]]).double(), atol=1e-3, rtol=0)


def test_off_the_manifold_of_a_sphere_what_is_left_is_normal_to_it():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 5)).double().eval()
    sphere, rng = Sphere(3), torch.Generator().manual_seed(2)
    x = net(sphere.draw(30, rng)).detach() + 0.05 * torch.randn(30, 5, generator=rng, dtype=torch.float64)
    found = project(net, x, sphere, sphere.draw(500, rng), steps=200)
    slopes = torch.func.vmap(torch.func.jacrev(net))(found.latents) @ sphere.tangents(found.latents)
    left = x - net(found.latents).detach()
    assert float((slopes.mT @ left[:, :, None]).detach().norm(dim=1).max()) < 1e-6
    assert (found.distances <= torch.cdist(x, net(sphere.draw(20_000, rng)).detach()).amin(1) + 1e-9).all()


def test_no_point_of_a_pool_is_nearer_than_the_projection(hill):
    rng = torch.Generator().manual_seed(3)
    x = torch.randn(40, 3, generator=rng, dtype=torch.float64)
    found = project(hill, x, Box(2), Box(2).draw(500, rng))
    others = torch.cdist(x, hill(Box(2).draw(20_000, rng))).amin(1)
    assert (found.latents.abs() <= 1).all()
    assert (found.distances <= others + 0.02).all()  # the pool's own spacing is about 0.01
    torch.testing.assert_close((hill(found.latents) - x).norm(dim=1), found.distances)


@pytest.mark.parametrize("rho", [0.0, 1.0, -1.0])
def test_the_exponent_that_made_the_data_is_found_and_the_other_law_refused(hill, rho):
    x = hill(drawn(hill, rho, 600, 5)).detach()
    found = manifold_law(hill, x, Box(2), pool=2000, reference=2000, draws=1000)
    assert found.interval[0] - 0.1 < rho < found.interval[1] + 0.1
    assert found.interval[0] < found.rho < found.interval[1]
    assert (found.p_model > 0.01) == (rho == 0)
    assert (found.p_uniform > 0.01) == (rho == 1)
    assert found.effective > 500
    expected = ss.log_volume(hill, found.projection.latents).log + np.log(4)  # the square has density 1 / 4
    np.testing.assert_allclose(found.surprise, expected, atol=1e-9)


def test_noise_off_the_manifold_does_not_refuse_the_model(hill):
    rng = torch.Generator().manual_seed(8)
    x = hill(drawn(hill, 0.0, 400, 6)).detach() + 0.3 * torch.randn(400, 3, generator=rng, dtype=torch.float64)
    found = manifold_law(hill, x, Box(2), pool=1000, reference=1000, draws=500)
    assert found.p_model > 0.01
    assert float(found.projection.distances.median()) > 0.1


def test_a_small_reference_is_not_taken_for_the_law_itself(hill):
    """Eight points of data for each of the reference, whose own mean is three times as uncertain as theirs: if that is
    forgotten, a true law is refused at 5% every second time, and half of the intervals miss."""
    found = []
    for seed in range(14):
        rng = torch.Generator().manual_seed(seed)
        x = hill(drawn(hill, 0.0, 400, 100 + seed)).detach()
        found.append(manifold_law(hill, x, Box(2), pool=300, reference=50, steps=10, draws=300, generator=rng))
    assert sum(law.p_model < 0.05 for law in found) <= 3
    assert sum(law.interval[0] <= 0 <= law.interval[1] for law in found) >= 11


@pytest.mark.parametrize("rho", [-1.0, 0.0, 0.5, 1.0])
def test_one_point_that_moved_far_does_not_send_rho_to_infinity(rho):
    """Far out the family is its extreme points alone; that their projections went elsewhere says nothing of rho."""
    own = np.random.default_rng(0).normal(size=500)
    weights, seen = np.exp(rho * own), own.copy()
    seen[own.argmin()], seen[own.argmax()] = 5.0, -5.0
    assert _tilt(own, seen, float((weights * seen).sum() / weights.sum())) == pytest.approx(rho, abs=1e-6)
    assert _tilt(own, own, 9.0) == np.inf
    assert _tilt(own, own, -9.0) == -np.inf


class Stairs(nn.Module):
    """A curve `z -> (z, height)` of flat treads and steep risers; noise throws points from one to another."""

    def __init__(self) -> None:
        super().__init__()
        self.starts = nn.Parameter(torch.tensor([-0.75, -0.25, 0.25, 0.75], dtype=torch.float64))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        risen = torch.relu(z - self.starts) - torch.relu(z - self.starts - 0.05)
        return torch.cat([z, 10 * risen.sum(1, keepdim=True)], 1)


def test_what_noise_does_to_projections_is_done_to_the_reference_too():
    """Points lifted off treads come down on risers: their projections crowd where the volume is large by far more than
    chance allows, and yet the law that made them is not refused."""
    stairs, rng = Stairs().eval(), torch.Generator().manual_seed(8)
    x = stairs(Box(1).draw(1000, rng)).detach()
    x[:, 1] += 0.1 * torch.randn(1000, generator=rng, dtype=torch.float64)
    found = manifold_law(stairs, x, Box(1), pool=1000, reference=1000, draws=500)
    flat, steep = np.log(2), np.log(2) + np.log(np.hypot(1, 10))  # the interval has density 1 / 2
    share = 4 * 0.05 / 2  # of latents on risers
    error = (steep - flat) * np.sqrt(share * (1 - share) / 1000)
    assert (found.surprise.mean() - (flat + share * (steep - flat))) / error > 6
    assert found.p_model > 0.05
    assert abs(found.rho) < 0.2


class Bottleneck(nn.Module):
    """Three latents through two numbers: no volume in three dimensions anywhere, factors from 1 to 3 in two."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        u, v = (z[:, 0] + z[:, 2]) / 2, (z[:, 1] - z[:, 2]) / 2
        return torch.stack([u + 2 * u.relu(), v, 2 * v.relu()], 1)


def test_a_generator_that_is_constant_somewhere_is_advised_a_number_that_is_taken():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 8)).double().eval()
    x = net(Box(4).draw(60, torch.Generator().manual_seed(1))).detach()
    with pytest.raises(ss.InputError, match=r"rank there is 0 to 3, below its 4 latent numbers; give top_k, such as 1"):
        manifold_law(net, x, Box(4), pool=200, reference=200, draws=100)
    found = manifold_law(net, x, Box(4), pool=200, reference=200, draws=100, top_k=1)
    assert found.flat[0] > 0  # where it is constant


def test_a_generator_without_volume_is_refused_by_its_rank_and_tested_by_fewer_directions():
    thin = Bottleneck().eval()
    x = thin(Box(3).draw(300, torch.Generator().manual_seed(4)))
    with pytest.raises(ss.InputError, match=r"rank there is 2 to 2, below its 3 latent numbers; give top_k, such as 2"):
        manifold_law(thin, x, Box(3), pool=200, reference=200, draws=100)
    found = manifold_law(thin, x, Box(3), pool=500, reference=500, draws=200, top_k=2)
    assert found.p_model > 0.01
    assert found.flat == (0.0, 0.0)


def test_data_far_off_the_manifold_are_doubted_or_refused(hill):
    """What is moved off as far projects to where nothing is told: a large p value would mean nothing."""
    options = {"pool": 300, "reference": 200, "draws": 100}
    x = hill(0.3 * drawn(hill, 0.0, 60, 1) + 0.6).detach()
    near = manifold_law(hill, x, Box(2), **options)
    assert near.kept > 0.95
    assert "says little" not in repr(near)
    assert "says little" not in near.summary()
    spread = float(hill(drawn(hill, 0.0, 200, 2)).detach().std())
    aside = torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64) * spread
    doubted = manifold_law(hill, x + 3 * aside, Box(2), **options)
    assert doubted.kept < 0.5
    assert "says little (kept" in repr(doubted)
    assert "says little" in doubted.summary()
    with pytest.raises(ss.InputError, match="so far off the generator's manifold"):
        manifold_law(hill, x + 100 * aside, Box(2), **options)


def test_a_part_of_the_data_far_off_is_doubted_though_the_others_keep_the_order(hill):
    """A quarter, a hundred spreads away: most of the reference returns to where it was, and both laws pass."""
    x, outputs = hill(drawn(hill, 0.0, 60, 1)).detach(), hill(drawn(hill, 0.0, 200, 2)).detach()
    away = 100 * float(outputs.std(0).norm())
    options = {"pool": 300, "reference": 200, "draws": 100}
    assert manifold_law(hill, x, Box(2), **options).beyond == 0
    x[:15, 0] += away
    found = manifold_law(hill, x, Box(2), **options)
    assert found.beyond == 0.25
    assert found.kept > 0.5
    assert min(found.p_model, found.p_uniform) > 0.05
    assert "says little (25% beyond)" in repr(found)
    assert "25.0% (so many that a large p value says little)" in found.summary()


def test_what_cannot_be_told_is_said(hill):
    even = nn.Linear(2, 3).double().eval()
    with pytest.raises(ss.InputError, match="the same"):
        manifold_law(even, torch.randn(5, 3).double(), Box(2), pool=200, reference=200, draws=100)
    with pytest.raises(ss.InputError, match="3 numbers a point, got 2"):
        manifold_law(hill, torch.randn(5, 2).double(), Box(2), pool=200, reference=200, draws=100)
    options = {"pool": 200, "reference": 200, "draws": 100}
    x = hill(drawn(hill, 0.0, 20, 1)).detach()
    holed = x.clone()
    holed[3, 1] = float("nan")
    with pytest.raises(ss.InputError, match="x must be finite, got 1 NaN"):
        manifold_law(hill, holed, Box(2), **options)
    with pytest.raises(ss.InputError, match=r"does not take latents of shape \(3,\).*decoder"):
        manifold_law(hill, x, Box(3), **options)
    with pytest.raises(ss.InputError, match="latent domain such as"):
        manifold_law(hill, x, "square", **options)
    with pytest.raises(ss.InputError, match="steps"):
        manifold_law(hill, x, Box(2), steps=0, **options)
    mixing = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)).double()
    with pytest.raises(ss.SplinescopeError, match="training mode"):
        manifold_law(mixing, x, Box(2), **options)
    assert not mixing[1].running_mean.any()  # nothing was run
    assert np.isnan(manifold_law(hill, x, Gaussian(2), pool=200, reference=200, draws=100).p_uniform)
