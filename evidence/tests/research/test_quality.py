"""The Fréchet distance against its formula."""

from __future__ import annotations

import pytest
import torch

import splinescope as ss
from splinescope_research import frechet_distance


def test_frechet_distance_of_gaussians_is_the_formula() -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(20_000, 2, generator=rng).double() @ torch.tensor([[1.0, 0.3], [0.0, 0.5]]).double()
    y = torch.randn(20_000, 2, generator=rng).double() * 2 + torch.tensor([1.0, -1.0])
    first, second = torch.cov(x.T), torch.cov(y.T)
    root = torch.linalg.eigvals(first @ second).sqrt().real.sum()
    expected = float((x.mean(0) - y.mean(0)).square().sum() + first.trace() + second.trace() - 2 * root)
    assert frechet_distance(x, y) == pytest.approx(expected, rel=1e-9)
    assert frechet_distance(x, x) == pytest.approx(0, abs=1e-9)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ss.InputError, match="one size"):
        frechet_distance(torch.zeros(5, 2), torch.zeros(5, 3))
    with pytest.raises(ss.InputError, match="at least 2 rows"):
        frechet_distance(torch.zeros(1, 2), torch.zeros(5, 2))
    with pytest.raises(ss.InputError, match="samples must be finite"):
        frechet_distance(torch.ones(5, 2), torch.ones(5, 2) / 0.0)
