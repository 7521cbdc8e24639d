"""Theorem 2 as an identity of vector fields, against automatic differentiation; sums whatever blocks and threads."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from splinescope import InputError
from splinescope.meanfield import Data, TwoLayer, TwoLayerBN, velocity
from splinescope.meanfield.flow import vector_field
from splinescope.meanfield.functions import Activation, as_loss
from splinescope.meanfield.manifold import Manifold
from splinescope.meanfield.velocity import (
    euclidean_velocity,
    forces,
    manifold_velocity,
    normalized_velocity,
    outputs,
    plain_velocity,
)

from .problems import ACTIVATIONS, LOSSES, problem, quartic


def autograd_velocity(net: TwoLayer, data: Data, loss: object) -> tuple[torch.Tensor, torch.Tensor]:
    """`-m dL/dtheta` by backpropagation; batch norm by torch itself, whose smallest eps is far below
    rounding.
    """
    a, b = net.a.clone().requires_grad_(), net.b.clone().requires_grad_()
    z = data.x @ b.T
    if isinstance(net, TwoLayerBN):
        z = F.batch_norm(z, None, None, training=True, eps=1e-300)
    f = net.activation.value(z) @ a / net.width
    risk = data.weights @ as_loss(loss).value(f, data.y)
    gradients = torch.autograd.grad(risk, [a, b])
    return -net.width * gradients[0], -net.width * gradients[1]


def close(p: torch.Tensor, q: torch.Tensor, tol: float = 1e-12) -> bool:
    """Relative to the largest entry: 1e-12 leaves room for sums over 40 points and lengths from 0.3 to 3."""
    return bool((p - q).abs().max() <= tol * (1 + q.abs().max()))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("seed", "d", "m"), [(0, 2, 8), (1, 3, 8), (2, 6, 300)])
def test_theorem_2_the_three_vector_fields_agree(activation: object, loss: object, seed: int, d: int, m: int) -> None:
    net, data = problem(seed, d=d, m=m, activation=activation)
    manifold = Manifold(data.covariance)
    n = manifold.normalize(net.b)
    force = forces(net.a, n, data, net.activation, as_loss(loss))

    a_oracle, b_oracle = autograd_velocity(net, data, loss)
    a_euclid, b_euclid = euclidean_velocity(net.a, net.b, force, data.covariance)
    assert close(a_euclid, a_oracle)
    assert close(b_euclid, b_oracle)

    image = manifold.differential(net.b, b_oracle)
    _, n_image = normalized_velocity(net.a, n, force, manifold, net.lengths)
    a_manifold, n_manifold = manifold_velocity(net.a, n, force, manifold, net.lengths)
    assert close(n_image, image)
    assert close(n_manifold, image)
    assert close(a_manifold, a_oracle)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_plain_velocity_is_minus_the_gradient(activation: object) -> None:
    net, data = problem(3, activation=activation)
    plain = TwoLayer(net.a, net.b, activation)
    force = forces(plain.a, plain.b, data, plain.activation, as_loss("squared"))
    for ours, theirs in zip(plain_velocity(plain.a, force), autograd_velocity(plain, data, "squared"), strict=True):
        assert close(ours, theirs)


def test_the_twin_is_the_same_function() -> None:
    for activation in ACTIVATIONS:
        net, data = problem(4, activation=activation)
        f = net(data.x)
        assert close(net(data.x, data.covariance), f)
        assert close(net.twin(data.covariance)(data.x), f)


def test_a_torch_network_is_taken_apart_into_neurons() -> None:
    torch.manual_seed(0)
    x = torch.randn(50, 3, dtype=torch.float64) @ torch.randn(3, 3, dtype=torch.float64) + 2.0
    for activation in (nn.ReLU(), nn.Tanh(), nn.GELU()):
        norm = nn.BatchNorm1d(6, eps=1e-30)
        model = nn.Sequential(
            nn.Flatten(), nn.Sequential(nn.Linear(3, 6), norm), activation, nn.Linear(6, 1, bias=False)
        ).double()
        if isinstance(activation, nn.ReLU):
            nn.init.uniform_(norm.weight, 0.5, 2.0)  # a positively homogeneous activation passes gamma on
        net = TwoLayerBN.from_module(model)
        assert close(net(x), model.train()(x)[:, 0].detach())
        with torch.no_grad():
            model[3].weight.zero_()  # type: ignore[operator,union-attr]
        assert net.a.abs().min() > 0  # a copy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: nn.init.ones_(m[1].bias), "beta, the norm's bias"),
        (lambda m: nn.init.constant_(m[1].weight, 2.0), "gamma = 1 in its norm"),
        (lambda m: nn.init.ones_(m[3].bias), "last layer's bias"),
        (lambda m: m.append(nn.Linear(1, 1)), "got Linear, BatchNorm1d, Tanh, Linear, Linear"),
        (lambda m: m.__setitem__(3, nn.Linear(4, 2)), "one output, got 2"),
    ],
)
def test_another_torch_network_is_refused_by_its_reason(change: Any, message: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    nn.init.zeros_(model[3].bias)  # type: ignore[arg-type]
    TwoLayerBN.from_module(model)
    change(model)
    with pytest.raises(InputError, match=message):
        TwoLayerBN.from_module(model)


def test_float32_follows_the_input() -> None:
    net, data = problem(0)
    single = Data.of(data.x.float(), data.y.float(), center="center")
    small = TwoLayerBN(net.a.float(), net.b.float(), net.activation)
    out = vector_field(small, single, as_loss("squared"), "manifold")(torch.column_stack([small.a, small.b]))
    assert out.dtype == torch.float32


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([1.0, 2.0], [[1.0, 0.0]], "one amplitude per row"),
        ([1.0], [[0.0, 0.0]], "zero rows"),
        ([1.0], [1.0, 2.0], r"shape \(m, d\)"),
        ([float("inf")], [[1.0, 0.0]], "finite"),
    ],
)
def test_bad_networks_are_refused(a: list[float], b: list[float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        TwoLayerBN(a, b, "relu")


def test_a_module_derived_from_relu_is_what_it_computes() -> None:
    class Shifted(torch.nn.ReLU):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return torch.relu(z - 1)

    net = TwoLayer([1.0], [[1.0]], Shifted())
    assert net(torch.tensor([[0.5], [3.0]], dtype=torch.float64)).tolist() == [0.0, 2.0]
    assert net.activation.leak is None


def test_networks_refuse_inputs_that_they_cannot_normalize() -> None:
    net, data = problem(0)
    with pytest.raises(InputError, match=r"x must be a torch\.float64 tensor, like the weights, got torch\.float32"):
        net(data.x.float())
    with pytest.raises(InputError, match="at least 2 rows"):
        net(data.x[:1])
    with pytest.raises(InputError, match=r"shape \(\.\.\., 2\)"):
        net(data.x, torch.eye(2, dtype=torch.float64))


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(InputError, match="'relu'"):
        TwoLayer([1.0], [[1.0]], "rleu")
    with pytest.raises(InputError, match="'squared'"):
        as_loss("cubic")
    with pytest.raises(InputError, match="per point"):
        as_loss(lambda f, y: (f - y).sum()).slope(torch.ones(3), torch.ones(3))


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def by_definition(
    a: torch.Tensor, b: torch.Tensor, data: Data, activation: Activation
) -> tuple[torch.Tensor, torch.Tensor]:
    """`h` and `g` for half the squared loss from the whole table of pre-activations, slopes by torch."""
    z = (data.x @ b.T).requires_grad_()
    value = activation.value(z)
    slope = torch.autograd.grad(value.sum(), z)[0]
    pull = data.weights * (value.detach() @ a / len(a) - data.y)
    return pull @ value.detach(), slope.T @ (pull[:, None] * data.x)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("m", [8, 300])
def test_neither_blocks_nor_threads_change_the_forces(
    activation: object, m: int, monkeypatch: pytest.MonkeyPatch, threads: None
) -> None:
    net, data = problem(2, n=301, m=m, activation=activation)
    squared = as_loss("squared")
    h, g = by_definition(net.a, net.b, data, net.activation)
    f = TwoLayer(net.a, net.b, net.activation)(data.x)
    monkeypatch.setattr(velocity, "CHUNK_BYTES", 1)
    monkeypatch.setattr(velocity, "_MIN_ROWS", 7)
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        force = forces(net.a, net.b, data, net.activation, squared)
        assert close(force.h, h, 1e-13)
        assert close(force.g, g, 1e-13)
        assert force.risk == pytest.approx((data.weights @ squared.value(f, data.y)).item(), rel=1e-13)
        again = forces(net.a, net.b, data, net.activation, squared)
        assert torch.equal(again.g, force.g)
        assert torch.equal(again.h, force.h)
        assert torch.get_num_threads() == count
    assert close(outputs(net.a, net.b, data, net.activation), f, 1e-13)


@pytest.mark.parametrize("m", [8, 300])
def test_what_is_not_a_number_is_not_hidden_by_a_relu(m: int) -> None:
    net, data = problem(0, m=m, activation="relu")
    net.b[3] = torch.nan
    force = forces(net.a, net.b, data, net.activation, as_loss("squared"))
    assert force.risk != force.risk
    assert force.h.isnan().any()
    assert force.g.isnan().any()


def test_a_failing_loss_in_a_thread_is_reported_and_the_threads_are_as_before(
    monkeypatch: pytest.MonkeyPatch, threads: None
) -> None:
    def broken(f: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError("broken loss")

    net, data = problem(0, n=300)
    monkeypatch.setattr(velocity, "CHUNK_BYTES", 1)
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError, match="broken loss"):
        forces(net.a, net.b, data, net.activation, as_loss(broken))
    assert torch.get_num_threads() == 2
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("activation", ["relu", "tanh", torch.nn.GELU()])
def test_inference_mode_changes_nothing(activation: object, monkeypatch: pytest.MonkeyPatch, threads: None) -> None:
    """It is a mode of one thread, and forbids others to write into its tensors; gradients are needed in it too."""
    net, data = problem(0, n=300, m=300, activation=activation)
    monkeypatch.setattr(velocity, "CHUNK_BYTES", 1)
    torch.set_num_threads(2)
    force = forces(net.a, net.b, data, net.activation, as_loss(quartic))
    with torch.inference_mode():
        same = forces(net.a.clone(), net.b.clone(), data.batch(torch.arange(300)), net.activation, as_loss(quartic))
    assert close(same.g, force.g, 1e-13)
    assert close(same.h, force.h, 1e-13)
