"""An open question of the essay: how tiles and the decision boundary move with the batch size of the statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ._data import digits
from ._experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from ._fidelity import boundary_moves, crossed, tile_changes
from ._figures import log_ticks, subplots
from ._intervals import interval
from ._normalization import seeded
from ._root_law import TENTH, as_root, exponents, worth
from .essay_fidelity import LARGE, LAYERS, SIZES, WIDTH, _network, _train

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
    "essay-fidelity-laws",
    "essay",
    "Tiles and the decision boundary under minibatch statistics",
    run,
    draw,
    place="the part on minibatches and batch size; the closing part, open questions: fidelity of adaptation",
)
