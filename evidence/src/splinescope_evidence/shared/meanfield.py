"""What the mean-field experiments share: random problems, the ring of neurons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from splinescope.meanfield import Data, GaussianInputs, TwoLayerBN

EXACT = "an identity: what is left is rounding of float64 sums"


def random_problem(
    seed: int, *, d: int = 3, m: int = 8, n: int = 40, activation: Any = "tanh"
) -> tuple[TwoLayerBN, Data]:
    """Correlated data with labels -1, 1 and a batch-norm network whose neurons differ in length by up to
    10.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    x = normal(n, d) @ (torch.eye(d, dtype=torch.float64) + normal(d, d) / d**0.5)
    b = normal(m, d)
    lengths = 10 ** (torch.rand(m, 1, generator=generator, dtype=torch.float64) - 0.5)
    net = TwoLayerBN(normal(m), b / b.norm(dim=1, keepdim=True) * lengths, activation)
    return net, Data.of(x, torch.sign(torch.sin(x[:, 0]) + 0.3 * normal(n)), center="center")


def ring(angles: Tensor, *, activation: str = "tanh") -> TwoLayerBN:
    """Neurons of length 1 at these angles, with amplitude 0."""
    return TwoLayerBN(torch.zeros_like(angles), torch.stack([angles.cos(), angles.sin()], 1), activation)


def even_angles(m: int) -> Tensor:
    return torch.arange(m, dtype=torch.float64) * (2 * torch.pi / m)


def relu_data(n: int, seed: int, target: Callable[[Tensor], Tensor] | None = None) -> Data:
    """The anisotropic data of Figures 1 to 3: Gaussian with covariance diag(5, 1), target relu(x_1)."""
    sigma = torch.diag(torch.tensor([5.0, 1.0], dtype=torch.float64))
    generator = torch.Generator().manual_seed(seed)
    return GaussianInputs(sigma).sample(n, target or (lambda x: torch.relu(x[:, 0])), generator=generator)


def random_neurons(m: int, seed: int, *, length: float = 1.0) -> TwoLayerBN:
    """ReLU neurons of one length with normal amplitudes and directions, in the plane."""
    generator = torch.Generator().manual_seed(1000 + seed)
    a = torch.randn(m, generator=generator, dtype=torch.float64)
    b = torch.randn(m, 2, generator=generator, dtype=torch.float64)
    return TwoLayerBN(a, length * b / b.norm(dim=1, keepdim=True), "relu")
