"""Generators that every routine of this part meets, and the real ones where their files are."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import splinescope as ss
from splinescope.generative import tiled_manifold
from splinescope.generative.exact import TiledManifold


class ConvDecoder(nn.Module):
    """Shaped like published convolutional decoders; a functional sigmoid ends it."""

    def __init__(self, latent: int = 4, channels: int = 2) -> None:
        super().__init__()
        self.dense = nn.Linear(latent, 4 * 3 * 3)
        self.norm = nn.BatchNorm2d(4)
        self.up = nn.ConvTranspose2d(4, 3, 4, 2, 1)
        self.last = nn.ConvTranspose2d(3, channels, 4, 2, 1)

    def forward(self, z: Tensor) -> Tensor:
        h = torch.relu(self.norm(self.dense(z.flatten(1)).view(-1, 4, 3, 3)))
        return torch.sigmoid(self.last(nn.functional.leaky_relu(self.up(h), 0.2))).flatten(1)


def mlp(*widths: int, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), activation()]
    return nn.Sequential(*layers[:-1])


def with_dead_latent() -> nn.Sequential:
    net = mlp(4, 16, 16, 10)
    with torch.no_grad():
        net[0].weight[:, 2] = 0.0
    return net


def stretched() -> nn.Sequential:
    """Singular values over ten decades: squaring them would lose the small ones."""
    net = nn.Sequential(nn.Linear(5, 5), mlp(5, 24, 9))
    with torch.no_grad():
        net[0].weight.copy_(torch.diag(torch.logspace(-5, 5, 5)))
        net[0].bias.zero_()
    return net


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: mlp(6, 32, 32, 20), (6,)),
    "tanh ending": (lambda: nn.Sequential(*mlp(6, 32, 20), nn.Tanh()), (6,)),
    "inplace relu": (lambda: nn.Sequential(nn.Linear(3, 9), nn.ReLU(inplace=True), nn.Linear(9, 5)), (3,)),
    "conv decoder with batch norm": (ConvDecoder, (4,)),
    "latent with spatial axes": (ConvDecoder, (4, 1, 1)),
    "smooth": (lambda: mlp(4, 16, 16, 7, activation=nn.GELU), (4,)),
    "affine": (lambda: nn.Linear(3, 8), (3,)),
    "one latent": (lambda: mlp(1, 8, 6), (1,)),
    "dead latent": (with_dead_latent, (4,)),
    "fewer outputs than latents": (lambda: mlp(6, 16, 3), (6,)),
    "ten decades": (stretched, (5,)),
    "huge scale": (lambda: nn.Sequential(*mlp(3, 16, 8), nn.Flatten(), _scaled(8, 1e8)), (3,)),
}


def _scaled(n: int, factor: float) -> nn.Linear:
    layer = nn.Linear(n, n)
    with torch.no_grad():
        layer.weight.mul_(factor)
    return layer


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> tuple[nn.Module, Tensor]:
    """A float64 generator in eval mode and seven latents."""
    build, shape = CASES[request.param]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        generator = build().double().eval()
        return generator, torch.randn(7, *shape, dtype=torch.float64)


@pytest.fixture(scope="session")
def surface() -> nn.Sequential:
    """A generator of a surface in space, 2-16-16-3, float64."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = mlp(2, 16, 16, 3).double()
    return net.eval()


@pytest.fixture(scope="session")
def manifold(surface: nn.Sequential) -> TiledManifold:
    """The surface over the square [-2, 2]^2, tile by tile."""
    return tiled_manifold(ss.tessellate(surface, ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of networks that other people trained."""
    folder = Path(os.environ.get("SPLINESCOPE_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (folder / "mnist_gan_lenet").is_dir():
        pytest.skip(f"real generators are not at {folder} (set SPLINESCOPE_TEST_DATA)")
    return folder
