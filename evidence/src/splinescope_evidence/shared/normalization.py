"""What the experiments on normalization share: point sets and training loops."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.tiling import Slice, tessellate
from splinescope_evidence.framework.experiment import Check, Claim, judged
from splinescope_evidence.shared.intervals import interval

KINDS = ("zero bias", "random bias", "batch")


def star(n: int = 50, center: tuple[float, float] = (0.0, 0.0)) -> Tensor:
    """`[n, 2]` points on a five-pointed star of radius 1 (inner radius .45), evenly along its ten edges."""
    corners = np.array([[r * math.sin(a), r * math.cos(a)] for a, r in _corners()])
    place = np.arange(n) / n * 10
    edge, share = place.astype(int), (place % 1)[:, None]
    points = corners[edge] * (1 - share) + corners[(edge + 1) % 10] * share
    return torch.from_numpy(points + np.array(center))


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


def seeded(make: Callable[[], nn.Sequential], seed: int) -> nn.Sequential:
    """A network made with its own random stream."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def moons_network(width: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Linear(2, width), nn.BatchNorm1d(width), nn.ReLU()),
        *(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 2)),
    )


def train_moons(
    net: nn.Sequential,
    x: Tensor,
    y: Tensor,
    steps: int,
    loss_batch: int,
    statistics_batch: int,
    generator: torch.Generator,
) -> None:
    """Adam on a batch of the loss, with the statistics of a batch that holds it or is held by it: nested draws."""
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(steps):
        order = torch.randperm(len(x), generator=generator)
        of_loss, of_statistics = order[:loss_batch], order[:statistics_batch]
        outputs = normalized_by(net, x[of_loss], x[of_statistics])
        optimizer.zero_grad()
        nn.functional.cross_entropy(outputs, y[of_loss]).backward()
        optimizer.step()


def normalized_by(net: nn.Sequential, x: Tensor, statistics: Tensor) -> Tensor:
    """The network at x with batch norms that take mean and variance from other rows, gradients included."""
    for layer in net:
        if isinstance(layer, nn.BatchNorm1d):
            mean, variance = statistics.mean(0), statistics.var(0, correction=0)
            x, statistics = (
                (z - mean) / torch.sqrt(variance + layer.eps) * layer.weight + layer.bias for z in (x, statistics)
            )
        else:
            x, statistics = layer(x), layer(statistics)
    return x


def measure_margins(net: nn.Module, x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> dict[str, float]:
    """Signed exact margins of the training points with full statistics, and test accuracy."""
    boundary = tessellate(net, Slice.axes([0.0, 0.0], (0, 1), -2.5, 3.5)).decision_boundary()
    with torch.no_grad():
        right = (net(x).argmax(1) == y).numpy()
        accuracy = float((net(test_x).argmax(1) == test_y).double().mean())
    margins = boundary.distances(x.numpy()) * np.where(right, 1, -1)
    return {"smallest": float(margins.min()), "mean": float(margins.mean()), "accuracy": accuracy}


def paired(text: str, what: str, gains: np.ndarray, others: str = "") -> Claim:
    """A claim of a gain, by its one pre-stated comparison: paired differences over seeds, Student's interval.

    Args:
        text: The claim.
        what: What was compared.
        gains: `[seeds]` differences.
        others: Further comparisons, told but not judged.
    """
    low, high = interval(gains)
    return judged(
        text,
        f"{what}: {gains.mean():+.4f}, 95% interval {low:+.4f} to {high:+.4f}, {len(gains)} paired seeds{others}",
        holds=[Check(f"lower end of the 95% interval: {what}", low, ">", 0.0, "0 is no gain")],
        fails=[Check(f"upper end of the 95% interval: {what}", high, "<", 0.0, "0 is no loss")],
    )
