"""How many tiles change and how far the decision boundary moves with the statistics of a minibatch."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from ..normalization import minibatch_networks, statistics_fidelity, with_statistics


def tile_changes(net: nn.Module, x: Tensor, sizes: tuple[int, ...], draws: int) -> list[list[float]]:
    """`[sizes, layers]` share of points whose tile of the first layers, up to this one, changes."""
    found: list[list[float]] = statistics_fidelity(net, x, sizes, draws=draws, progress=False).tiles.tolist()
    return found


def crossed(shares: np.ndarray) -> np.ndarray:
    """Mean number of walls that are crossed, if crossings are as rare events: the share that crosses none is its exp.

    It is the share of tiles that change where that is small, and tells large ones apart as long as some point stays.
    """
    return np.asarray(-np.log1p(-np.minimum(shares, 1 - 1e-6)))


@torch.no_grad()
def boundary_moves(
    net: nn.Sequential, x: Tensor, sizes: tuple[int, ...], draws: int, segments: int, layer: int | None = None
) -> dict[str, list[float]]:
    """`[sizes]` how far the class boundary moves on segments between points of different classes, mean and median.

    On each segment the place is where the class of its start is first lost, by linear interpolation of the lead of that
    class between 101 points; 0 if the start itself has lost it, 1 if it is kept to the end. In units of the inputs.

    Args:
        net: With batch norm.
        x: `[N, D]` data that statistics are taken of, and that segments join.
        sizes: Of minibatches.
        draws: Minibatches of each size.
        segments: How many.
        layer: Only the batch norm of this number has a minibatch's statistics, the others those of the data.
    """
    full = with_statistics(net, x)
    assert isinstance(full, nn.Sequential)
    generator = torch.Generator().manual_seed(0)
    classes = full(x).argmax(1)
    a, b = (torch.randint(len(x), (50 * segments,), generator=generator) for _ in range(2))
    kept = torch.nonzero(classes[a] != classes[b]).flatten()[:segments]
    start, end, own = x[a[kept]], x[b[kept]], classes[a[kept]]
    lengths = (end - start).norm(dim=1).numpy()
    before = _lost(full, start, end, own)
    means, medians = [], []
    for size in sizes:
        moves = []
        for drawn in (
            minibatch_networks(net, x, size, draws, generator=generator)
            if layer is None
            else _one_layer(full, x, size, draws, layer, generator)
        ):
            moves.append(np.abs(_lost(drawn, start, end, own) - before) * lengths)
        means.append(float(np.mean(moves)) if len(kept) else np.nan)
        medians.append(float(np.median(moves)) if len(kept) else np.nan)
    return {"mean": means, "median": medians}


@torch.no_grad()
def _lost(net: nn.Module, start: Tensor, end: Tensor, own: Tensor) -> np.ndarray:
    """`[segments]` in [0, 1]: where the class of the start is first lost."""
    steps = torch.linspace(0, 1, 101, dtype=start.dtype)
    points = start[:, None] + steps[:, None] * (end - start)[:, None]
    scores = net(points.flatten(0, 1)).reshape(len(start), len(steps), -1)
    index = own[:, None, None].expand(-1, len(steps), 1)
    lead = scores.gather(2, index)[..., 0] - scores.scatter(2, index, -torch.inf).amax(2)
    behind = lead < 0
    first = behind.to(torch.int8).argmax(1)
    last = (first - 1).clamp_min(0)
    rows = torch.arange(len(start))
    above, below = lead[rows, last], lead[rows, first]
    place = steps[last] + (steps[first] - steps[last]) * above / (above - below).clamp_min(1e-300)
    place = torch.where(first == 0, torch.zeros_like(place), place)
    return torch.where(behind.any(1), place, torch.ones_like(place)).numpy()


def _one_layer(
    full: nn.Sequential, x: Tensor, size: int, draws: int, layer: int, generator: torch.Generator
) -> list[nn.Module]:
    """The network with the data's statistics in all batch norms but one, which has a minibatch's."""
    place = [i for i, module in enumerate(full) if isinstance(module, nn.BatchNorm1d)][layer]
    values = full[:place](x)
    made: list[nn.Module] = []
    for _ in range(draws):
        rows = values[torch.randperm(len(x), generator=generator)[:size]]
        net = copy.deepcopy(full)
        norm = net[place]
        assert isinstance(norm, nn.BatchNorm1d)
        norm.running_mean, norm.running_var = rows.mean(0), rows.var(0, correction=0)
        made.append(net)
    return made
