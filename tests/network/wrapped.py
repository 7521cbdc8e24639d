"""Functions as modules, and what `trace` says when it refuses one."""

import pytest
import torch
from torch import nn

import splinescope as ss


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)).eval()


class Lambda(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def refusal(function, shape: tuple[int, ...] = (4, 6), kind: type[Exception] = ss.UnsupportedModelError) -> str:
    with pytest.raises(kind) as caught:
        ss.trace(Lambda(function).eval(), torch.zeros(2, *shape))
    return str(caught.value)
