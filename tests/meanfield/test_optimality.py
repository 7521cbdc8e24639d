"""Theorem 5: the first variation, its certificate, and the separation condition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from splinescope import InputError
from splinescope.meanfield import Data, TwoLayer, TwoLayerBN, certificate, flow
from splinescope.meanfield.functions import as_loss
from splinescope.meanfield.manifold import Manifold
from splinescope.meanfield.optimality import first_variation, separates

from .problems import LOSSES, problem


def ring(m: int, amplitude: float = 0.0, arc: float = 2 * np.pi) -> TwoLayerBN:
    angle = torch.arange(m, dtype=torch.float64) * (arc / m)
    return TwoLayerBN(torch.full((m,), amplitude), torch.stack([angle.cos(), angle.sin()], 1), "tanh")


def symmetric_data(n: int = 60) -> tuple[Data, float]:
    """Points in pairs x, -x, targets even + odd. An odd network can fit the odd part only, which is that of a
    network with two neurons of mean amplitude 2, so L* = E y_even^2 / 2.
    """
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    teacher = TwoLayerBN([3.0, -1.0], [[1.0, 0.5], [-0.3, 1.0]], "tanh")
    odd, even = teacher(torch.cat([x, -x]))[:n], 0.3 * x[:, 1] ** 2
    data = Data.of(torch.cat([x, -x]), torch.cat([even + odd, even - odd]))
    return data, 0.5 * even.square().mean().item()


@pytest.mark.parametrize("loss", LOSSES)
def test_first_variation_is_the_derivative_of_the_loss_in_the_measure(loss: object) -> None:
    """Mix a new neuron in with mass eps: the loss changes at the rate of the difference of first
    variations.
    """
    net, data = problem(0)
    twin = net.twin(data.covariance)
    a, b = torch.tensor([1.7], dtype=torch.float64), torch.tensor([[0.3, -1.0, 0.4]], dtype=torch.float64)
    added = TwoLayer(a, Manifold(data.covariance).normalize(b), "tanh")

    def risk(eps: float) -> float:
        f = (1 - eps) * twin(data.x) + eps * added(data.x)
        return (data.weights @ as_loss(loss).value(f, data.y)).item()

    slope = (risk(1e-5) - risk(-1e-5)) / 2e-5
    here = first_variation(net, data, a, b, loss)[0] - first_variation(net, data, net.a, net.b, loss).mean()
    assert slope == pytest.approx(here.item(), rel=1e-7)


def test_theorem_5_the_flow_reaches_the_known_optimum_and_the_certificate_says_so() -> None:
    data, optimum = symmetric_data()
    start = ring(24)
    begin, end = (certificate(net, data) for net in (start, flow(start, data, times=[0, 60], rtol=1e-6).network()))
    assert begin.largest > 0.3
    assert end.risk - optimum < 1e-3
    assert end.largest < 0.01
    assert end.on_support < 0.02
    assert end.risk - optimum <= end.gap_bound(2.0) < 0.02  # the teacher's mean amplitude is 2
    assert begin.risk - optimum <= begin.gap_bound(2.0)


def test_certificate_finds_the_maximum_of_a_dense_grid() -> None:
    net, data = problem(1, d=2)
    fine = torch.arange(20_000, dtype=torch.float64) * (2 * torch.pi / 20_000)
    h = first_variation(net, data, torch.ones(20_000), torch.stack([fine.cos(), fine.sin()], 1))
    found = certificate(net, data, starts=32)
    assert found.largest >= h.abs().max().item() - 1e-12
    assert found.largest == pytest.approx(h.abs().max().item(), rel=1e-6)
    at = first_variation(net, data, torch.ones(1), found.direction[None])
    assert at.abs().item() == pytest.approx(found.largest, rel=1e-10)


def test_certificate_searches_in_higher_dimensions() -> None:
    net, data = problem(2, d=5, n=80)
    generator = torch.Generator().manual_seed(0)
    many = torch.randn(50_000, 5, generator=generator, dtype=torch.float64)
    sampled = first_variation(net, data, torch.ones(50_000), many).abs().max().item()
    assert certificate(net, data, starts=256, generator=generator).largest > sampled


def test_separation_needs_a_closed_curve() -> None:
    assert separates(ring(64), radius=0.1)
    assert not separates(ring(64), radius=0.02)  # the balls leave gaps
    assert not separates(ring(64, arc=np.pi), radius=0.1)  # half of the circle is open
    wavy = ring(200)
    wave = TwoLayerBN(torch.sin(3 * torch.atan2(wavy.b[:, 1], wavy.b[:, 0])), wavy.b, "tanh")
    assert separates(wave, radius=0.15)  # a graph over the circle separates, level or not


def test_separation_in_three_dimensions() -> None:
    generator = torch.Generator().manual_seed(0)
    b = torch.randn(2000, 3, generator=generator, dtype=torch.float64)
    assert separates(TwoLayer(torch.zeros(2000), b), radius=0.3, generator=generator)
    cap = b[b[:, 2] < 0.5]
    assert not separates(TwoLayer(torch.zeros(len(cap)), cap), radius=0.15, generator=generator)


def test_a_plain_network_off_the_manifold_is_refused() -> None:
    net, data = problem(0)
    with pytest.raises(InputError, match="b\\^T Sigma b = 1"):
        certificate(TwoLayer(net.a, net.b, "tanh"), data)


def test_bad_probes_are_refused() -> None:
    net, data = problem(0)
    with pytest.raises(InputError, match="starts must be a whole number"):
        certificate(net, data, starts=0)
    with pytest.raises(InputError, match=r"\(K,\) and \(K, 3\)"):
        first_variation(net, data, torch.ones(2, dtype=torch.float64), torch.ones(4, 3, dtype=torch.float64))
    with pytest.raises(InputError, match="probes must be a whole number >= 7"):
        separates(net, radius=0.1, probes=2)
    small = TwoLayerBN(net.a.float(), net.b.float(), "tanh")
    for check in (certificate, lambda net, data: first_variation(net, data, [1.0], [[1.0, 0.0, 0.0]])):
        with pytest.raises(InputError, match="share dtype"):
            check(small, data)
