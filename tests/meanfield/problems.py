"""Random networks and data that the tests of this part share, all float64 and seeded."""

import torch

from splinescope.meanfield import Data, TwoLayerBN

ACTIVATIONS = ("relu", "leaky_relu", "tanh", "softplus", "sin", torch.nn.GELU())
"""Closed forms and one that only automatic differentiation knows."""


def quartic(f: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (f - y) ** 4 / 4 + 0.1 * (f - y) ** 2


LOSSES = ("squared", "logistic", quartic)


def problem(
    seed: int = 0, *, d: int = 3, m: int = 8, n: int = 40, activation: object = "tanh", skew: float = 1.0
) -> tuple[TwoLayerBN, Data]:
    """A batch-norm network with neurons of very different lengths, and correlated centered data, labels -1,
    1.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    x = normal(n, d) @ (torch.eye(d, dtype=torch.float64) + skew * normal(d, d) / d**0.5)
    y = torch.sign(torch.sin(x[:, 0]) + 0.3 * normal(n))
    lengths = 10 ** (torch.rand(m, 1, generator=generator, dtype=torch.float64) - 0.5)
    b = normal(m, d)
    return TwoLayerBN(normal(m), b / b.norm(dim=1, keepdim=True) * lengths, activation), Data.of(x, y, center="center")
