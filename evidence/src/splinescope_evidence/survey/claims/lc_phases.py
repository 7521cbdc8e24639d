"""Local complexity around the data falls, rises, and falls again long after interpolation."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure

from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.grokking import EPSILON, RADIUS, Run, Setting, attacked, draw_curve, quick, train_all
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.shared.words import by_seed


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
        "end_step": run.steps[-1],
    }


DIP = 1 / 3  # of the run: where the lowest accuracy was seen in trial runs (steps 10,000 to 20,000 of 30,000)


def checkpoints(run: Run) -> list[int]:
    """Records at which the network is attacked: at interpolation, about the middle of what follows, at the end."""
    first, last = max(run.interpolation, 1), len(run.steps) - 1
    dip = int(np.abs(np.asarray(run.steps) - DIP * run.steps[-1]).argmin())
    between = np.linspace(first, last, 5).round().astype(int).tolist()
    return sorted({first, *between, dip, last})


def recovery(run: Run, rows: list[dict[str, Any]]) -> dict[str, float]:
    """Accuracy under the union of attacks at interpolation, at a third of the run, and at its end."""
    dip = min(rows, key=lambda row: abs(row["step"] - DIP * run.steps[-1]))
    return {
        "interpolation": rows[0]["accuracy"],
        "dip": dip["accuracy"],
        "end": rows[-1]["accuracy"],
        "gradient_gain": rows[-1]["gradient"] - dip["gradient"],
    }


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    full = size == "full"
    make, seeds, others = (Setting, 5, 3) if full else (quick, 2, 1)
    settings = [make(seed=seed + k) for k in range(seeds)]
    settings += [make(seed=seed + k, loss="cross_entropy") for k in range(others)]
    runs = train_all(settings, progress, share=0.9)
    squared, entropy = runs[:seeds], runs[seeds:]
    found, other = [phases(r) for r in squared], [phases(r) for r in entropy]
    if progress:
        progress(0.9, "attacks")
    attacks = [attacked(s, r, checkpoints(r), strong=full) for s, r in zip(settings, squared, strict=False)]
    back = [recovery(r, rows) for r, rows in zip(squared, attacks, strict=True)]
    numbers = {
        "curves": [r.curves() for r in runs],
        "losses": [s.loss for s in settings],
        "phases": found,
        "cross_entropy": other,
        "attacks": attacks,
        "recovery": back,
        "epsilon": EPSILON,
        "radius": RADIUS,
    }
    return Outcome(numbers, (*_curve_claims(found), _entropy_claim(other), *_robust_claims(back, attacks)))


def every_seed(what: str, ratios: list[float], sense: Literal["<", ">"], line: float, reason: str) -> dict[str, Any]:
    """Holds if it does for every seed, fails if for none."""
    worst, best = (max(ratios), min(ratios)) if sense == "<" else (min(ratios), max(ratios))
    other: Literal["<", ">"] = ">" if sense == "<" else "<"
    return {
        "holds": [Check(f"{what}, worst seed", worst, sense, line, reason)],
        "fails": [Check(f"{what}, best seed", best, other, line, "no seed shows it")],
    }


def _curve_claims(found: list[dict[str, float]]) -> list[Claim]:
    low, high, end = ([f[a] / f[b] for f in found] for a, b in (("low", "start"), ("high", "low"), ("end", "high")))
    return [
        judged(
            "First descent: local complexity at training points falls early in training.",
            f"minimum over start {by_seed(low)}",
            **every_seed(
                "minimum over start", low, "<", 0.85, "a fall of 15%; the start itself varies by 5% over seeds"
            ),
        ),
        judged(
            "Ascent: it rises again while the training set is fitted.",
            f"later maximum over minimum {by_seed(high)}",
            **every_seed("later maximum over minimum", high, ">", 1.2, "a rise that undoes a fall of 15%"),
        ),
        judged(
            "Second descent: long after interpolation it falls again (squared loss).",
            f"end over maximum {by_seed(end)}",
            **every_seed("end over maximum", end, "<", 0.7, "twice the first descent: not a ripple of the plateau"),
        ),
    ]


def _entropy_claim(other: list[dict[str, float]]) -> Claim:
    ratios = [f["end"] / f["high"] for f in other]
    after = min(f["end_step"] / f["high_step"] for f in other)
    at = ", ".join(f"{f['high_step']:.0f}" for f in other)
    return judged(
        "The second descent also comes with cross-entropy in the same number of steps.",
        f"end over maximum {by_seed(ratios)}, the maximum at steps {at} of {other[0]['end_step']:.0f}",
        needs=[
            Check(
                "last step over that of the maximum, least over seeds",
                after,
                ">",
                1.5,
                "a maximum at the end makes end over maximum 1 by construction",
            )
        ],
        holds=[Check("end over maximum, worst seed", max(ratios), "<", 0.7, "the threshold of the squared loss")],
        fails=[Check("end over maximum, best seed", min(ratios), ">", 0.85, "less than the first descent in no seed")],
    )


def _robust_claims(back: list[dict[str, float]], attacks: list[list[dict[str, Any]]]) -> tuple[Claim, ...]:
    """Over seeds: the end against interpolation, which is the comparison of Figure 9."""
    above = [b["end"] - b["interpolation"] for b in back]
    levels = (
        f"accuracy under attack at interpolation {by_seed([b['interpolation'] for b in back])}, at a third of the run "
        f"{by_seed([b['dip'] for b in back])}, at the end {by_seed([b['end'] for b in back])}"
    )
    up = interval(above)
    zero = "0 is no gain"
    return (
        judged(
            "Delayed robustness: long after interpolation, accuracy under attack is above that at interpolation.",
            f"{levels}; end minus interpolation {by_seed(above)}, 95% interval {up[0]:+.2f} to {up[1]:+.2f}",
            holds=[Check("lower end of the 95% interval of end minus interpolation", up[0], ">", 0.0, zero)],
            fails=[Check("upper end of the 95% interval of end minus interpolation", up[1], "<", 0.0, zero)],
        ),
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Figure:
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    first, last = (numbers["curves"][numbers["losses"].index(loss)] for loss in ("mse", "cross_entropy"))
    names = {"lc_train": "training points", "lc_test": "test points", "lc_random": "random points"}
    draw_curve(axes[0], first, names, f"folds in the frame, r = {numbers['radius']}")
    axes[0].set_title("squared loss")
    draw_curve(axes[1], last, names, f"folds in the frame, r = {numbers['radius']}")
    axes[1].set_title("cross-entropy")
    draw_curve(axes[2], first, {"train_accuracy": "train", "test_accuracy": "test"}, "accuracy")
    for key, style in (("accuracy", "o-"), ("gradient", "o:")):
        for i, rows in enumerate(numbers["attacks"]):
            name = "all attacks" if key == "accuracy" else "gradient alone"
            label = f"{name}, {numbers['epsilon']}" if i == 0 else None
            axes[2].plot(
                [r["step"] for r in rows], [r[key] for r in rows], style, color="#009e73", ms=3, lw=1, label=label
            )
    axes[2].legend(frameon=False, fontsize="small")
    axes[2].set_title("squared loss")
    for ax in axes:
        ax.set_ylim(bottom=0)
    return figure


EXPERIMENT = Experiment(
    "Local complexity while training: descent, ascent, late descent", run, draw, place="Figure 9", revised=(4, 5)
)
