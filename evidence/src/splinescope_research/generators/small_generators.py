"""Small generators for the examples and experiments: a Wasserstein GAN in the plane and a VAE for small images."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from splinescope.support.checks import as_rows, check_whole
from splinescope.support.errors import InputError
from splinescope.support.progress import stepping

T = TypeVar("T")
THREE_CENTERS = ((-1.5, -1.0), (1.5, -1.0), (0.0, 1.6))
THREE_SPREAD = 0.35


def three_gaussians(count: int, generator: torch.Generator) -> Tensor:
    """`[count, 2]` points of three equal Gaussians in the plane."""
    centers = torch.tensor(THREE_CENTERS)
    which = torch.randint(len(centers), (count,), generator=generator)
    return centers[which] + THREE_SPREAD * torch.randn(count, 2, generator=generator)


def log_three_gaussians(x: Tensor) -> Tensor:
    """`[n]` log density of `three_gaussians` at `[n, 2]`."""
    centers = torch.tensor(THREE_CENTERS, dtype=x.dtype)
    distance = (x[:, None] - centers).square().sum(2) / THREE_SPREAD**2
    constant = torch.log(torch.tensor(2 * torch.pi * THREE_SPREAD**2 * len(centers), dtype=x.dtype))
    return torch.logsumexp(-distance / 2, 1) - constant


def relu_mlp(*widths: int) -> nn.Sequential:
    """Linear layers of the given widths with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train_planar_wgan(
    draw: Callable[[int, torch.Generator], Tensor], *, steps: int = 300, seed: int = 0
) -> nn.Sequential:
    """A ReLU generator from U[-1, 1]^2 to the plane, trained as a Wasserstein GAN with gradient penalty; in eval mode.

    `draw(count, generator)` gives `[count, 2]` points. Both networks have three hidden layers of 64 units; every
    generator step follows three of the critic. The global random state is left as found.

    Reference: Gulrajani et al., "Improved Training of Wasserstein GANs" (2017).
    """
    check_whole(steps, "steps", least=0)
    width, batch_size = 64, 256
    rng = torch.Generator().manual_seed(seed)
    points = draw(batch_size, torch.Generator().manual_seed(seed))
    if points.shape != (batch_size, 2):
        raise InputError(
            f"draw(count, generator) must give points of shape (count, 2), got {tuple(points.shape)} for a count of "
            f"{batch_size}."
        )
    generator, critic = _seeded(seed, lambda: (relu_mlp(2, *[width] * 3, 2), relu_mlp(2, *[width] * 3, 1)))
    optimizers = [torch.optim.Adam(net.parameters(), 1e-3, (0.5, 0.9)) for net in (generator, critic)]

    def latents() -> Tensor:
        return 2 * torch.rand(batch_size, 2, generator=rng) - 1

    with torch.enable_grad():
        for _ in stepping(range(steps), None, "training"):
            for _ in range(3):
                real, fake = draw(batch_size, rng), generator(latents()).detach()
                between = torch.lerp(real, fake, torch.rand(batch_size, 1, generator=rng)).requires_grad_()
                (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
                loss = critic(fake).mean() - critic(real).mean() + (slope.norm(dim=1) - 1).square().mean()
                _step(optimizers[1], loss)
            _step(optimizers[0], -critic(generator(latents())).mean())
    return generator.eval()


class SmallVAE(nn.Module):
    """A variational autoencoder with ReLU networks for small gray images in [0, 1].

    Args:
        shape: Shape of one image, such as (1, 8, 8).
        latent: Numbers per latent.
        width: Of the hidden layers.
        convolutional: A convolutional decoder (sides must be multiples of 4); dense layers otherwise.

    Attributes:
        decoder: The generator: `[n, latent]` to `[n, *shape]`, ending in a sigmoid.
    """

    def __init__(
        self, shape: tuple[int, int, int], *, latent: int = 8, width: int = 128, convolutional: bool = True
    ) -> None:
        super().__init__()
        channels, height, across = shape
        if convolutional and (height % 4 or across % 4):
            raise InputError(f"a convolutional decoder needs sides that are multiples of 4, got {height} x {across}.")
        size = channels * height * across
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(size, width), nn.ReLU(), nn.Linear(width, 2 * latent))
        layers: list[nn.Module] = [nn.Linear(latent, width), nn.ReLU()]
        if convolutional:
            layers += [
                nn.Linear(width, 16 * height * across // 16),
                nn.ReLU(),
                nn.Unflatten(1, (16, height // 4, across // 4)),
                nn.ConvTranspose2d(16, 16, 4, 2, 1),
                nn.ReLU(),
                nn.ConvTranspose2d(16, channels, 4, 2, 1),
            ]
        else:
            layers += [nn.Linear(width, width), nn.ReLU(), nn.Linear(width, size), nn.Unflatten(1, shape)]
        self.decoder = nn.Sequential(*layers, nn.Sigmoid())

    def forward(self, images: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Reconstructions, latent means and log variances."""
        mean, log_variance = self.encoder(images).chunk(2, 1)
        return self.decoder(mean + noise * (log_variance / 2).exp()), mean, log_variance


def train_vae(
    x: Tensor,
    *,
    latent: int = 8,
    width: int = 128,
    convolutional: bool = True,
    epochs: int = 30,
    batch_size: int = 100,
    beta: float = 1.0,
    seed: int = 0,
) -> SmallVAE:
    """Train a `SmallVAE` on images `[N, C, H, W]` in [0, 1] by the evidence lower bound (Bernoulli pixels).

    Digits 8x8 take seconds, 28x28 images a few minutes on two cores. Returned in eval mode; `.decoder` is the
    generator. `beta` weighs the divergence from the prior. The global random state is left as found.
    """
    x = as_rows(x, "x")
    if x.dim() != 4 or x.numel() == 0 or not bool(((x >= 0) & (x <= 1)).all()):
        raise InputError(f"x must have shape (N, C, H, W) and values in [0, 1], got shape {tuple(x.shape)}.")
    check_whole(epochs, "epochs")
    check_whole(batch_size, "batch_size")
    rng = torch.Generator().manual_seed(seed)
    shape = (x.shape[1], x.shape[2], x.shape[3])
    model = _seeded(seed, lambda: SmallVAE(shape, latent=latent, width=width, convolutional=convolutional))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    with torch.enable_grad():
        for _ in stepping(range(epochs), None, "training"):
            for rows in torch.randperm(len(x), generator=rng).split(batch_size):
                seen = x[rows]
                decoded, mean, log_variance = model(seen, torch.randn(len(seen), latent, generator=rng))
                fit = nn.functional.binary_cross_entropy(decoded, seen, reduction="sum")
                divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum() / 2
                _step(optimizer, (fit + beta * divergence) / len(seen))
    return model.eval()


def _seeded(seed: int, build: Callable[[], T]) -> T:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
