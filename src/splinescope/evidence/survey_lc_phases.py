"""Local complexity around the data falls, rises, and falls again long after interpolation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._experiment import Claim, Experiment, Outcome, Progress, Size, Verdict
from ._grokking import EPSILON, RADIUS, Run, Setting, draw_curve, quick, spread, train_all

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def phases(run: Run) -> dict[str, float]:
    """Start, first minimum (up to interpolation), later maximum and end of the curve at training points."""
    lc = np.asarray(run.lc_train)
    until = max(run.interpolation, 1)
    low = int(lc[: until + 1].argmin())
    high = low + int(lc[low:].argmax())
    return {
        "start": float(lc[0]),
        "low": float(lc[low]),
        "low_step": run.steps[low],
        "high": float(lc[high]),
        "high_step": run.steps[high],
        "end": float(lc[-1]),
    }


def recovery(run: Run) -> dict[str, float]:
    """Robust accuracy: early peak (up to ten times the step of interpolation), lowest after it, at the end."""
    robust = np.asarray(run.robust_accuracy)
    steps = np.asarray(run.steps)
    early = steps <= 10 * max(1, run.steps[run.interpolation])
    peak = int(np.where(early, robust, -1.0).argmax())
    dip = peak + int(robust[peak:].argmin())
    return {"peak": float(robust[peak]), "dip": float(robust[dip]), "end": float(robust[-1])}


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    if size == "quick":
        settings = [quick(seed), quick(seed, loss="cross_entropy")]
    else:
        settings = [Setting(seed=seed + k) for k in range(3)] + [Setting(seed=seed, loss="cross_entropy")]
    runs = train_all(settings, progress)
    squared = [r for r, s in zip(runs, settings, strict=True) if s.loss == "mse"]
    entropy = runs[-1]
    found = [phases(r) for r in squared]
    other = phases(entropy)
    back = [recovery(r) for r in squared]
    numbers = {
        "curves": [r.curves() for r in runs],
        "losses": [s.loss for s in settings],
        "phases": found,
        "cross_entropy": other,
        "recovery": back,
        "epsilon": EPSILON,
        "radius": RADIUS,
    }
    return Outcome(numbers, (*_curve_claims(found), _entropy_claim(other), _robust_claim(back, squared)))


def _curve_claims(found: list[dict[str, float]]) -> list[Claim]:
    def claim(text: str, ratios: list[float], limit: float, what: str, below: bool) -> Claim:
        good = [r <= limit if below else r >= limit for r in ratios]
        verdict = Verdict.HOLDS if all(good) else Verdict.INCONCLUSIVE if any(good) else Verdict.FAILS
        sign = "<=" if below else ">="
        return Claim(text, verdict, f"{what} {spread(ratios)}", f"{what} {sign} {limit} for every seed")

    return [
        claim("First descent: local complexity at training points falls early in training.",
              [f["low"] / f["start"] for f in found], 0.85, "minimum over start", True),
        claim("Ascent: it rises again while the training set is fitted.",
              [f["high"] / f["low"] for f in found], 1.2, "later maximum over minimum", False),
        claim("Second descent: long after interpolation it falls again (squared loss).",
              [f["end"] / f["high"] for f in found], 0.7, "end over maximum", True),
    ]  # fmt: skip


def _entropy_claim(other: dict[str, float]) -> Claim:
    ratio = other["end"] / other["high"]
    verdict = Verdict.HOLDS if ratio <= 0.7 else Verdict.FAILS if ratio >= 0.85 else Verdict.INCONCLUSIVE
    return Claim(
        "The second descent also comes with cross-entropy in the same number of steps.",
        verdict,
        f"end over maximum {ratio:.2f} (1 seed)",
        "holds if <= 0.7, does not if >= 0.85",
    )


def _robust_claim(back: list[dict[str, float]], runs: list[Run]) -> Claim:
    gains = [b["end"] - b["dip"] for b in back]
    above = [b["end"] >= b["peak"] for b in back]
    if any(any(r.masked) for r in runs):
        verdict = Verdict.INCONCLUSIVE
    elif all(above) and min(gains) >= 0.05:
        verdict = Verdict.HOLDS
    elif min(gains) >= 0.05:
        verdict = Verdict.CORRECTED
    else:
        verdict = Verdict.FAILS if max(gains) < 0.05 else Verdict.INCONCLUSIVE
    return Claim(
        "Delayed robustness: accuracy under attack recovers long after interpolation (not above its early peak).",
        verdict,
        f"early peak {spread([b['peak'] for b in back])}, lowest after it {spread([b['dip'] for b in back])}, "
        f"end {spread([b['end'] for b in back])}",
        "recovers by >= 0.05 for every seed, and to its early peak to hold as stated; no sign of masked gradients",
    )


def draw(numbers: dict[str, Any]) -> Figure:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    first, last = numbers["curves"][0], numbers["curves"][-1]
    names = {"lc_train": "training points", "lc_test": "test points", "lc_random": "random points"}
    draw_curve(axes[0], first, names, f"folds in the frame, r = {numbers['radius']}")
    axes[0].set_title("squared loss")
    draw_curve(axes[1], last, names, f"folds in the frame, r = {numbers['radius']}")
    axes[1].set_title("cross-entropy")
    attacked = f"attacked, {numbers['epsilon']}"
    accuracies = {"train_accuracy": "train", "test_accuracy": "test", "robust_accuracy": attacked}
    draw_curve(axes[2], first, accuracies, "accuracy")
    axes[2].set_title("squared loss")
    for ax in axes:
        ax.set_ylim(bottom=0)
    return figure


EXPERIMENT = Experiment(
    "survey-lc-phases", "survey", "Local complexity while training: descent, ascent, late descent", run, draw
)
