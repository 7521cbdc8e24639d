"""The one table of networks that every routine meets, each with a slice: plain, structured and degenerate ones.

`CASES` holds the names; `model(name)` makes a fresh network, `view(name)` its slice, `tiling(name)` the tiling
(made once). All are small: most of the time is the reading of the modules. The last biases are set so that the
outputs are zero on average over the slice: several classes win somewhere.
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

import splinescope as ss

Square = ss.Slice.axes([0.0, 0.0], (0, 1), -2.0, 2.0)


def mlp(*widths: int, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers with an activation between them, of twice the usual weights: many folds on a small square."""
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), activation()]
        with torch.no_grad():
            layers[-2].weight.mul_(2.0)
    return nn.Sequential(*layers[:-1])


class Abs(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.abs()


class Residual(nn.Module):
    """Two blocks `x + relu(W x + b)`."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(2, 6)
        self.blocks = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.leave = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return self.leave(x)


def _image_slice() -> ss.Slice:
    generator = torch.Generator().manual_seed(5)
    points = torch.randn(3, 1, 6, 6, generator=generator, dtype=torch.float64)
    return ss.Slice.through(*points, pad=0.1, shape="triangle")


def _conv() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 6), nn.ReLU(), nn.Linear(6, 3))


def _max_pool() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 3))


def _batch_norm() -> nn.Module:
    net = nn.Sequential(
        nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2)
    )
    net(torch.randn(64, 2))  # running statistics of their own
    return net.eval()


def _dead_unit() -> nn.Module:
    net = mlp(2, 8, 6, 3)
    with torch.no_grad():
        net[0].weight[3], net[0].bias[3] = 0.0, -1.0
        net[2].weight[2], net[2].bias[2] = 0.0, 0.0
    return net


def _duplicate_unit() -> nn.Module:
    net = mlp(2, 8, 6, 3)
    with torch.no_grad():
        net[0].weight[1], net[0].bias[1] = net[0].weight[0], net[0].bias[0]
        net[0].weight[2], net[0].bias[2] = -2 * net[0].weight[0], -2 * net[0].bias[0]
        net[2].weight[1], net[2].bias[1] = net[2].weight[0], net[2].bias[0]
    return net


def _zero_bias() -> nn.Module:
    net = mlp(2, 8, 6, 3)
    with torch.no_grad():
        for layer in net[::2]:
            layer.bias.zero_()
    return net


def _corner_on_fold() -> nn.Module:
    """Folds through a corner of the square, along its edge, and along both diagonals."""
    net = mlp(2, 4, 2)
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 1.0], [1.0, -1.0], [1.0, 0.0], [3.0, 1.0]]))
        net[0].bias.copy_(torch.tensor([0.0, 0.0, 2.0, 8.0]))
    return net


def _scaled(factor: float) -> nn.Module:
    net = mlp(2, 8, 6, 3)
    with torch.no_grad():
        net[0].weight.mul_(factor)
        net[0].bias.mul_(factor)
        net[2].bias.mul_(factor)
        net[4].bias.mul_(factor)
    return net


_TABLE: dict[str, tuple[Callable[[], nn.Module], ss.Slice]] = {
    "one layer": (lambda: mlp(2, 10, 3), Square),
    "two layers": (lambda: mlp(2, 12, 12, 4), Square),
    "four layers, one output": (lambda: mlp(2, 8, 8, 8, 8, 1), Square),
    "off-center plane in five inputs": (
        lambda: mlp(5, 10, 8, 3),
        ss.Slice.box(np.full(5, 3.0), half_width=2.0, generator=torch.Generator().manual_seed(1)),
    ),
    "oblique basis": (
        lambda: mlp(3, 9, 6, 2),
        ss.Slice([0.1, 0.2, 0.3], [[1.0, 0.5, 0.0], [0.0, 2.0, 1.0]], [[-1.0, -1.0], [2.0, -1.0], [0.0, 1.5]]),
    ),
    "line": (lambda: mlp(2, 12, 12, 3), ss.Slice.segment([-2.0, -1.5], [1.5, 2.0])),
    "convolution": (_conv, _image_slice()),
    "max-pool": (_max_pool, _image_slice()),
    "residual": (Residual, Square),
    "batch norm": (_batch_norm, Square),
    "leaky": (lambda: mlp(2, 8, 6, 3, activation=lambda: nn.LeakyReLU(0.1)), Square),
    "prelu, negative slope": (lambda: mlp(2, 8, 6, 3, activation=lambda: nn.PReLU(init=-0.5)), Square),
    "absolute value": (lambda: mlp(2, 8, 6, 3, activation=Abs), Square),
    "bounded": (lambda: mlp(2, 8, 6, 3, activation=lambda: nn.Hardtanh(-0.5, 0.5)), Square),
    "image output": (lambda: mlp(2, 6, 100), Square),
    "dead units": (_dead_unit, Square),
    "duplicate units": (_duplicate_unit, Square),
    "zero bias": (_zero_bias, Square),
    "corner on a fold": (_corner_on_fold, Square),
    "no hidden layer": (lambda: mlp(2, 3), Square),
    "scale 1e8": (lambda: _scaled(1e8), Square),
    "scale 1e-8": (lambda: _scaled(1e-8), Square),
}

CASES = tuple(_TABLE)


def _center_outputs(net: nn.Module, view: ss.Slice) -> None:
    shares = np.random.default_rng(0).dirichlet(np.ones(len(view.domain)), 200)
    last = [m for m in net.modules() if isinstance(m, nn.Linear)][-1]
    with torch.no_grad():
        last.bias -= net(torch.from_numpy(view.inputs(shares @ view.domain))).mean(0)


def planes() -> list[str]:
    """The cases with a 2-D slice."""
    return [name for name in CASES if view(name).dimension == 2]


def model(name: str) -> nn.Module:
    """A fresh network, the same at every call, in float64 and eval mode; the global random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = _TABLE[name][0]().double().eval()
    if name not in ("zero bias", "corner on a fold"):
        _center_outputs(net, view(name))
    return net


def view(name: str) -> ss.Slice:
    """The slice that the network is tiled on."""
    return _TABLE[name][1]


@cache
def tiling(name: str) -> ss.Tiling:
    """The tiling of the case, made once per session: treat as read-only."""
    return ss.tessellate(model(name), view(name))
