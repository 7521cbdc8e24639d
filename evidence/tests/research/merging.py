"""A small network with batch norm and its training, for the tests of merging it away."""

from __future__ import annotations

import torch
from torch import nn

from splinescope_research import MergeAway

ROWS = torch.linspace(-1, 1, 24).reshape(8, 3)


def network(bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Linear(3, 8, bias=bias), nn.BatchNorm1d(8), nn.ReLU()),
        *(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)),
    )


def train(net: nn.Module, optimizer: torch.optim.Optimizer, steps: int, told: MergeAway | None = None) -> list[float]:
    generator = torch.Generator().manual_seed(1)
    losses = []
    for step in range(steps):
        if told is not None:
            told.step(step)
        x = torch.randn(32, 3, generator=generator)
        loss = (net(x) - x[:, :2].abs()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses
