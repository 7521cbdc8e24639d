"""Random smooth networks on planes: MLPs, convolutional and residual ones, with all known activations."""

import numpy as np
import torch
from torch import Tensor, nn

import splinescope as ss

ACTIVATIONS = (
    nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(), nn.Tanh(), nn.Sigmoid(), nn.Softplus(), nn.Softplus(beta=3.0),
    nn.ELU(), nn.ELU(alpha=0.6), nn.SELU(), nn.CELU(0.7), nn.Mish(), nn.Hardswish(), nn.LogSigmoid(), nn.Softsign(),
    nn.Tanhshrink(),
)  # fmt: skip


class Called(nn.Module):
    """A function as a module."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Residual(nn.Module):
    def __init__(self, size: int, activation: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(size, size), activation, nn.Linear(size, size))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


def random_network(seed: int) -> tuple[nn.Module, ss.Slice]:
    """One of the three kinds by seed, float64, with a plane through its input space."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    first, second = (ACTIVATIONS[i] for i in rng.integers(len(ACTIVATIONS), size=2))
    kind = seed % 3
    if kind == 0:
        width = int(rng.integers(4, 10))
        net = nn.Sequential(nn.Linear(3, width), first, nn.Linear(width, width), second, nn.Linear(width, 2))
        size = 3
    elif kind == 1:
        net = nn.Sequential(
            nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), first, nn.MaxPool2d(2),
            nn.Conv2d(2, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2),
        )  # fmt: skip
        size = 16
    else:
        net = nn.Sequential(
            nn.Linear(3, 5), Residual(5, first), nn.LeakyReLU(0.2), Residual(5, second), nn.Linear(5, 2)
        )
        size = 3
    points = rng.normal(size=(3, size))
    return net.double().eval(), ss.Slice.through(*points, pad=0.2)


def deviation_at(net: nn.Module, tiling: ss.Tiling, count: int, seed: int = 5) -> float:
    """Largest difference of the module and the tiled network at random points of the slice."""
    view = tiling.view
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(view.domain)), size=count)
    worst = 0.0
    with torch.no_grad():
        for part in np.array_split(weights, max(1, count // 8192)):
            x = torch.from_numpy(view.inputs(part @ view.domain))
            worst = max(worst, float((net(x) - tiling.frozen.forward(x)).abs().max()))
    return worst
