"""The soft assignment of points to tiles: how sure a softened network is of the tile that a point is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splinescope.network.readable import floating_like
from splinescope.network.watching.calls import module_paths
from splinescope.smooth.capture import Forward, plain_call, undisturbed
from splinescope.smooth.soften import Replacing, checked_beta, soften, softened_relu
from splinescope.support.checks import as_rows, check_whole, running_on
from splinescope.support.display import Result
from splinescope.support.errors import InputError, UnsupportedModelError
from splinescope.support.evaluating import evaluating
from splinescope.support.progress import Progress, stepping
from splinescope.tiling import Slice

from ..drawings import plot_entropy


@dataclass(frozen=True, eq=False, repr=False)
class RegionPosterior(Result):
    """How sure a softened network is of the tile that a point is in. N points, S sites.

    Attributes:
        paths: `[S]` where the ReLUs are.
        active: Per site `[N, units]` probability that a unit is active.
        entropy: `[N, S]` entropy of a site's code, in bits: 0 is certainty, one bit per undecided unit.
        log2_probability: `[N, S]` log2 of the probability of the code that the signs give.
        beta: As given.
    """

    paths: tuple[str, ...]
    active: tuple[np.ndarray, ...]
    entropy: np.ndarray
    log2_probability: np.ndarray
    beta: float
    certainty = "exact"

    @property
    def total(self) -> np.ndarray:
        """`[N]` entropy over all sites, in bits."""
        return self.entropy.sum(1)


def region_posterior(
    model: nn.Module, x: Any, *, beta: float = 0.5, mix: float = 1.0, forward: Forward | None = None
) -> RegionPosterior:
    """The soft assignment of points to tiles: for a unit of pre-activation z,

        P(active | x) = sigmoid(beta z / (1 - beta)),

    units independent given what enters their layer, which is that of the network softened by beta. Exact for this model
    of it; as beta goes to 1 it becomes the hard code with certainty.

    Args:
        model: A ReLU network.
        x: `[N, *input shape]` points.
        beta: In [0, 1).
        mix: As for `soften`; 1 is the network whose activation is the mean under this posterior.
        forward: How to call the model.

    Example:
        >>> import torch, splinescope_research
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> splinescope_research.region_posterior(net, torch.zeros(3, 2), beta=0.9).entropy.shape
        (3, 1)

    Reference: Balestriero and Baraniuk, "From Hard to Soft".
    """
    beta = checked_beta(beta)
    if beta == 1:
        raise InputError("beta must lie in [0, 1): at 1 the code is certain; got 1.")
    soft = soften(model, beta, mix=mix)
    points = as_rows(x, "x")
    if points.is_floating_point():
        points = points.to(floating_like(model, torch.zeros(0)))
    seen: list[tuple[str, Tensor]] = []

    def relu(z: Tensor) -> Tensor:
        seen.append((paths[-1] if paths else "", z.detach().double().flatten(1).cpu()))
        return softened_relu(z, beta, mix)

    replacing = Replacing(relu, frozenset(("relu",)))
    with evaluating(soft), undisturbed(soft), module_paths(soft.model) as paths, replacing, running_on(points):
        (forward or plain_call)(soft.model, points)
    if not seen:
        raise UnsupportedModelError("No ReLU was seen in the model's forward pass: it has no hard code to soften.")
    logits = [beta / (1 - beta) * z for _, z in seen]
    active = [torch.sigmoid(z) for z in logits]
    entropy = [(p * F.softplus(-z) + (1 - p) * F.softplus(z)).sum(1) for p, z in zip(active, logits, strict=True)]
    own = [-F.softplus(-z.abs()).sum(1) for z in logits]
    bits, certain = (torch.stack(nats, 1).numpy() / np.log(2) for nats in (entropy, own))
    return RegionPosterior(tuple(path for path, _ in seen), tuple(p.numpy() for p in active), bits, certain, beta)


@dataclass(frozen=True, eq=False, repr=False)
class EntropyMap(Result):
    """Where on a plane a softened network is undecided which tile it is in.

    Attributes:
        view: The plane.
        t1: `[n]` first coordinates of the pixels' centers.
        t2: `[n]` second coordinates.
        paths: `[S]` where the ReLUs are.
        entropy: `[S, n, n]` bits per site, rows along t2; NaN outside the slice's domain.
        beta: As given.
    """

    view: Slice
    t1: np.ndarray
    t2: np.ndarray
    paths: tuple[str, ...]
    entropy: np.ndarray
    beta: float
    certainty = "exact"
    plot = plot_entropy

    @property
    def total(self) -> np.ndarray:
        """`[n, n]` bits over all sites."""
        return self.entropy.sum(0)


def entropy_map(
    model: nn.Module,
    view: Slice,
    *,
    beta: float = 0.9,
    mix: float = 1.0,
    cells: int = 160,
    batch_size: int = 4096,
    progress: Progress | bool | None = None,
) -> EntropyMap:
    """The entropy of `region_posterior` on a grid of a plane: bright where the network is undecided, along soft folds.

    Args:
        model: A ReLU network.
        view: A 2-D slice of its input space.
        beta: In [0, 1): near 1 only the folds themselves are undecided.
        mix: As for `region_posterior`.
        cells: Pixels per side.
        batch_size: Points run at once.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Returns:
        Bits per site and pixel, exact at the pixels' centers for the model of independent units.

    Example:
        >>> import torch, splinescope_research
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> view = Slice.axes([0.0, 0.0], (0, 1), -3, 3)
        >>> splinescope_research.entropy_map(net, view, cells=20).total.shape
        (20, 20)
    """
    if not isinstance(view, Slice) or view.dimension != 2:
        raise InputError(f"view must be a 2-D Slice, got {view!r}.")
    cells, batch_size = check_whole(cells, "cells"), check_whole(batch_size, "batch_size")
    low, high = view.domain.min(0), view.domain.max(0)
    centers = (np.arange(cells) + 0.5) / cells
    t1, t2 = (low[i] + (high[i] - low[i]) * centers for i in (0, 1))
    grid = np.stack(np.meshgrid(t1, t2), -1).reshape(-1, 2)
    inside = _inside(view.domain, grid)
    parts = np.array_split(grid[inside], max(1, -(-int(inside.sum()) // batch_size)))
    found = [
        region_posterior(model, view.inputs(part), beta=beta, mix=mix) for part in stepping(parts, progress, "entropy")
    ]
    entropy = np.full((len(found[0].paths), cells * cells), np.nan)
    entropy[:, inside] = np.concatenate([part.entropy for part in found]).T
    return EntropyMap(view, t1, t2, found[0].paths, entropy.reshape(-1, cells, cells), beta)


def _inside(corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    """`[N]` bool: points of a convex polygon given counter-clockwise."""
    edges = np.roll(corners, -1, 0) - corners
    away = points[:, None] - corners
    return (edges[:, 0] * away[..., 1] - edges[:, 1] * away[..., 0] >= 0).all(1)
