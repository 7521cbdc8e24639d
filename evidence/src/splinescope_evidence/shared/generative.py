"""What the experiments on generators share: toy surfaces, chi-square over tiles, the real generators."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from splinescope.generative import PolaritySampler, tiled_manifold
from splinescope.generative.exact import TiledManifold
from splinescope.tiling import Slice, tessellate
from splinescope_research.generators.small_generators import relu_mlp


class GraphSurface(nn.Module):
    """`z -> (z, height(z))` with a ReLU network as height: a surface over the plane, so injective."""

    def __init__(self, seed: int, *widths: int) -> None:
        super().__init__()
        self.height = seeded_mlp(seed, 2, *widths, 1)

    def forward(self, z: Tensor) -> Tensor:
        return torch.cat([z, 3.0 * self.height(z)], 1)  # steep, so that volume factors differ


def seeded_mlp(seed: int, *widths: int) -> nn.Sequential:
    """A float64 ReLU network, He weights and biases of half a unit: well folded over the square."""
    net, rng = relu_mlp(*widths).double(), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, nn.Linear):
                layer.weight.normal_(0.0, (2 / layer.in_features) ** 0.5, generator=rng)
                layer.bias.normal_(0.0, 0.5, generator=rng)
    return net


def surface_of(generator: nn.Module, half_width: float = 1.0) -> TiledManifold:
    """A generator's exact manifold over the latent square [-half_width, half_width]^2."""
    square = Slice.axes([0.0, 0.0], (0, 1), -half_width, half_width)
    return tiled_manifold(tessellate(generator, square, progress=False))


def chi_square(tiles: np.ndarray, probabilities: np.ndarray) -> tuple[float, float]:
    """(chi-square per degree of freedom, p value) of how often tiles were hit; tiles expected under 5 times pooled."""
    observed = np.bincount(tiles, minlength=len(probabilities)).astype(float)
    expected = probabilities * len(tiles)
    own = expected >= 5
    observed = np.append(observed[own], observed[~own].sum())
    expected = np.append(expected[own], expected[~own].sum())
    if expected[-1] < 5:  # what is left over joins the last tile
        observed[-2:], expected[-2:] = (observed[-2:].sum(), 0), (expected[-2:].sum(), 1)
        observed, expected = observed[:-1], expected[:-1]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    freedom = len(expected) - 1
    return statistic / freedom, float(stats.chi2.sf(statistic, freedom))


def accepted(sampler: PolaritySampler, rho: float) -> Tensor:
    """`[n, 2]` all latents of a sampler's pool that rejection accepts: independent, without repeats."""
    weights = sampler.log_weights(rho)
    rng = torch.Generator().manual_seed(sampler.seed + 17)
    return sampler.pool.latents[torch.rand(len(weights), generator=rng, dtype=torch.float64).log() < weights]


@dataclass(frozen=True)
class LabeledGenerator:
    """A generator with a normal latent and a network that labels its outputs."""

    name: str
    generator: nn.Module
    latent: int
    labeler: Callable[[Tensor], Tensor]


def real_generators() -> list[LabeledGenerator]:
    """The published MNIST generators with the LeNet that labels them, where their files are; else none.

    The folder is named by SPLINESCOPE_TEST_DATA, or is ../shared/data.
    """
    folder = Path(os.environ.get("SPLINESCOPE_TEST_DATA", "../shared/data"))
    if not (folder / "mnist_gan_lenet").is_dir() or not (folder / "disentangling_vae").is_dir():
        return []
    lenet = _LeNet()
    lenet.load_state_dict(_weights(folder / "mnist_gan_lenet" / "lenet_epoch=12_test_acc=0.991.pth"))

    def label(images: Tensor) -> Tensor:
        return lenet(nn.functional.interpolate(images, (32, 32), mode="bilinear", align_corners=False))

    gan = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 784), nn.Tanh())
    gan.load_state_dict(_weights(folder / "mnist_gan_lenet" / "G--300.ckpt"))
    dense = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 784), nn.Sigmoid())
    state = _weights(folder / "mnist_gan_lenet" / "vae_epoch_25.pth")
    dense.load_state_dict({new: state[old] for new, old in _DENSE_KEYS.items()})
    conv = ConvDecoder(channels=1, side=32)
    state = _weights(folder / "disentangling_vae" / "VAE_mnist.pt")
    conv.load_state_dict({key[len("decoder.") :]: value for key, value in state.items() if key.startswith("decoder.")})
    return [
        LabeledGenerator("MLP GAN", gan.eval(), 64, lambda x: label((x.view(-1, 1, 28, 28) + 1) / 2)),
        LabeledGenerator("MLP VAE", dense.eval(), 20, lambda x: label(x.view(-1, 1, 28, 28))),
        LabeledGenerator("conv VAE", conv.eval(), 10, label),
    ]


_DENSE_KEYS = {f"{i}.{part}": f"fc{j}.{part}" for i, j in ((0, 3), (2, 4)) for part in ("weight", "bias")}


def _weights(path: Path) -> dict[str, Tensor]:
    state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return state


class ConvDecoder(nn.Module):
    """The decoder of the published convolutional VAEs (10-D latent, 32 or 64 pixels a side), ReLU and sigmoid."""

    def __init__(self, *, channels: int, side: int) -> None:
        super().__init__()
        self.lin1, self.lin2, self.lin3 = nn.Linear(10, 256), nn.Linear(256, 256), nn.Linear(256, 512)
        self.larger = side == 64
        if self.larger:
            self.convT_64 = nn.ConvTranspose2d(32, 32, 4, 2, 1)
        self.convT1, self.convT2 = (nn.ConvTranspose2d(32, 32, 4, 2, 1) for _ in range(2))
        self.convT3 = nn.ConvTranspose2d(32, channels, 4, 2, 1)

    def forward(self, z: Tensor) -> Tensor:
        x = torch.relu(self.lin3(torch.relu(self.lin2(torch.relu(self.lin1(z)))))).view(-1, 32, 4, 4)
        if self.larger:
            x = torch.relu(self.convT_64(x))
        return torch.sigmoid(self.convT3(torch.relu(self.convT2(torch.relu(self.convT1(x))))))


class _LeNet(nn.Module):
    """LeNet-5 with ReLU and max-pooling for 1x32x32 images."""

    def __init__(self) -> None:
        super().__init__()
        self.convnet = nn.ModuleDict({"c1": nn.Conv2d(1, 6, 5), "c3": nn.Conv2d(6, 16, 5), "c5": nn.Conv2d(16, 120, 5)})
        self.fc = nn.ModuleDict({"f6": nn.Linear(120, 84), "f7": nn.Linear(84, 10)})

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.convnet["c1"](x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.convnet["c3"](x)), 2)
        x = torch.relu(self.convnet["c5"](x)).flatten(1)
        scores: Tensor = self.fc["f7"](torch.relu(self.fc["f6"](x)))
        return scores
