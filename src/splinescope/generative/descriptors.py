"""Local geometry of a generator: scaling, rank and complexity at a latent, and maps of them over a slice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..complexity import local_complexity
from ..network import SplineNetwork, trace
from ..support.checks import check_whole
from ..support.display import Certainty, Result, in_words, table
from ..support.errors import InputError
from ..support.progress import Progress
from ..tiling import Slice
from .pushforward import Generator
from .volume import log_volume


@dataclass(frozen=True, eq=False, repr=False)
class LocalGeometry(Result):
    """Three numbers that describe a generator about a latent (Humayun et al. 2024).

    Attributes:
        scaling: `[N]` sum of the logs of the non-zero singular values: how much the generator stretches volume.
        effective_rank: `[N]` exp of the entropy of the normalized singular values: how many directions matter.
        rank: `[N]` numerical rank.
        complexity: `[N]` folds that pass through the neighborhood; nan where no radius was given.
    """

    scaling: Tensor
    effective_rank: Tensor
    rank: Tensor
    complexity: Tensor

    @property
    def certainty(self) -> Certainty:
        """ "exact"; "bound" with a complexity, which counts folds from below."""
        return "exact" if bool(self.complexity.isnan().all()) else "bound"

    def summary(self) -> str:
        """The three numbers over all latents, and how sure they are."""
        none = "not counted: no radius was given" if bool(self.complexity.isnan().all()) else in_words(self.complexity)
        rows = [(name, in_words(value)) for name, value in self._shown() if name != "complexity"]
        return f"{table([*rows, ('complexity', none)])}\n{self.assurance}"


def effective_rank(singular_values: Tensor) -> Tensor:
    """`exp(-sum p log p)` with `p = sigma / sum sigma`, over the last axis; 0 if all are (Roy, Vetterli 2007)."""
    total = singular_values.sum(-1, keepdim=True)
    p = torch.where(total > 0, singular_values / total, torch.zeros_like(singular_values))
    return torch.where(
        total[..., 0] > 0, torch.exp(-torch.special.xlogy(p, p).sum(-1)), torch.zeros_like(total[..., 0])
    )


def local_geometry(
    model: Generator, z: Tensor, *, radius: float | None = None, output: str = "after",
    generator: torch.Generator | None = None, progress: Progress | bool | None = None,
) -> LocalGeometry:  # fmt: skip
    """Scaling, rank and complexity of a generator at latents.

    Args:
        model: As in `log_volume`; complexity needs a piecewise-affine one.
        z: `[N, *latent shape]`.
        radius: Of the neighborhood whose folds are counted; no complexity if None.
        output: "after" the final tanh, sigmoid or softmax, or "before" it.
        generator: Source of the frames of the complexity estimate.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Scaling and ranks are exact; the complexity is that of `local_complexity` by frames (folds summed over all sites, an
    estimate from below), of the network before its final tanh, sigmoid or softmax.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> local_geometry(model, torch.zeros(1, 2)).rank.shape
        torch.Size([1])

    Reference: Humayun et al., "What Secrets Do Your Manifolds Hold?" (2024).
    """
    volumes = log_volume(model, z, output=output, progress=progress)
    complexity = torch.full((len(z),), torch.nan, dtype=torch.float64, device=z.device)
    if radius is not None:
        network = model if isinstance(model, SplineNetwork) else trace(model, z[:1])
        found = local_complexity(network, z, radius=radius, generator=generator, progress=progress)
        complexity = found.total.to(z.device, torch.float64)
    return LocalGeometry(volumes.log_pseudo, effective_rank(volumes.singular_values), volumes.rank, complexity)


def geometry_map(
    model: Generator, view: Slice, *, resolution: int = 64, radius: float | None = None, output: str = "after",
    progress: Progress | bool | None = None,
) -> tuple[np.ndarray, LocalGeometry]:  # fmt: skip
    """The descriptors on a grid over the bounding box of a 2-D latent slice.

    Returns:
        The slice coordinates `[resolution^2, 2]` of the grid (first axis fastest), and the descriptors there,
        of the generator in the whole latent space (not only along the slice).
    """
    if view.dimension != 2:
        raise InputError(f"a map needs a 2-D slice, got a {view.dimension}-D one.")
    check_whole(resolution, "resolution")
    low, high = view.domain.min(0), view.domain.max(0)
    across = low[0] + (high[0] - low[0]) * (np.arange(resolution) + 0.5) / resolution
    along = low[1] + (high[1] - low[1]) * (np.arange(resolution) + 0.5) / resolution
    t = np.stack(np.meshgrid(across, along), -1).reshape(-1, 2)
    return t, local_geometry(model, torch.from_numpy(view.inputs(t)), radius=radius, output=output, progress=progress)
