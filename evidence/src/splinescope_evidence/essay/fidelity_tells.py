"""An open question of the essay: does the roughness of a tiling under minibatches tell how a network generalizes?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from splinescope.normalization import with_statistics
from splinescope_evidence.essay.fidelity import LARGE, WIDTH, _network, _train
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import log_ticks, subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.shared.normalization import seeded
from splinescope_research import statistics_fidelity
from splinescope_research.folds.depth_profile import partial_rank_correlation

SIZES = (8, 16, 32, 64, 128)
"""Of the statistics: those that networks are trained with, and those that their roughness is measured at."""

AT = 16
"""Where the roughness of all networks is compared."""

MEASURES = ("signs", "tiles", "classes")
"""Shares that change: of signs (all layers), of points whose tile of the first layer changes (the tile of all layers
changes at nearly every point), of points whose class changes, which the decision boundary passes."""

WEAK = 0.3
"""Of a correlation: less than a tenth of the variance of ranks."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds, starts, rows, steps, draws, width = (2, 2, 40, 5, 2, 8) if size == "quick" else (12, 2, 300, 600, 10, WIDTH)
    sizes = (8, 32) if size == "quick" else SIZES
    large = 32 if size == "quick" else LARGE
    x, y = digits()
    found: list[list[dict[str, Any]]] = []
    for s in range(seeds):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed + s))
        train, test = order[:rows], order[rows:]
        found.append([])
        for i, of_statistics in enumerate(sizes):
            for start in range(starts):
                if progress is not None:
                    progress((s + (i + start / starts) / len(sizes)) / seeds, f"seed {s}, B = {of_statistics}")
                number = 100 * (seed + s) + start  # networks of a seed differ in start and batches, not in data
                sets = x[train], y[train], x[test], y[test]
                found[-1].append(trained(sets, width, large, of_statistics, steps, number, sizes, draws))
    at = sizes.index(AT) if AT in sizes else 0
    worth = [b * (rows - 1) / (rows - b) for b in sizes]
    return Outcome(
        {"sizes": sizes, "worth": worth, "at": at, "seeds": found},
        (_helps(found), _tells(found, at)),
    )


def trained(
    sets: tuple[Tensor, Tensor, Tensor, Tensor],
    width: int,
    of_loss: int,
    of_statistics: int,
    steps: int,
    seed: int,
    sizes: tuple[int, ...],
    draws: int,
) -> dict[str, Any]:
    """One network: its test accuracy with the data's statistics, and `[sizes]` of each measure of roughness."""
    x, y, other_x, other_y = sets
    net = seeded(lambda: _network(width), seed).double()
    _train(net, x, y, of_loss, of_statistics, steps, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        scores = with_statistics(net, x)(other_x)
    told = statistics_fidelity(net, x, sizes, draws=draws, progress=False)
    return {
        "B": of_statistics,
        "accuracy": float((scores.argmax(1) == other_y).double().mean()),
        "signs": told.flips.mean(1).tolist(),
        "tiles": told.tiles[:, 0].tolist(),
        "classes": told.classes.tolist(),
    }


def _correlations(found: list[list[dict[str, Any]]], measure: str, at: int) -> list[float]:
    """`[seeds]` of accuracy with roughness at one batch size, over the networks of a seed, given what trained them."""
    return [
        partial_rank_correlation([n["accuracy"] for n in nets], [n[measure][at] for n in nets], [n["B"] for n in nets])
        for nets in found
    ]


def _helps(found: list[list[dict[str, Any]]]) -> Claim:
    """Over the batch sizes of the statistics, all else equal: a rough picture of the data in training."""
    constant = np.zeros(len(found[0]))
    values = [partial_rank_correlation([n["accuracy"] for n in nets], [-n["B"] for n in nets], constant)
              for nets in found]  # fmt: skip
    low, high = interval(values)
    by_size = "; ".join(
        f"B = {b} {np.mean(rights):.4f}" for b in dict.fromkeys(n["B"] for n in found[0])
        for rights in [[n["accuracy"] for nets in found for n in nets if n["B"] == b]]
    )  # fmt: skip
    return judged(
        "Networks that are trained with rougher statistics generalize better (essay, batch size and fidelity).",
        f"Spearman's correlation of test accuracy with roughness (the batch size of the statistics, downwards), "
        f"{len(found[0])} networks of each of {len(found)} seeds: {np.mean(values):+.2f}, 95% interval {low:+.2f} to "
        f"{high:+.2f}; mean accuracy {by_size}",
        holds=[Check("lower end of the correlation", low, ">", 0.0, "0 predicts nothing")],
        fails=[Check("upper end of the correlation", high, "<", 0.0, "rougher is significantly worse")],
    )


def _tells(found: list[list[dict[str, Any]]], at: int) -> Claim:
    """Between networks that were trained alike; either direction would tell, so three measures share 5%."""
    level = 1 - 0.05 / len(MEASURES)
    values = {measure: _correlations(found, measure, at) for measure in MEASURES}
    ends = {measure: interval(v, level) for measure, v in values.items()}
    sure, possible = zip(*((max(low, -high), max(abs(low), abs(high))) for low, high in ends.values()), strict=True)
    words = "; ".join(f"{m} {np.mean(v):+.2f} ({ends[m][0]:+.2f} to {ends[m][1]:+.2f})" for m, v in values.items())
    return judged(
        f"How much of a network's tiling the statistics of {AT} points change tells how well it generalizes, beyond "
        "the batch size that it was trained with (essay, batch size and fidelity: an open question).",
        f"partial rank correlation of test accuracy with shares that change, {len(found[0])} networks of each of "
        f"{len(found)} seeds, intervals that share 5%: {words}",
        holds=[Check("size that is sure, largest of the three", max(sure), ">", 0.0, "0 predicts nothing")],
        fails=[
            Check("size that is possible, largest of the three", max(possible), "<", WEAK, "significantly weaker"),
            Check("size that is sure, largest of the three", max(sure), "<", 0.0, "none is significant"),
        ],
    )


def draw(numbers: dict[str, Any]) -> Any:
    """Accuracy by what a network was trained with; accuracy against roughness; roughness against B."""
    figure, (trained, scatter, law) = subplots(3)
    nets = [n for of_seed in numbers["seeds"] for n in of_seed]
    sizes = numbers["sizes"]
    for b in sizes:
        own = [n["accuracy"] for n in nets if n["B"] == b]
        trained.plot([b] * len(own), own, "o", ms=3, color="#0072b2", alpha=0.5)
        trained.plot([b], [np.mean(own)], "_", ms=18, color="#d55e00")
    trained.set(xlabel="batch size of the statistics in training", ylabel="test accuracy")
    log_ticks(trained, sizes)
    at = numbers["at"]
    for of_seed in numbers["seeds"]:
        center = np.mean([n["accuracy"] for n in of_seed])
        scatter.plot([n["signs"][at] for n in of_seed], [n["accuracy"] - center for n in of_seed], "o", ms=4, alpha=0.7)
    scatter.axhline(0, color="0.7", lw=1)
    scatter.set(xlabel=f"share of signs that change at B = {sizes[at]}", ylabel="test accuracy minus its seed's mean")
    for measure, color in zip(MEASURES, ("#0072b2", "#009e73", "#d55e00"), strict=True):
        mean = np.mean([n[measure] for n in nets], 0)
        law.plot(sizes, np.maximum(mean, 1e-6), "o-", ms=4, color=color, label=measure)
    law.set(yscale="log", xlabel="batch size of the statistics", ylabel="share that changes")
    log_ticks(law, sizes)
    law.legend(frameon=False, fontsize=8)
    return figure


EXPERIMENT = Experiment(
    "Does a rough tiling predict generalization?",
    run,
    draw,
    place="closing part, open questions: fidelity of adaptation",
)
