"""Minibatch statistics as noise: how far folds, boundaries and margins move from batch to batch."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.network import trace
from splinescope.network.watching.batch_statistics import batch_norms
from splinescope.network.watching.intercept import Hooked
from splinescope.normalization import with_statistics
from splinescope.support.checks import as_float64_array, as_rows, check_generator
from splinescope.support.display import Result
from splinescope.support.errors import InputError
from splinescope.support.progress import Progress, Share, check_progress, sharing
from splinescope.tiling import Slice, tessellate
from splinescope.tiling.measures.boundary import Boundary

from ..drawings import plot_boundary_jitter


def minibatch_networks(
    model: nn.Module, x: Any, batch_size: int, draws: int, *, generator: torch.Generator | None = None
) -> Iterator[nn.Module]:
    """`with_statistics` for `draws` random batches of `batch_size` rows of x; of seed 0 without a generator."""
    x = as_rows(x, "x")
    if not 2 <= batch_size <= len(x):
        raise InputError(f"batch_size must lie in [2, {len(x)}] (the rows of x), got {batch_size}.")
    if draws < 1:
        raise InputError(f"draws must be at least 1, got {draws}.")
    generator = check_generator(generator) or torch.Generator().manual_seed(0)
    for _ in range(draws):
        yield with_statistics(model, x[torch.randperm(len(x), generator=generator)[:batch_size]])


@dataclass(frozen=True, eq=False, repr=False)
class FoldJitter(Result):
    r"""How far one batch norm's offsets lie from those of all data, batch by batch, in units of its pre-activations.

    Attributes:
        path: Of the batch norm.
        deviation: `[C]` deviation $\sigma$ of the pre-activations over all data (divided by $\|w\|$ it is the rms
            distance of the data to the fold).
        measured: `[C]` root mean square difference of batch means and full mean, over the draws: about the mean of all
            data, not about that of the draws. Behind other batch norms the two differ by a bias of order $1/B$, which
            is in it: there it is more than the standard deviation of the offsets, the more so the smaller the batch.
        predicted: `[C]` $s \sqrt{(N-B)/((N-1)B)}$, s the deviation over rows of a row's influence on the mean. For the
            first batch norm that is a row's own mean over its positions ($s = \sigma$ where a row has one value) and
            the law is exact in expectation. Behind other batch norms it counts what they take out of a row's influence,
            to first order in $1/B$: behind a wide batch-normalized ReLU layer of Gaussian, independent pre-activations
            $\sqrt{(1/4 - 3/(4\pi)) / (1/2 - 1/(2\pi))} = 0.1818$ of $\sigma$ is left, since the norm removes the
            first two Hermite components of the ReLU. A deviation: the bias is of higher order and not in it.
    """

    path: str
    deviation: np.ndarray
    measured: np.ndarray
    predicted: np.ndarray
    certainty = "estimate"


def fold_jitter(
    model: nn.Module,
    x: Any,
    batch_size: int,
    *,
    draws: int = 100,
    generator: torch.Generator | None = None,
    progress: Progress | bool | None = None,
) -> list[FoldJitter]:
    r"""How much the folds of each batch norm move with the minibatch, measured and predicted.

    A fold at offset $\mu_B$, the mean over B of N rows drawn without replacement, has standard deviation
    $\frac{\sigma}{\|w\| \sqrt B} \sqrt{\frac{N-B}{N-1}}$ in the layer's input space: the rms distance of the data to
    the fold, over $\sqrt B$, with the correction for a finite population. Both sides are given times $\|w\|$, in units
    of the pre-activations: divide by the norm of a unit's weights for distances. What is measured is the root mean
    square about the offset of all data. In the first batch norm batch means have no bias, and that is the standard
    deviation; behind other batch norms they have one of order $1/B$, which is measured with the spread.

    Args:
        model: With batch norm; left as found.
        x: `[N, ...]` all data.
        batch_size: B.
        draws: Number of minibatches; what is measured has a relative error of about 1/sqrt(2 draws) a channel.
        generator: Source of the batches; a fresh one with seed 0 if None.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Returns:
        One `FoldJitter` per batch norm, in the model's order. Cost: draws + 1 forward passes of B rows, and for the
        prediction one backward pass of N rows per channel.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU())
        >>> import torch, splinescope_research
        >>> found = splinescope_research.fold_jitter(net, torch.randn(50, 2), 10, draws=5)
        >>> found[0].path, found[0].predicted.shape
        ('1', (3,))
    """
    check_progress(progress)
    x = as_rows(x, "x")
    full = with_statistics(model, x)
    population = len(x)
    norms = batch_norms(full)
    squares = {path: np.zeros(norm.num_features) for path, norm in norms.items()}
    with sharing(progress, "fold jitter") as share:
        networks = minibatch_networks(model, x, batch_size, draws, generator=generator)
        for number, network in enumerate(networks):
            share(number / draws / 2)
            for path, norm in norms.items():
                squares[path] += (_mean(network.get_submodule(path)) - _mean(norm)) ** 2
        influence = _influences(full, x, lambda done: share((1 + done) / 2))
    shrink = np.sqrt((population - batch_size) / ((population - 1) * batch_size))
    deviation = {path: norm.running_var.double().sqrt().cpu().numpy() for path, norm in norms.items()}
    return [
        FoldJitter(path, deviation[path], np.sqrt(squares[path] / draws), influence[path].std(0) * shrink)
        for path in norms
    ]


def _mean(norm: Any) -> Any:
    return norm.running_mean.double().cpu().numpy()


def _influences(full: nn.Module, x: Tensor, share: Share) -> dict[str, np.ndarray]:
    """Per batch norm `[N, C]`: how much weight put on a row moves the norm's mean.

    The means are functions of weights on the rows, all statistics before them included; their gradient at equal weights
    is to the first order what a batch, which gives some rows more weight and others none, adds up.
    """
    twin = copy.deepcopy(full).double()
    rows = x.double().to(next(twin.parameters(), x).device)
    weights = torch.full((len(rows),), 1.0 / len(rows), dtype=torch.float64, device=rows.device, requires_grad=True)
    means: dict[str, Tensor] = {}

    def watch(path: str) -> Any:
        def hook(norm: Any, inputs: tuple[Tensor, ...], _output: Tensor) -> Tensor:
            z = inputs[0]
            spots = z.reshape(*z.shape[:2], -1)  # [N, C, positions]
            share = weights / weights.sum()
            mean = share @ spots.mean(2)
            variance = share @ spots.square().mean(2) - mean.square()
            means[path] = mean
            shape = (1, -1, *(1,) * (z.dim() - 2))
            scale = (variance.clamp_min(0) + norm.eps).rsqrt() * (1.0 if norm.weight is None else norm.weight)
            shift = 0.0 if norm.bias is None else norm.bias.reshape(shape)
            return (z - mean.reshape(shape)) * scale.reshape(shape) + shift

        return hook

    hooks = Hooked(after=[(norm, watch(path)) for path, norm in batch_norms(twin).items()])
    with hooks, torch.inference_mode(False), torch.enable_grad():
        twin(rows)
        channels, found = sum(map(len, means.values())), dict[str, list[Tensor]]()
        for path, mean in means.items():
            for m in mean:
                share(sum(map(len, found.values())) / channels)
                found.setdefault(path, []).append(torch.autograd.grad(m, weights, retain_graph=True)[0])
    return {path: torch.stack(gradients, 1).cpu().numpy() for path, gradients in found.items()}


@dataclass(frozen=True, eq=False, repr=False)
class BoundaryJitter(Result):
    """An ensemble of exact decision boundaries over minibatches, on a slice.

    Attributes:
        full: The boundary with the statistics of all data.
        boundaries: One per minibatch.
        margins: `[draws, N]` exact distances in the slice from the points to each boundary.
        full_margins: `[N]` to the boundary with full statistics.
        flips: `[draws]` share of the points that change class against full statistics.
    """

    full: Boundary
    boundaries: tuple[Boundary, ...]
    margins: np.ndarray
    full_margins: np.ndarray
    flips: np.ndarray
    certainty = "estimate"
    plot = plot_boundary_jitter


def boundary_jitter(
    model: nn.Module,
    x: Any,
    batch_size: int,
    view: Slice,
    points: Any,
    *,
    draws: int = 20,
    generator: torch.Generator | None = None,
    progress: Progress | bool | None = None,
) -> BoundaryJitter:
    """Decision boundaries on a slice as they are seen by one minibatch after the other; each one exact.

    Args:
        model: A classifier with batch norm; left as found.
        x: `[N, ...]` data whose minibatches give the statistics.
        batch_size: Rows per minibatch.
        view: The slice.
        points: `[M, d]` slice coordinates of the points whose margins and classes are followed.
        draws: Number of minibatches.
        generator: Their source; a fresh one with seed 0 if None.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Returns:
        `BoundaryJitter`. Cost: one tiling per draw.
    """
    places = as_float64_array(points, "points")
    inputs = torch.from_numpy(view.inputs(places))
    current = with_statistics(model, x)
    network = trace(current, inputs[:1])  # follows the statistics that `current` is given below

    def look() -> tuple[Boundary, np.ndarray]:
        scores = network(inputs).flatten(1)
        classes = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(1)  # of one output, its sign
        return tessellate(network, view, progress=False).decision_boundary(), classes.cpu().numpy()

    full, classes = look()
    seen: list[tuple[Boundary, np.ndarray]] = []
    with sharing(progress, "boundaries") as share:
        for drawn in minibatch_networks(model, x, batch_size, draws, generator=generator):
            share(len(seen) / draws)
            current.load_state_dict(drawn.state_dict())
            seen.append(look())
    return BoundaryJitter(
        full,
        tuple(boundary for boundary, _ in seen),
        np.stack([boundary.distances(places) for boundary, _ in seen]),
        full.distances(places),
        np.array([(changed != classes).mean() for _, changed in seen]),
    )
