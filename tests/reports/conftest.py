"""A small classifier and data for it."""

import pytest
import torch
from torch import nn


@pytest.fixture(scope="module")
def classifier() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(2, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3)
    ).eval()


@pytest.fixture(scope="module")
def moons() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(60, 2, generator=generator), torch.arange(60) % 3
