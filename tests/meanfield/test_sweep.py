"""One pass over the data gives the sums of its definition, whatever the blocks and the threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from splinescope.meanfield import Data, TwoLayer, velocity
from splinescope.meanfield.functions import Activation, as_loss
from splinescope.meanfield.velocity import field_at, forces, outputs

from .problems import ACTIVATIONS, problem, quartic


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


def agree(p: torch.Tensor, q: torch.Tensor) -> bool:
    return bool((p - q).abs().max() <= 1e-13 * (1 + q.abs().max()))


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
        assert agree(force.h, h)
        assert agree(force.g, g)
        assert force.risk == pytest.approx((data.weights @ squared.value(f, data.y)).item(), rel=1e-13)
        again = forces(net.a, net.b, data, net.activation, squared)
        assert torch.equal(again.g, force.g)
        assert torch.equal(again.h, force.h)
        assert torch.get_num_threads() == count
    assert agree(outputs(net.a, net.b, data, net.activation), f)
    h_of_others, g_of_others = field_at(net.b, squared.slope(f, data.y), data, net.activation)
    assert agree(h_of_others, h)
    assert agree(g_of_others, g)


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
    assert agree(same.g, force.g)
    assert agree(same.h, force.h)
