"""The playground's data sets and networks: small, in the plane, with every normalization in a form to be tiled."""

import itertools
import math

import torch
from torch import Tensor, nn

from ..data import star, two_moons
from ..network.freeze import FrozenNorm, statistics
from ..normalization import initialize_
from ..normalization.initialize import METHODS
from ..support.errors import InputError
from .recipe import Recipe

NOT_AFFINE = ("layer", "group", "rms")
"""Norms whose statistics are those of each point: the picture holds them at the mean over the data, and says so."""


class HeldNorm(FrozenNorm):
    """A norm that trains as itself; in evaluation its statistics are those of the last batch, averaged: affine."""

    def __init__(self, norm: nn.LayerNorm | nn.GroupNorm | nn.RMSNorm, width: int) -> None:
        size = width if isinstance(norm, nn.GroupNorm) else 1
        super().__init__(norm, torch.zeros(size, dtype=torch.float64), torch.ones(size, dtype=torch.float64))
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        with torch.no_grad():
            for held, now in zip((self.mean, self.variance), statistics(self.norm, x), strict=True):
                held.copy_(now)
        normed: Tensor = self.norm(x)
        return normed


class Absolute(nn.Module):
    """|x|, by the unit."""

    def forward(self, x: Tensor) -> Tensor:
        return x.abs()


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU, "leaky": nn.LeakyReLU, "abs": Absolute, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh,
    "softplus": nn.Softplus, "sigmoid": nn.Sigmoid,
}  # fmt: skip


class Layer(nn.Module):
    """Linear, norm, activation; with `skip`, added to its input."""

    def __init__(self, fan_in: int, width: int, recipe: Recipe, skip: bool) -> None:
        super().__init__()
        linear: nn.Module = nn.Linear(fan_in, width)
        self.linear = nn.utils.parametrizations.weight_norm(linear) if recipe.norm == "weight" else linear
        self.norm = _norm(recipe.norm, width)
        self.act = ACTIVATIONS[recipe.activation]()
        self.skip = skip

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.act(self.norm(self.linear(x)))
        return y + x if self.skip else y

    def offset(self) -> Tensor | None:
        """The parameter that shifts every unit's fold: the norm's bias if it has one, else the linear map's."""
        return getattr(self.linear if isinstance(self.norm, nn.Identity) else self.norm, "bias", None)


def make_network(recipe: Recipe, classes: int, data: Tensor) -> nn.Sequential:
    """The network of a recipe in float64, weights drawn from its seed; torch's own random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        sizes = [2] + [recipe.width] * recipe.depth
        layers: list[nn.Module] = [
            Layer(a, b, recipe, recipe.skip and i > 0) for i, (a, b) in enumerate(itertools.pairwise(sizes))
        ]
        model = nn.Sequential(*layers, nn.Linear(recipe.width, classes))
        _initialize(model, recipe, data)
    return model.double()


def _norm(name: str, width: int) -> nn.Module:
    if name == "batch":
        return nn.BatchNorm1d(width, momentum=1.0)  # its running statistics are those of the last batch
    if name == "layer":
        return HeldNorm(nn.LayerNorm(width), width)
    if name == "rms":
        return HeldNorm(nn.RMSNorm(width), width)
    if name == "group":
        groups = next(g for g in (4, 3, 2, 1) if width % g == 0)
        return HeldNorm(nn.GroupNorm(groups, width), width)
    return nn.Identity()


def _initialize(model: nn.Sequential, recipe: Recipe, data: Tensor) -> None:
    if recipe.init in METHODS:
        if recipe.norm != "none" or recipe.skip:
            raise InputError(
                f"the start {recipe.init!r} sets plain layers: choose no normalization and no skips for it."
            )
        # in float32, folds that meet at the data's mean would miss each other, and leave tiles of rounding between them
        initialize_(model.eval().double(), data.double(), method=recipe.init)  # type: ignore[arg-type]  # one of METHODS
        return
    for module in model:
        if not isinstance(module, Layer) or recipe.init == "default":
            continue
        weight, bias = module.linear.weight, module.linear.bias
        with torch.no_grad():
            if recipe.init == "he":
                weight.copy_(torch.randn(weight.shape) * math.sqrt(2 / weight.shape[1]))  # type: ignore[operator,arg-type,index]
            bias.zero_()  # type: ignore[operator]


def make_set(recipe: Recipe, *, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """Points `[N, 2]` and classes `[N]` of a recipe; another `seed` gives other points of the same distribution.

    Points are float64, of numbers that float32 holds: the playground in a browser has the same ones.
    """
    x, y = _draw(recipe, seed)
    return x.double(), y


def _draw(recipe: Recipe, seed: int | None) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(recipe.seed if seed is None else seed)
    if recipe.data == "own":
        if len(recipe.points) < 2 or len({row[2] for row in recipe.points}) < 2:
            raise InputError("draw at least two points of different classes, or choose another set.")
        table = torch.tensor(recipe.points)
        return table[:, :2].contiguous(), table[:, 2].long()
    if recipe.data == "moons":
        x, y = two_moons(recipe.count, noise=recipe.noise, generator=generator)
        return 1.3 * x, y
    x, y = _MAKERS[recipe.data](recipe.count, generator)
    return x + recipe.noise * torch.randn(x.shape, generator=generator), y


def _circles(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    y = torch.arange(count) % 2
    turn = 2 * math.pi * torch.rand(count, generator=generator)
    radius = torch.where(y == 0, 1.6, 0.7)
    return torch.stack([radius * turn.cos(), radius * turn.sin()], 1), y


def _star(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The outline of a star, and of a smaller one inside it."""
    half = count // 2
    x = torch.cat([star(count - half, radius=1.8), star(half, radius=0.9)])
    return x, (torch.arange(count) >= count - half).long()


def _spirals(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    y = torch.arange(count) % 2
    place = torch.rand(count, generator=generator).sqrt()
    turn = 1.5 * 2 * math.pi * place + math.pi * y
    return 1.9 * place[:, None] * torch.stack([turn.cos(), turn.sin()], 1), y


def _xor(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = 3.4 * torch.rand(count, 2, generator=generator) - 1.7
    x = x + 0.15 * x.sign()
    return x, (x[:, 0] * x[:, 1] > 0).long()


def _blobs(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    y = torch.arange(count) % 3
    turn = 2 * math.pi * y / 3 + math.pi / 2
    return 1.1 * torch.stack([turn.cos(), turn.sin()], 1) + 0.25 * torch.randn(count, 2, generator=generator), y


_MAKERS = {"circles": _circles, "star": _star, "spirals": _spirals, "xor": _xor, "blobs": _blobs}
