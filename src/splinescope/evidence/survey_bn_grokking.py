"""Batch norm draws folds to the data; does it compete with their late migration away?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._experiment import Claim, Experiment, Outcome, Progress, Size, Verdict
from ._grokking import RADIUS, Setting, draw_curve, quick, spread, train_all
from .survey_lc_phases import phases

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    if size == "quick":
        pairs = [(quick(seed), quick(seed, batch_norm=True))]
    else:
        pairs = [(Setting(seed=seed + k), Setting(seed=seed + k, batch_norm=True)) for k in range(3)]
    runs = train_all([setting for pair in pairs for setting in pair], progress)
    without, with_norm = runs[0::2], runs[1::2]
    # levels once the statistics have settled (at step 0 running averages are not those of the data), at equal steps
    levels = [
        float(np.mean(b.lc_train[len(b.steps) // 2 :]) / np.mean(a.lc_train[len(a.steps) // 2 :]))
        for a, b in zip(without, with_norm, strict=True)
    ]
    plain = [f["end"] / f["high"] for f in map(phases, without)]
    normed = [f["end"] / f["high"] for f in map(phases, with_norm)]
    numbers = {
        "without": [r.curves() for r in without],
        "with": [r.curves() for r in with_norm],
        "level_ratio": levels,
        "end_over_maximum_without": plain,
        "end_over_maximum_with": normed,
        "radius": RADIUS,
    }
    claims = (
        Claim(
            "Batch norm raises local complexity around the data.",
            Verdict.HOLDS if min(levels) >= 1.25 else Verdict.FAILS if max(levels) <= 1.0 else Verdict.INCONCLUSIVE,
            f"level with batch norm over level without, second half of the records: {spread(levels)}",
            "ratio >= 1.25 for every seed; does not hold if <= 1 for every seed",
        ),
        _competition(plain, normed),
    )
    return Outcome(numbers, claims)


def _competition(plain: list[float], normed: list[float]) -> Claim:
    """Batch norm competes if it removes at least half of a drop that is there without it."""
    kept = [(1 - b) / max(1 - a, 1e-9) for a, b in zip(plain, normed, strict=True)]
    if max(plain) > 0.7:
        verdict = Verdict.INCONCLUSIVE
    elif max(kept) <= 0.5:
        verdict = Verdict.HOLDS
    else:
        verdict = Verdict.FAILS if min(kept) >= 0.8 else Verdict.INCONCLUSIVE
    return Claim(
        "Batch norm competes with grokking: the late drop of local complexity is delayed or weaker with it.",
        verdict,
        f"end over maximum {spread(plain)} without, {spread(normed)} with; share of the drop kept {spread(kept)}",
        "needs a drop (<= 0.7) without it; holds if at most half of it is left for every seed, does not if >= 0.8",
    )


def draw(numbers: dict[str, Any]) -> Figure:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
    names = {"lc_train": "training points", "lc_test": "test points", "lc_random": "random points"}
    for ax, key, title in zip(axes, ("without", "with"), ("without batch norm", "with batch norm"), strict=True):
        draw_curve(ax, numbers[key][0], names, f"folds in the frame, r = {numbers['radius']}")
        ax.set_title(title)
    axes[0].set_ylim(bottom=0)
    return figure


EXPERIMENT = Experiment(
    "survey-bn-grokking", "survey", "Batch norm and the late descent of local complexity", run, draw
)
