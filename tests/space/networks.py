"""Networks of many inputs, and slow references for their tiles."""

from itertools import pairwise

import numpy as np
import torch
from scipy.optimize import linprog
from torch import nn


def mlp(*widths: int, seed: int = 0) -> nn.Sequential:
    """Linear layers with ReLU between them, in float64."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*layers[:-1]).double()


def seeded(make, seed: int = 0) -> nn.Module:
    """A module in float64 and eval mode, the same at every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make().double().eval()


class Skip(nn.Module):
    """The input enters twice: no direction is unseen."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 4), nn.Linear(10, 5)
        self.last = nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.second(torch.cat([torch.relu(self.first(x)), x], 1))))


class Minimum(nn.Module):
    """The least of three numbers, in four groups."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(7, 12), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).reshape(-1, 4, 3).amin(2))


def conv() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 6), nn.ReLU(), nn.Linear(6, 3))


def pooled() -> nn.Module:
    """ReLU, then max: dead competitors tie."""
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 3)
    )


def facets_by_programs(normals: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """`[n]` whether each halfspace is a facet: one linear program each, over all the others."""
    found = []
    for row in range(len(normals)):
        above = offsets + (np.arange(len(normals)) == row)
        asked = {"c": normals[row], "A_ub": -normals, "b_ub": above, "bounds": (None, None)}
        answer = linprog(**asked, method="highs")
        if answer.fun is None:  # the simplex method lost its way
            answer = linprog(**asked, method="highs-ipm")
        found.append(answer.fun + offsets[row] < -1e-7)
    return np.array(found, bool)


def random_network(seed: int) -> tuple[nn.Module, tuple[int, ...]]:
    """A small network, by turns an MLP of 2 to 100 inputs, a convolution, pooled, with a skip or a minimum."""
    random = np.random.default_rng(seed)
    special = {4: (conv, (1, 6, 6)), 9: (pooled, (1, 6, 6)), 14: (Skip, (6,)), 19: (Minimum, (7,))}
    if seed % 20 in special:
        make, shape = special[seed % 20]
        return seeded(make, seed), shape
    inputs = round(2 * 50 ** random.random())
    widths = random.integers(3, 10, random.integers(1, 4)).tolist()
    return mlp(inputs, *widths, 2, seed=seed), (inputs,)
