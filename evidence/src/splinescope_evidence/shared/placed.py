"""What the experiment on placed norms trains and counts: small networks on digits, frozen or not, and their folds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from splinescope.complexity import data_spacing, local_complexity
from splinescope.normalization import with_statistics
from splinescope_evidence.shared.data import digits
from splinescope_research import placing
from splinescope_research.normalization.placed_norms import PlacedNorm1d, PlacedNorm2d, boundary_weights

RATE = 3e-3
"""Of Adam, for every scheme."""


def mlp(width: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs in (64, width, width):
        layers += [nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def convolutional(width: int) -> nn.Sequential:
    """Three 3x3 convolutions of 8x8 images, the second and third with stride 2."""
    layers: list[nn.Module] = [nn.Unflatten(1, (1, 8, 8))]
    for inputs, stride in ((1, 1), (width, 2), (width, 2)):
        layers += [nn.Conv2d(inputs, width, 3, stride, 1), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * width, 10))


def split_digits(seed: int, rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x, y = digits()
    x = x.float()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    return x[order[:rows]], y[order[:rows]], x[order[rows:]], y[order[rows:]]


def train(net: nn.Module, x: Tensor, y: Tensor, batch: int, steps: int, generator: torch.Generator) -> list[float]:
    """Adam on the cross-entropy; the boundary of the step before says which points are near it."""
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    net.train()
    near = torch.ones(len(x), dtype=x.dtype)
    losses = []
    for _ in range(steps):
        rows = torch.randperm(len(x), generator=generator)[:batch]
        with placing(net, y=y[rows], weights=near[rows]):
            outputs = net(x[rows])
        near[rows] = boundary_weights(outputs).clamp_min(1e-3)
        loss = nn.functional.cross_entropy(outputs, y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def accuracy(net: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float((net.eval()(x).argmax(1) == y).double().mean())


def settled(net: nn.Module, x: Tensor, y: Tensor) -> nn.Module:
    """The network in evaluation with the statistics of all data, by its own criterion."""
    net.eval()
    with torch.no_grad():
        weights = boundary_weights(net(x)).clamp_min(1e-3)
    with placing(net, y=y, weights=weights):
        return with_statistics(net, x)


def frozen(net: nn.Module, x: Tensor, y: Tensor) -> nn.Module:
    """Folds placed once, by all the data; from there training moves them as in a network without norms."""
    made = settled(settled(net, x, y), x, y)  # the boundary that weights go by is that of the placed network
    for module in made.modules():
        if isinstance(module, PlacedNorm1d | PlacedNorm2d):
            module.frozen = True
    return made


def census(net: nn.Module, x: Tensor, other_x: Tensor, count: int, generator: torch.Generator) -> dict[str, float]:
    """Folds within half the spacing of the training points: near these, other data, the boundary, and elsewhere.

    Mean numbers over `count` points each. Elsewhere is uniform in the box of the data; the boundary is where the class
    changes on the way between two held-out points of different classes, by bisection.
    """
    radius = 0.5 * float(data_spacing(x))
    low, high = x.min(0).values, x.max(0).values
    sets = {
        "data": x[:count],
        "held out": other_x[:count],
        "boundary": crossings(net, other_x, count, generator),
        "elsewhere": low + (high - low) * torch.rand(count, x.shape[1], generator=generator),
    }
    return {
        name: float(
            local_complexity(net, points, radius=radius, method="distance", progress=False)
            .counts.sum(1)
            .double()
            .mean()
        )
        for name, points in sets.items()
    }


@torch.no_grad()
def crossings(net: nn.Module, x: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """`[count, D]` points where the class changes between two points that get different ones."""
    classes = net(x).argmax(1)
    a = torch.randint(len(x), (20 * count,), generator=generator)
    b = torch.randint(len(x), (20 * count,), generator=generator)
    differ = torch.nonzero(classes[a] != classes[b]).flatten()[:count]
    start, end, own = x[a[differ]], x[b[differ]], classes[a[differ]]
    low, high = torch.zeros(len(differ), 1), torch.ones(len(differ), 1)
    for _ in range(20):
        middle = 0.5 * (low + high)
        same = (net(start + middle * (end - start)).argmax(1) == own)[:, None]
        low, high = torch.where(same, middle, low), torch.where(same, high, middle)
    return start + 0.5 * (low + high) * (end - start)
