"""The networks and slices that the benchmarks measure: fixed seeds and sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from tests import real
from torch import Tensor, nn

import splinescope as ss


@dataclass(frozen=True)
class Case:
    """A network on a slice; `long` ones take seconds."""

    make: Callable[[], tuple[nn.Module, ss.Slice]]
    long: bool = False


def mlp(*widths: int) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def conv_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, 2, 2), nn.ReLU(), nn.Conv2d(8, 16, 5, 2, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(16 * 16 * 16, 160), nn.ReLU(), nn.Linear(160, 160), nn.ReLU(), nn.Linear(160, 2),
    )  # fmt: skip


class SmallResNet(nn.Module):
    """Conv + BN, max-pool, two residual blocks, average pool, linear head."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.norm = nn.Conv2d(3, channels, 3, 2, 1), nn.BatchNorm2d(channels)
        self.blocks = nn.ModuleList(
            nn.ModuleList([nn.Conv2d(channels, channels, 3, 1, 1), nn.BatchNorm2d(channels)]) for _ in range(2)
        )
        self.head = nn.Linear(channels * 16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.stem(x))), 2)
        for conv, norm in self.blocks:
            x = torch.relu(x + norm(conv(x)))
        return self.head(nn.functional.avg_pool2d(x, 2).flatten(1))


def plane(*shape: int, share: float = 1.0, kind: str = "square") -> ss.Slice:
    """The plane through three random images, shrunk about its center."""
    points = torch.rand(3, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    view = ss.Slice.through(*points, shape=kind)
    return ss.Slice(view.origin, view.basis, view.domain * share)


def square() -> ss.Slice:
    return ss.Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)


def resnet_20() -> tuple[nn.Module, ss.Slice]:
    images, _ = real.cifar_images()
    view = ss.Slice.through(*images[:3])
    return real.resnet20(), ss.Slice(view.origin, view.basis, view.anchors[0] + 0.0006 * view.domain)


def mountain_car() -> tuple[nn.Module, ss.Slice]:
    low, high = real.MOUNTAIN_CAR_STATES
    return real.mountain_car("dqn"), ss.Slice.axes([0.0, 0.0], (0, 1), low, high)


CASES: dict[str, Case] = {
    "MLP 2-20x3-1": Case(lambda: (mlp(2, 20, 20, 20, 1), square())),
    "MLP 2-64x4-1": Case(lambda: (mlp(2, 64, 64, 64, 64, 1), square())),
    "MLP 2-128x4-1": Case(lambda: (mlp(2, 128, 128, 128, 128, 1), square())),
    "MLP 2-256x4-1": Case(lambda: (mlp(2, 256, 256, 256, 256, 1), square())),
    "MLP 784-200x4-10, triangle": Case(lambda: (mlp(784, 200, 200, 200, 200, 10), plane(784, kind="triangle"))),
    "ConvNet 1x64x64, 5% of the square": Case(lambda: (conv_net(), plane(1, 64, 64, share=0.05))),
    "ConvNet 1x64x64, 10% of the square": Case(lambda: (conv_net(), plane(1, 64, 64, share=0.1))),
    "ConvNet 1x64x64, half of the square": Case(lambda: (conv_net(), plane(1, 64, 64, share=0.5)), long=True),
    "small ResNet, BN, max-pool 3x32x32": Case(lambda: (SmallResNet().eval(), plane(3, 32, 32)), long=True),
    "ResNet-20, CIFAR-10": Case(resnet_20),
    "MountainCar DQN 2-256x2-3": Case(mountain_car),
}
