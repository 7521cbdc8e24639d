"""What the experiments on normalisation share: point sets and training loops."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from ..tiling import Slice, tessellate
from ._experiment import Verdict

KINDS = ("zero bias", "random bias", "batch")


def star(n: int = 50, centre: tuple[float, float] = (0.0, 0.0)) -> Tensor:
    """`[n, 2]` points on a five-pointed star of radius 1 (inner radius .45), evenly along its ten edges."""
    corners = np.array([[r * math.sin(a), r * math.cos(a)] for a, r in _corners()])
    place = np.arange(n) / n * 10
    edge, share = place.astype(int), (place % 1)[:, None]
    points = corners[edge] * (1 - share) + corners[(edge + 1) % 10] * share
    return torch.from_numpy(points + np.array(centre))


def _corners() -> list[tuple[float, float]]:
    return [(k * math.pi / 5, 1.0 if k % 2 == 0 else 0.45) for k in range(10)]


def two_moons(n: int, noise: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """`[n, 2]` points of two interleaved half circles, and labels 0 and 1."""
    turn = math.pi * torch.rand(n, generator=generator, dtype=torch.float64)
    labels = torch.arange(n) % 2
    upper = torch.stack([turn.cos(), turn.sin()], 1)
    lower = torch.stack([1 - turn.cos(), 0.5 - turn.sin()], 1)
    points = torch.where(labels[:, None] == 0, upper, lower)
    return points + noise * torch.randn(n, 2, generator=generator, dtype=torch.float64), labels


def seeded(make: object, seed: int) -> nn.Module:
    """A module made with its own random stream."""
    assert callable(make)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module: nn.Module = make()
    return module


def moons_network(width: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Linear(2, width), nn.BatchNorm1d(width), nn.ReLU()),
        *(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 2)),
    )


def train_moons(
    net: nn.Module, x: Tensor, y: Tensor, steps: int, batch_size: int, minibatch: bool, generator: torch.Generator
) -> None:
    """Adam on minibatches of the loss; statistics come from the same minibatch, or from all points."""
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(steps):
        pick = torch.randperm(len(x), generator=generator)[:batch_size]
        outputs = net(x[pick]) if minibatch else net(x)[pick]
        optimizer.zero_grad()
        nn.functional.cross_entropy(outputs, y[pick]).backward()
        optimizer.step()


def measure_margins(net: nn.Module, x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> dict[str, float]:
    """Signed exact margins of the training points with full statistics, and test accuracy."""
    boundary = tessellate(net, Slice.axes([0.0, 0.0], (0, 1), -2.5, 3.5)).decision_boundary()
    with torch.no_grad():
        right = (net(x).argmax(1) == y).numpy()
        accuracy = float((net(test_x).argmax(1) == test_y).double().mean())
    margins = boundary.distances(x.numpy()) * np.where(right, 1, -1)
    return {"smallest": float(margins.min()), "mean": float(margins.mean()), "accuracy": accuracy}


LEVEL = 0.05


def paired_verdict(gains: np.ndarray) -> tuple[Verdict, list[float]]:
    """Whether some column of paired differences `[seeds, looks]` is above zero, by two-sided Student t-tests.

    Holds if the smallest p of a gain, times the number of looks (Bonferroni), is below .05; fails if every look is a
    loss with p below .05; open otherwise. Few seeds need a large t: 3 standard errors of 3 seeds are p = .1.

    Returns:
        The verdict and the p of each look.
    """
    from scipy.stats import ttest_1samp

    p = np.array([float(ttest_1samp(column, 0.0).pvalue) for column in gains.T])
    up = gains.mean(0) > 0
    if (p[up] * len(p) < LEVEL).any():
        return Verdict.HOLDS, p.tolist()
    return Verdict.FAILS if (~up & (p < LEVEL)).all() else Verdict.INCONCLUSIVE, p.tolist()


CRITERION = (
    "paired t-test over seeds at .05: holds if some gain is significant after correction for the number of looks, "
    "does not hold if every look is a significant loss, open otherwise"
)
