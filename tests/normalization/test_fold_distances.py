"""Distances of data to folds: the mean is the total-least-squares offset, on every network of the table."""

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.normalization import fold_distances
from splinescope.tiling.measures.differentiate import cuts

from .. import cases
from ..real import cifar_images, needs_real_networks, resnet20


def data(name: str, n: int = 40) -> torch.Tensor:
    """Points of the case's slice."""
    view = cases.view(name)
    shares = np.random.default_rng(1).dirichlet(np.ones(len(view.domain)), n)
    return torch.from_numpy(view.inputs(shares @ view.domain))


@pytest.fixture
def layer() -> tuple[nn.Linear, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    linear = nn.Linear(5, 7, dtype=torch.float64)
    with torch.no_grad():
        linear.weight.normal_(generator=generator)
        linear.bias.normal_(generator=generator)
    return linear, torch.randn(100, 5, generator=generator, dtype=torch.float64) + 1.0


def test_the_mean_is_the_total_least_squares_offset(layer):
    linear, x = layer
    found = fold_distances(nn.Sequential(linear, nn.ReLU()), x)[0]
    w = linear.weight.detach()
    inner = x @ w.T  # [N, H]

    def objective(offset: torch.Tensor) -> np.ndarray:
        return (((inner - offset) / w.norm(dim=1)) ** 2).sum(0).numpy()

    best = objective(inner.mean(0))
    np.testing.assert_allclose(found.optimum, best, rtol=1e-12)  # rounding of 100 terms
    np.testing.assert_allclose(found.objective, objective(-linear.bias.detach()), rtol=1e-12)
    np.testing.assert_allclose(found.offset, ((inner + linear.bias).mean(0).abs() / w.norm(dim=1)).detach(), rtol=1e-12)
    for step in (-1.0, -1e-3, 1e-3, 1.0):
        assert (objective(inner.mean(0) + step) > best).all()


def test_smooth_activations_have_their_folds_where_their_units_are_zero(layer):
    linear, x = layer
    second = nn.Linear(7, 4, dtype=torch.float64)
    net = nn.Sequential(linear, nn.GELU(), second, nn.SiLU(), nn.Linear(4, 2, dtype=torch.float64))
    hidden = linear(x)
    z = hidden, second(nn.functional.gelu(hidden))
    for found, values, own in zip(fold_distances(net, x), z, (linear, second), strict=True):
        expected = (values.abs() / own.weight.norm(dim=1)).detach()
        np.testing.assert_allclose(found.nearest, expected.amin(0), rtol=1e-10)
        np.testing.assert_allclose(found.active, (values > 0).double().mean(0), rtol=1e-12)


def test_batch_norm_in_train_mode_reaches_the_optimum(layer):
    linear, x = layer
    norm = nn.BatchNorm1d(7, momentum=1.0, dtype=torch.float64)
    model = nn.Sequential(linear, norm, nn.ReLU())
    model.train()(x)
    found = fold_distances(model.eval(), x)[0]
    np.testing.assert_allclose(found.objective, found.optimum, rtol=1e-12)
    assert found.offset.max() < 1e-12
    assert found.splits.all()


@pytest.mark.parametrize("name", cases.CASES)
def test_statistics_are_those_of_the_cuts(name):
    """Against a plain computation with all pre-activations at once, a channel's positions together."""
    x = data(name)
    network = ss.trace(cases.model(name), x)
    found = fold_distances(network, [x[:7], (x[7:], None)])
    values = [z.detach().numpy() for fold, z in cuts(network.program(), x) if fold.site.op != "max_pool2d"]
    for site, z in zip(found, values, strict=True):
        grouped = z.reshape(len(x), len(site), -1).swapaxes(1, 2).reshape(-1, len(site))
        np.testing.assert_allclose(site.active, (grouped > 0).mean(0), atol=1e-15)
        alive = site.norms > 0
        distances = np.abs(grouped[:, alive]) / site.norms[alive]
        np.testing.assert_allclose(site.nearest[alive], distances.min(0), rtol=1e-9)
        np.testing.assert_allclose(site.rms[alive], np.sqrt((distances**2).mean(0)), rtol=1e-9)
        assert site.count == len(grouped)
        assert (site.objective >= site.optimum)[alive].all()


@pytest.mark.parametrize("size", [(3, 7), (4, 4)])
def test_a_units_weights_are_the_whole_kernel_not_what_the_rim_sees(size):
    """At the rim of a padded image a unit sees part of its kernel; the distance is by the norm of all of it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU()).double()
    (site,) = ss.normalization.fold_distances(net, torch.randn(4, 2, *size, dtype=torch.float64))
    np.testing.assert_allclose(site.norms, net[0].weight.flatten(1).norm(dim=1).detach().numpy(), rtol=1e-12)


def test_skip_connections_are_part_of_the_layers_input():
    class Skip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3, dtype=torch.float64), nn.Linear(3, 3, dtype=torch.float64)

        def forward(self, x):
            return torch.relu(x + self.b(torch.relu(self.a(x))))

    model = Skip()
    norms = fold_distances(model, torch.randn(9, 3, dtype=torch.float64))[1].norms
    np.testing.assert_allclose(norms, (1 + model.b.weight.detach().square().sum(1)).sqrt(), rtol=1e-12)


def test_model_and_data_are_left_as_found():
    model = cases.model("batch norm")
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.get_rng_state()
    fold_distances(model, data("batch norm"))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert not model.training


def test_distances_are_the_same_in_inference_mode():
    net, x = cases.model("two layers"), data("two layers")
    found = fold_distances(net, x)
    with torch.inference_mode():
        again = fold_distances(net, x + 0)
        assert ss.normalization_report(net, x + 0).rows == len(x)
    assert all((a.rms == b.rms).all() for a, b in zip(found, again, strict=True))


def test_bad_input_is_told():
    model = cases.model("two layers")
    with pytest.raises(ss.InputError, match="got None"):
        fold_distances(model, None)
    with pytest.raises(ss.InputError, match="at least one row"):
        fold_distances(model, torch.zeros(0, 2))
    with pytest.raises(ss.InputError, match=r"rows of shape \(2\)"):
        fold_distances(ss.trace(model, torch.zeros(1, 2)), torch.zeros(4, 3))
    with pytest.raises(ss.InputError, match="finite"):
        fold_distances(model, torch.full((4, 2), torch.nan))
    with pytest.raises(ss.InputError, match="more than once"):
        fold_distances(model, iter([torch.zeros(4, 2)]))
    with pytest.raises(ss.UnsupportedModelError, match="eval"):
        fold_distances(cases.model("batch norm").train(), torch.zeros(4, 2))


@needs_real_networks
def test_resnet_is_measured():
    found = fold_distances(resnet20(), cifar_images()[0][:8])
    assert len(found) == 19
    assert [len(site) for site in found][::6] == [16, 16, 32, 64]
    assert "layer3" in found.summary()
