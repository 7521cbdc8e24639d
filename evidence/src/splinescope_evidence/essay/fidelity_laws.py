"""An open question of the essay: how tiles and the decision boundary move with the batch size of the statistics."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.normalization import with_statistics
from splinescope.normalization.jitter import minibatch_networks
from splinescope.research import statistics_fidelity
from splinescope_evidence.essay.fidelity import LARGE, LAYERS, SIZES, WIDTH, _network, _train
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import log_ticks, subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.shared.normalization import seeded
from splinescope_evidence.shared.root_law import TENTH, as_root, exponents, worth

NEAR_ALL = (270, 285, 294, 297)
"""Of 300 points, worth 2,691 to 29,601 of endless ones: where some points keep their tile of all layers. At smaller
sizes nearly none does, and shares of tiles that change tell nothing."""

ONE_LAYER = tuple(f"layer {i + 1}" for i in range(LAYERS))


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    """The networks of `essay_fidelity` that are trained with large batches, before and after."""
    seeds, rows, steps, draws, width = (2, 60, 15, 2, 12) if size == "quick" else (8, 300, 600, 10, WIDTH)
    sizes, large = ((8, 32), 32) if size == "quick" else (SIZES, LARGE)
    near_all, segments = ((50, 57), 10) if size == "quick" else (NEAR_ALL, 60)
    x, y = digits()
    tiles: dict[str, list[list[list[float]]]] = {"untrained": [], "trained": []}
    moves: dict[str, list[dict[str, list[float]]]] = {name: [] for name in ("untrained", "trained", *ONE_LAYER)}

    def look(when: str, net: nn.Sequential, x: Tensor) -> None:
        tiles[when].append(tile_changes(net, x, near_all, 2 * draws))
        moves[when].append(boundary_moves(net, x, sizes, draws, segments))

    for s in range(seeds):
        if progress is not None:
            progress(s / seeds, f"seed {s}")
        train = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed + s))[:rows]
        net = seeded(lambda: _network(width), seed + s).double()
        look("untrained", net, x[train])
        _train(net, x[train], y[train], large, large, steps, torch.Generator().manual_seed(seed + s))
        look("trained", net, x[train])
        for layer, of_layer in enumerate(ONE_LAYER):
            moves[of_layer].append(boundary_moves(net, x[train], _some(sizes), draws, segments, layer))
    return Outcome(
        {"sizes": sizes, "rows": rows, "near_all": near_all, "tiles": tiles, "moves": moves},
        (_tiles_law(tiles, near_all, rows), _boundary_law(moves, sizes, rows)),
    )


def _some(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The smallest, the middle and the largest, for single layers."""
    return sizes[:: max(1, len(sizes) // 2)]


def _tiles_law(tiles: dict[str, Any], sizes: tuple[int, ...], rows: int) -> Claim:
    """Tiles of the first layers against B, where B is so near to all points that some tiles stay."""
    shares = "; ".join(
        f"{when} {', '.join(f'{v:.3f}' for v in np.array(runs).mean(0)[:, 0])} and "
        + ", ".join(f"{v:.3f}" for v in np.array(runs).mean(0)[:, -1])
        for when, runs in tiles.items()
    )
    return as_root(
        "The walls that points cross (-log of the share that keeps its tile, of the first layers and of all of them) "
        "go as one over the root of what a batch is worth, but for a tenth in the exponent, with 3 to 30 of 300 points "
        "left out (essay, fidelity of adaptation; ours as a law).",
        "the walls crossed, -log of the share of points that keep their tile of the first layers, at "
        f"{', '.join(map(str, sizes))} of {rows} points (worth {worth(sizes[0], rows):.0f} to "
        f"{worth(sizes[-1], rows):.0f})",
        {when: exponents(crossed(np.array(runs)), sizes, rows) for when, runs in tiles.items()},
        f"share of points whose tile changes, of the first layer and of all: {shares}",
    )


def _boundary_law(moves: dict[str, Any], sizes: tuple[int, ...], rows: int) -> Claim:
    """How far the boundary moves against B; all layers judged in trained networks, single ones told."""
    slopes = {
        name: exponents(np.array([run["mean"] for run in runs]), _some(sizes) if name in ONE_LAYER else sizes, rows)
        for name, runs in moves.items()
    }
    medians = exponents(np.array([run["median"] for run in moves["trained"]]), sizes, rows)
    ends = {name: interval(values) for name, values in slopes.items()}
    low, high = ends["trained"]
    told = "; ".join(f"{n} {v.mean():.3f} ({ends[n][0]:.3f} to {ends[n][1]:.3f})" for n, v in slopes.items())
    means = "; ".join(f"{name} {', '.join(f'{v:.3g}' for v in np.mean([run['mean'] for run in runs], 0))}"
                      for name, runs in moves.items())  # fmt: skip
    return judged(
        "The decision boundary of a trained network moves by 1/sqrt(B), but for a tenth in the exponent, on the way "
        "between training points of different classes (essay, fidelity of adaptation; ours as a law).",
        f"exponent of the mean distance by which the place moves where the class is lost, 95% intervals over "
        f"{len(medians)} networks, minibatches in all layers, then in one alone of the trained: {told}; of the median "
        f"distance, trained, {medians.mean():.3f}; mean distances, smallest to largest batch: {means}",
        holds=[Check("exponent plus 1/2, lower end, trained", low + 0.5, ">", -0.1,
                     TENTH),
               Check("exponent plus 1/2, upper end, trained", high + 0.5, "<", 0.1,
                     TENTH)],
        fails=[Check("exponent plus 1/2, end nearest to 0, trained", max(0.0, low + 0.5, -(high + 0.5)), ">", 0.1,
                     "surely another exponent")],
    )  # fmt: skip


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


def draw(numbers: dict[str, Any]) -> Any:
    """Walls crossed against what large batches are worth, by layer; how far the boundary moves against B."""
    figure, (left, right) = subplots(2)
    rows = numbers["rows"]
    places = [worth(size, rows) for size in numbers["near_all"]]
    colors = ("#440154", "#31688e", "#35b779", "#e6a000")
    for when, style in (("untrained", "--"), ("trained", "-")):
        mean = crossed(np.array(numbers["tiles"][when])).mean(0)
        for layer in range(mean.shape[1]):
            left.plot(places, mean[:, layer], style, color=colors[layer], label=f"layers 1 to {layer + 1}, {when}")
    left.set(xscale="log", yscale="log", xlabel="what the batch is worth", ylabel="walls crossed by a point")
    left.legend(frameon=False, fontsize=7)
    for name, runs in numbers["moves"].items():
        mean = np.mean([run["mean"] for run in runs], 0)
        sizes = _some(numbers["sizes"]) if name in ONE_LAYER else numbers["sizes"]
        style = {"untrained": "k--", "trained": "k-"}.get(name, "o:")
        right.plot(sizes, mean, style, ms=3, label=name if name not in ONE_LAYER else f"{name} alone, trained")
    right.set(yscale="log", xlabel="batch size of the statistics", ylabel="mean distance by which the boundary moves")
    log_ticks(right, numbers["sizes"])
    right.legend(frameon=False, fontsize=7)
    return figure


EXPERIMENT = Experiment(
    "Tiles and the decision boundary under minibatch statistics",
    run,
    draw,
    place="the part on minibatches and batch size; the closing part, open questions: fidelity of adaptation",
)
