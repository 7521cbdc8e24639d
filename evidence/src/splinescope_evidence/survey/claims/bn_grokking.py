"""Batch norm draws folds to the data; does it compete with their late migration away?"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure

from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.grokking import RADIUS, Setting, draw_curve, quick, train_all
from splinescope_evidence.shared.intervals import interval, ratio_interval
from splinescope_evidence.shared.words import by_seed

VISIBLE = 1.25  # a smaller change of a time that is read on an axis of decades is not seen


def drop(steps: list[int], folds: list[float]) -> dict[str, float]:
    """The late drop: highest value after the first minimum, value at the end, and the step at which half is gone."""
    lc = np.asarray(folds)
    low = int(lc[: max(1, int(0.6 * len(lc)))].argmin())
    high = low + int(lc[low:].argmax())
    half = (lc[high] + lc[-1]) / 2
    after = high + int((lc[high:] <= half).argmax())
    if after == high or lc[after - 1] == lc[after]:
        step = float(steps[after])
    else:  # between two records, on the logarithmic axis of steps
        share = (lc[after - 1] - half) / (lc[after - 1] - lc[after])
        a, b = np.log(max(steps[after - 1], 1)), np.log(max(steps[after], 1))
        step = float(np.exp(a + share * (b - a)))
    return {"high": float(lc[high]), "end": float(lc[-1]), "half_step": step, "ratio": float(lc[-1] / lc[high])}


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    make, seeds = (quick, 2) if size == "quick" else (Setting, 5)
    pairs = [(make(seed=seed + k), make(seed=seed + k, batch_norm=True)) for k in range(seeds)]
    runs = train_all([setting for pair in pairs for setting in pair], progress)
    without, with_norm = runs[0::2], runs[1::2]
    by: dict[str, dict[str, Any]] = {}
    for statistics, name in (("data", "lc_train"), ("running", "lc_running")):
        curves = [(a.lc_train, getattr(b, name)) for a, b in zip(without, with_norm, strict=True)]
        drops = [(drop(r.steps, a), drop(r.steps, b)) for r, (a, b) in zip(without, curves, strict=True)]
        by[statistics] = {
            "level": [float(np.mean(b[len(b) // 2 :]) / np.mean(a[len(a) // 2 :])) for a, b in curves],
            "without": [a for a, _ in drops],
            "with": [b for _, b in drops],
            "kept": [(1 - b["ratio"]) / max(1 - a["ratio"], 1e-9) for a, b in drops],
            "delay": [b["half_step"] / a["half_step"] for a, b in drops],
        }
    numbers = {
        "without": [r.curves() for r in without],
        "with": [r.curves() for r in with_norm],
        "statistics": by,
        "radius": RADIUS,
    }
    return Outcome(numbers, _claims(by["data"], by["running"]))


def _claims(data: dict[str, Any], running: dict[str, Any]) -> tuple[Claim, ...]:
    there = Check(
        "end over maximum without batch norm, largest over seeds", max(d["ratio"] for d in data["without"]), "<", 0.7,
        "a competition needs something to compete with: the drop itself, of at least 30%",
    )  # fmt: skip
    level, kept = interval(data["level"]), interval(data["kept"])
    delay = ratio_interval(data["delay"])
    ends = (
        f"{by_seed([d['ratio'] for d in data['without']])} without, {by_seed([d['ratio'] for d in data['with']])} with"
    )
    halves = [sorted(round(d["half_step"]) for d in data[kind]) for kind in ("without", "with")]
    return (
        judged(
            "Batch norm raises local complexity around the data (section on batch norm and the dynamic geometry).",
            f"level with batch norm over level without, second half of the records, statistics of the data: "
            f"{by_seed(data['level'])}, 95% interval {level[0]:.2f} to {level[1]:.2f}; with running averages "
            f"{by_seed(running['level'])}",
            holds=[Check("lower end of the 95% interval of the ratio", level[0], ">", 1.0, "1 is no effect")],
            fails=[Check("upper end of the 95% interval of the ratio", level[1], "<", 1.0, "1 is no effect")],
        ),
        judged(
            "Batch norm competes with grokking: the late drop of local complexity is delayed by it.",
            f"step at which half of the drop is gone: {halves[0]} without, {halves[1]} with; ratio "
            f"{by_seed(data['delay'])}, 95% interval {delay[0]:.2f} to {delay[1]:.2f}; with running averages "
            f"{by_seed(running['delay'])}",
            needs=[there],
            holds=[Check("lower end of the 95% interval of the delay", delay[0], ">", 1.0, "1 is no delay")],
            fails=[Check("upper end of the 95% interval of the delay", delay[1], "<", VISIBLE,
                         "a quarter more steps is not seen on an axis of decades"),
                   Check("lower end of the 95% interval of the delay", delay[0], "<", 1.0,
                         "the delay is not significant")],
        ),
        judged(
            "Batch norm competes with grokking: the late drop of local complexity is weaker with it.",
            f"end over maximum {ends}; share of the drop kept {by_seed(data['kept'])}, 95% interval {kept[0]:.2f} to "
            f"{kept[1]:.2f}; with running averages {by_seed(running['kept'])}",
            needs=[there],
            holds=[Check("upper end of the 95% interval of the share kept", kept[1], "<", 1.0, "1 is the whole drop")],
            fails=[Check("lower end of the 95% interval of the share kept", kept[0], ">", 0.9,
                         "a tenth of the drop or less is lost: no competition worth the name"),
                   Check("upper end of the 95% interval of the share kept", kept[1], ">", 1.0,
                         "the loss is not significant")],
        ),
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Figure:
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
    names = {"lc_train": "training points", "lc_test": "test points", "lc_random": "random points"}
    extra = {"lc_running": "training points, running averages"}
    for ax, key, title in zip(axes, ("without", "with"), ("without batch norm", "with batch norm"), strict=True):
        shown = names | (extra if key == "with" else {})
        draw_curve(ax, numbers[key][0], shown, f"folds in the frame, r = {numbers['radius']}")
        ax.set_title(title)
    axes[0].set_ylim(bottom=0)
    return figure


EXPERIMENT = Experiment(
    "Batch norm and the late descent of local complexity",
    run,
    draw,
    place="Figure 9 and equation (8)",
    revised=(1, 2, 3),
)
