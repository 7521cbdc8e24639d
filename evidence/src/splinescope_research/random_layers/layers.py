"""A batch-norm layer taken apart: linear map, recentering, rescaling, non-linearity, each on or off."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from splinescope.support.checks import check_choice, check_whole
from splinescope.support.errors import InputError

Spread = Literal["std", "rms"]
Init = Literal["he", "lecun", "default"]

COMPONENTS: tuple[str, ...] = ("rc", "rs", "nl")


def check_components(components: Iterable[str]) -> frozenset[str]:
    """The set of components, refused if one of them is not "rc", "rs" or "nl"."""
    chosen = [components] if isinstance(components, str) else list(components)
    for name in chosen:
        check_choice(name, "components", COMPONENTS)
    return frozenset(chosen)


class BatchStandardize(nn.Module):
    r"""Recentering and rescaling over the batch, each on or off.

    With batch mean `m` and batch spread `s` per unit, both over the leading axes,

    $$ h = (z - [\text{rc}]\, m) \,/\, \sqrt{s^2 + \text{eps}}^{\,[\text{rs}]} $$

    where `s` is the standard deviation (`spread="std"`) or the root mean square of what is divided
    (`spread="rms"`, the rescaling of Daneshmand et al. 2021); after recentering the two agree. With both on,
    this is `torch.nn.BatchNorm1d(affine=False)`, including its running statistics: in evaluation mode those
    are used in place of the batch's.

    Args:
        features: Size of the last axis.
        recenter: Subtract the mean of each unit over the batch.
        rescale: Divide each unit by its spread over the batch.
        spread: "std" or "rms".
        eps: Added to the squared spread.
        momentum: Weight of the newest batch in the running statistics.

    Shapes: `[..., features]` to `[..., features]`; the batch is everything but the last axis.

    Example:
        >>> x = torch.randn(8, 3)
        >>> bool(torch.allclose(BatchStandardize(3)(x), nn.BatchNorm1d(3, affine=False)(x), atol=1e-5))
        True
    """

    running_mean: Tensor
    running_square: Tensor

    def __init__(
        self,
        features: int,
        *,
        recenter: bool = True,
        rescale: bool = True,
        spread: Spread = "std",
        eps: float = 1e-5,
        momentum: float = 0.1,
    ) -> None:
        super().__init__()
        check_choice(spread, "spread", ("std", "rms"))
        check_whole(features, "features")
        if not eps >= 0:
            raise InputError(f"eps must be a number >= 0, got {eps!r}.")
        self.features, self.recenter, self.rescale = features, recenter, rescale
        self.spread, self.eps, self.momentum = spread, eps, momentum
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_square", torch.ones(features))

    def forward(self, z: Tensor) -> Tensor:
        if z.ndim < 1 or z.shape[-1] != self.features:
            raise InputError(f"z must have shape (..., {self.features}), got {tuple(z.shape)}.")
        mean, square = (self.running_mean, self.running_square) if not self.training else self._batch_statistics(z)
        if self.recenter:
            z = z - mean
        if self.rescale:
            z = z * torch.rsqrt(square + self.eps)
        return z

    def _batch_statistics(self, z: Tensor) -> tuple[Tensor, Tensor]:
        rows = z.reshape(-1, self.features)
        count = rows.shape[0]
        if count < 2:
            raise InputError(
                f"A batch of at least 2 rows is needed in train mode, got {count}; call eval() for one row."
            )
        mean = rows.mean(dim=0)
        centered = self.recenter or self.spread == "std"
        square = (rows - mean if centered else rows).square().mean(dim=0)
        with torch.no_grad():
            unbiased = square * (count / (count - 1)) if centered else square
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            self.running_square.lerp_(unbiased.to(self.running_square.dtype), self.momentum)
        return mean, square

    def extra_repr(self) -> str:
        return (
            f"{self.features}, recenter={self.recenter}, rescale={self.rescale}, spread={self.spread!r}, eps={self.eps}"
        )


class NormalizedLayer(nn.Module):
    """Linear map, then recentering (RC), rescaling (RS) and non-linearity (NL), each on or off.

    `("rc", "rs", "nl")` is the usual batch-norm layer; `("rc", "nl")` the layer whose batch collapses to a
    cluster and one odd point; `("rs",)` with `spread="rms"` the rescaling-only linear model of Daneshmand,
    Joudaki and Bach (2021); `("nl",)` a plain ReLU layer.

    Args:
        in_features: Size of the input rows.
        out_features: Width of the layer.
        components: Any of "rc", "rs", "nl".
        spread: What RS divides by, see `BatchStandardize`.
        eps: See `BatchStandardize`.
        activation: The non-linearity used for NL.
        bias: Give the linear map a bias (RC cancels it).

    Example:
        >>> layer = NormalizedLayer(5, 7, components=("rc", "nl"))
        >>> layer(torch.randn(4, 5)).shape
        torch.Size([4, 7])

    Reference: Nachum, Bondaschi, Gastpar, Khina, "Batch Normalization Decomposed", equations (1) to (3).
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        components: Iterable[str] = COMPONENTS,
        spread: Spread = "std",
        eps: float = 1e-5,
        activation: Callable[[], nn.Module] = nn.ReLU,
        bias: bool = False,
    ) -> None:
        super().__init__()
        chosen = check_components(components)
        check_whole(in_features, "in_features")
        check_whole(out_features, "out_features")
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.standardize: nn.Module = nn.Identity()
        if chosen & {"rc", "rs"}:
            self.standardize = BatchStandardize(
                out_features, recenter="rc" in chosen, rescale="rs" in chosen, spread=spread, eps=eps
            )
        self.activation: nn.Module = activation() if "nl" in chosen else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.activation(self.standardize(self.linear(x)))
        return out


def random_network(
    depth: int,
    width: int,
    *,
    in_features: int | None = None,
    out_features: int | None = None,
    components: Iterable[str] = COMPONENTS,
    init: Init = "he",
    spread: Spread = "std",
    eps: float = 1e-5,
    bias: bool = False,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    r"""A random network of `depth` equal layers, ready to be studied or trained.

    Args:
        depth: Number of layers (`NormalizedLayer`).
        width: Their width.
        in_features: Size of the input (`width` if None).
        out_features: If given, a linear readout of this size follows.
        components: Any of "rc", "rs", "nl", the same for all layers.
        init: Entries of the weights: "he" is $N(0, 2/d)$, "lecun" is $N(0, 1/d)$, "default" is torch's
            uniform on $\pm 1/\sqrt d$, with `d` the number of inputs. Biases follow torch's uniform for
            "default" and are zero otherwise.
        spread: What RS divides by, see `BatchStandardize`.
        eps: See `BatchStandardize`.
        bias: Give the layers biases.
        dtype: Of parameters and buffers (torch's default if None).
        generator: Source of the random weights; the global one is used, and moved, only if None.

    Returns:
        A sequence of layers in train mode, since the batch's own statistics are the object of study.

    Example:
        >>> net = random_network(3, 16, in_features=4, generator=torch.Generator().manual_seed(0))
        >>> net(torch.randn(10, 4)).shape
        torch.Size([10, 16])
    """
    check_whole(depth, "depth")
    check_whole(width, "width")
    check_choice(init, "init", ("he", "lecun", "default"))
    sizes = [width if in_features is None else in_features] + [width] * depth
    with torch.random.fork_rng(devices=[]):  # nn.Linear draws from the global stream; those draws are replaced
        layers: list[nn.Module] = [
            NormalizedLayer(a, b, components=components, spread=spread, eps=eps, bias=bias)
            for a, b in itertools.pairwise(sizes)
        ]
        if out_features is not None:
            layers.append(nn.Linear(width, out_features, bias=bias))
    network = nn.Sequential(*layers)
    if dtype is not None:
        network = network.to(dtype)
    for module in network.modules():
        if isinstance(module, nn.Linear):
            _draw(module, init, generator)
    return network


@torch.no_grad()
def _draw(linear: nn.Linear, init: str, generator: torch.Generator | None) -> None:
    fan_in = linear.in_features
    if init == "default":
        for parameter in linear.parameters():
            parameter.uniform_(-1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in), generator=generator)
        return
    linear.weight.normal_(0, math.sqrt((2 if init == "he" else 1) / fan_in), generator=generator)
    if linear.bias is not None:
        linear.bias.zero_()
