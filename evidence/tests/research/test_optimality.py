"""Theorem 5: the certificate of a global optimum by the first variation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.meanfield.problems import problem

from splinescope import InputError
from splinescope.meanfield import Data, TwoLayer, TwoLayerBN, flow
from splinescope.meanfield.manifold import Manifold
from splinescope_research import certificate


def ring(m: int, amplitude: float = 0.0, arc: float = 2 * np.pi) -> TwoLayerBN:
    angle = torch.arange(m, dtype=torch.float64) * (arc / m)
    return TwoLayerBN(torch.full((m,), amplitude), torch.stack([angle.cos(), angle.sin()], 1), "tanh")


def first_variation(net: TwoLayerBN, data: Data, b: torch.Tensor) -> torch.Tensor:
    """`E[(f - y) tanh(b . x)]` at neurons `b`, normalized here."""
    pull = data.weights * (net(data.x, data.covariance) - data.y)
    return torch.tanh(Manifold(data.covariance).normalize(b) @ data.x.T) @ pull


def symmetric_data(n: int = 60) -> tuple[Data, float]:
    """Points in pairs x, -x, targets even + odd. An odd network can fit the odd part only, which is that of a
    network with two neurons of mean amplitude 2, so L* = E y_even^2 / 2.
    """
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    teacher = TwoLayerBN([3.0, -1.0], [[1.0, 0.5], [-0.3, 1.0]], "tanh")
    odd, even = teacher(torch.cat([x, -x]))[:n], 0.3 * x[:, 1] ** 2
    data = Data.of(torch.cat([x, -x]), torch.cat([even + odd, even - odd]))
    return data, 0.5 * even.square().mean().item()


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
    h = first_variation(net, data, torch.stack([fine.cos(), fine.sin()], 1))
    found = certificate(net, data, starts=32)
    assert found.largest >= h.abs().max().item() - 1e-12
    assert found.largest == pytest.approx(h.abs().max().item(), rel=1e-6)
    at = first_variation(net, data, found.direction[None])
    assert at.abs().item() == pytest.approx(found.largest, rel=1e-10)


def test_certificate_searches_in_higher_dimensions() -> None:
    net, data = problem(2, d=5, n=80)
    generator = torch.Generator().manual_seed(0)
    many = torch.randn(50_000, 5, generator=generator, dtype=torch.float64)
    sampled = first_variation(net, data, many).abs().max().item()
    assert certificate(net, data, starts=256, generator=generator).largest > sampled


def test_a_plain_network_off_the_manifold_is_refused() -> None:
    net, data = problem(0)
    with pytest.raises(InputError, match="b\\^T Sigma b = 1"):
        certificate(TwoLayer(net.a, net.b, "tanh"), data)


def test_bad_probes_are_refused() -> None:
    net, data = problem(0)
    with pytest.raises(InputError, match="starts must be a whole number"):
        certificate(net, data, starts=0)
    small = TwoLayerBN(net.a.float(), net.b.float(), "tanh")
    with pytest.raises(InputError, match="share dtype"):
        certificate(small, data)
    with pytest.raises(InputError, match="labels -1 and"):
        certificate(net, Data.of(data.x, (data.y > 0).double()), "logistic")
