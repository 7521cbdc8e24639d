"""`log_volume`, and what follows from it, against singular values of Jacobians by autograd, one latent at a time."""

import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope.generative import geometry_map, local_geometry, log_volume, volume
from splinescope.generative.descriptors import effective_rank
from splinescope.generative.exact import TiledManifold
from tests import cases


def reference(generator: nn.Module, z: Tensor) -> Tensor:
    """`[N, min(D, d)]` singular values, the slow way."""
    jacobians = [torch.autograd.functional.jacobian(lambda x: generator(x[None])[0].flatten(), row) for row in z]
    return torch.linalg.svdvals(torch.stack(jacobians).flatten(2))


def test_log_volume_is_that_of_autograd_jacobians(case: tuple[nn.Module, Tensor]) -> None:
    generator, z = case
    found, expected = log_volume(generator, z), reference(generator, z)
    size = z[0].numel()
    nonzero = expected > 1e-13 * expected[:, :1]
    assert torch.equal(found.rank, nonzero.sum(1))
    logs = torch.where(nonzero, expected, 1.0).log()
    # 1e-9 is the promise; both sides lose the rounding of the largest value relative to the smallest
    ratio = float((expected[:, :1] / expected)[nonzero].max())
    assert torch.allclose(found.log_pseudo, logs.sum(1), rtol=0, atol=max(1e-9, 4e-16 * ratio))
    full = found.rank == size
    assert torch.equal(full, found.log.isfinite())
    assert torch.equal(found.log[full], found.log_pseudo[full])


@pytest.mark.parametrize("name", cases.CASES)
def test_log_volume_on_the_table_of_networks(name: str) -> None:
    """Every network of the common table, as a generator from its inputs, on a few points of its slice."""
    model, view = cases.model(name).double().eval(), cases.view(name)
    t = view.domain.mean(0) + 0.3 * (view.domain - view.domain.mean(0))
    z = torch.from_numpy(view.inputs(t))
    found, expected = log_volume(model, z), reference(model, z)
    nonzero = expected > max(z[0].numel(), expected.shape[1]) * 2.3e-16 * expected[:, :1]
    assert torch.equal(found.rank, nonzero.sum(1))
    ratio = float((expected[:, :1] / expected)[nonzero].max()) if nonzero.any() else 1.0
    logs = torch.where(nonzero, expected, 1.0).log().sum(1)
    assert torch.allclose(found.log_pseudo, logs, rtol=0, atol=max(1e-9, 4e-16 * ratio))


def test_blocks_agree_with_the_jacobian(case: tuple[nn.Module, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """A Jacobian too large to hold: the Gram matrix comes from forward and reverse passes in blocks."""
    generator, z = case
    expected = reference(generator, z)
    monkeypatch.setattr(volume, "_JACOBIAN_BYTES", 64)
    found = log_volume(generator, z, rtol=1e-6)
    kept = expected > 1e-6 * expected[:, :1]
    assert torch.equal(found.rank, kept.sum(1))
    # squaring costs the ratio of singular values once more: 1e-16 * 1e12 at the worst kept
    assert torch.allclose(found.log_pseudo, torch.where(kept, expected, 1.0).log().sum(1), rtol=0, atol=1e-3)
    well = expected.amin(1) > 1e-3 * expected[:, 0]
    assert torch.allclose(found.log_pseudo[well], expected[well].log().sum(1), rtol=0, atol=1e-9)


def test_top_k_are_the_largest() -> None:
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(7, 18), nn.ReLU(), nn.Linear(18, 20)).double()
    z = torch.randn(4, 7, dtype=torch.float64)
    found, expected = log_volume(generator, z, top_k=5), reference(generator, z)[:, :5]
    assert torch.allclose(found.singular_values, expected, rtol=1e-9)
    assert torch.allclose(found.log, expected.log().sum(1), rtol=0, atol=1e-9)


def test_output_before_is_the_network_without_its_ending() -> None:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 8)).double()
    z = torch.randn(5, 3, dtype=torch.float64)
    for generator in (nn.Sequential(body, nn.Tanh()), nn.Sequential(body, nn.Sigmoid(), nn.Unflatten(1, (2, 4)))):
        before = log_volume(generator, z, output="before")
        assert torch.equal(before.log, log_volume(body, z).log)
        assert (before.log > log_volume(generator, z).log).all()  # tanh and sigmoid only shrink
    with pytest.raises(ss.InputError, match="ends in tanh"):
        log_volume(body, z, output="before")


def test_a_traced_network_has_the_volumes_of_its_module() -> None:
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh()).double()
    z = torch.randn(5, 3, dtype=torch.float64)
    network = ss.trace(generator, z)
    for output in ("after", "before"):
        want = log_volume(generator, z, output=output).log
        assert torch.allclose(log_volume(network, z, output=output).log, want, rtol=0, atol=1e-12)


def test_float32_generators_keep_float32_digits() -> None:
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 50))
    z = torch.randn(20, 8)
    single = log_volume(generator, z).log
    double = log_volume(generator.double(), z.double()).log
    assert single.dtype == torch.float64
    assert torch.allclose(single, double, rtol=0, atol=1e-4)  # 8 values of 6e-8 times a condition near 10


def test_volume_does_not_depend_on_the_chunk_and_leaves_everything_as_found() -> None:
    torch.manual_seed(0)
    generator = (
        nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 5)).double().eval()
    )
    z = torch.randn(9, 3, dtype=torch.float64)
    state = {name: value.clone() for name, value in generator.state_dict().items()}
    rng = torch.get_rng_state()
    whole, apart = log_volume(generator, z), log_volume(generator, z, batch_size=2)
    assert torch.allclose(whole.log, apart.log, rtol=0, atol=1e-12)
    assert torch.is_grad_enabled()
    assert torch.equal(rng, torch.get_rng_state())
    assert all(torch.equal(state[name], value) for name, value in generator.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in generator.parameters())


def test_tangents_restrict_the_volume() -> None:
    torch.manual_seed(0)
    generator = nn.Linear(4, 6).double()
    tangents = torch.linalg.qr(torch.randn(2, 4, 2, dtype=torch.float64))[0]
    found = log_volume(generator, torch.zeros(2, 4, dtype=torch.float64), tangents=tangents)
    expected = torch.linalg.svdvals(generator.weight @ tangents).log().sum(1)
    assert torch.allclose(found.log, expected.detach(), rtol=0, atol=1e-12)


def test_no_latents_give_no_volumes() -> None:
    found = log_volume(nn.Linear(3, 4), torch.zeros(0, 3))
    assert len(found) == 0
    assert found.singular_values.shape == (0, 3)


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, z: Tensor) -> Tensor:
        return self.layer(z) + torch.randn(len(z), 4)


class Standardized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, z: Tensor) -> Tensor:
        h = self.layer(z)
        return h - h.mean(0)


def test_bad_input_is_refused_in_words() -> None:
    net, z = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)).eval(), torch.zeros(2, 3)
    with pytest.raises(ss.InputError, match=r"latents of shape \(5,\)"):
        log_volume(net, torch.zeros(2, 5))
    with pytest.raises(ss.InputError, match=r"latents of shape \(1, 4, 3\): expected 2D"):  # torch: a ValueError
        log_volume(net, torch.zeros(2, 1, 4, 3))
    with pytest.raises(ss.UnsupportedModelError, match="training mode"):
        log_volume(net.train(), z)
    net.eval()
    with pytest.raises(ss.InputError, match="shape \\(N"):
        log_volume(net, torch.zeros(3))
    with pytest.raises(ss.InputError, match="finite"):
        log_volume(net, torch.full((2, 3), torch.nan))
    with pytest.raises(ss.InputError, match="top_k must be a whole number from 1 to 3, got 4"):
        log_volume(net, z, top_k=4)
    with pytest.raises(ss.InputError, match="random"):
        log_volume(Noisy(), z)
    with pytest.raises(ss.InputError, match="see each other"):
        log_volume(Standardized(), torch.randn(2, 3))
    with pytest.raises(ss.InputError, match="output must be one of"):
        log_volume(net, z, output="middle")
    with pytest.raises(ss.InputError, match="tangents must have shape"):
        log_volume(net, z, tangents=torch.zeros(2, 2, 1))
    with torch.no_grad():
        net[0].weight.fill_(torch.inf)
    with pytest.raises(ss.InputError, match="finite"):
        log_volume(net, torch.randn(2, 3))


class Steep(nn.Module):
    """Finite at zero, where its slope is not."""

    def forward(self, z: Tensor) -> Tensor:
        return z.sqrt()


def test_infinite_slopes_are_refused_in_words() -> None:
    z = torch.ones(5, 120, dtype=torch.float64)
    z[1:3, 7] = 0.0
    with pytest.raises(ss.InputError, match="Jacobian must be finite, got NaN or infinite values at 2 of 5 latents"):
        log_volume(Steep(), z)


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
