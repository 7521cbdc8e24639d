"""Why is the late drop of local complexity earlier with batch norm? More rates, and a clock for the effective rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from splinescope.network.watching.batch_statistics import statistics_of
from splinescope.train import LogSpaced
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import PAGE, subplots
from splinescope_evidence.shared.grokking import Setting, _folds, network, quick, sets
from splinescope_evidence.shared.intervals import ratio_interval

RATES = (2e-3, 4e-3)
"""Beside the rate of 1e-3 of the experiments that share the trainings of Figure 9."""
LEFT = 0.75
"""Share of the peak: the late drop is dated by the step at which local complexity falls below it."""
EVERY = 20
"""Steps between two measurements of how far the weights move."""

Curve = dict[str, list[float]]


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    seeds = 2 if size == "quick" else 4
    curves: dict[str, list[list[Curve]]] = {"plain": [], "batch norm": []}
    for number, rate in enumerate(RATES):
        for name, rows in curves.items():
            rows.append([])
            for s in range(seeds):
                if progress is not None:
                    progress((number + (0.5 * (name != "plain")) + s / seeds / 2) / len(RATES), f"{name} at {rate:g}")
                # As many units of rate times step at every rate: descent covers the same ground.
                options: dict[str, Any] = {
                    "rate": rate,
                    "steps": round(25 / rate),
                    "batch_norm": name != "plain",
                    "points": 100,
                }
                setting = (
                    quick(seed + s, **{**options, "steps": 100}) if size == "quick" else Setting(seed + s, **options)
                )
                rows[-1].append(_curve(setting))
    drops = {name: [[drop(curve) for curve in row] for row in rows] for name, rows in curves.items()}
    claims = (
        _claim("Batch norm brings the late drop of local complexity earlier, at other learning rates, too.",
               "steps to the drop, batch norm over plain", "step", drops),
        _claim("It does so also at equal effective rate: by the relative length of the path of the hidden weights.",
               "path to the drop, batch norm over plain", "path", drops),
    )  # fmt: skip
    return Outcome({"rates": RATES, "curves": curves, "drops": drops}, claims)


def _curve(setting: Setting) -> Curve:
    """Local complexity at training points over steps and over the path of the hidden weights, each step's length
    being taken relative to the weights themselves: what counts where scale does not.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(setting.seed)
        model = network(setting)
    hidden = [layer.weight for layer in model if isinstance(layer, nn.Linear)][:-1]
    x, y, _, _ = sets(setting)
    targets = F.one_hot(y, 10).float()
    generator = torch.Generator().manual_seed(setting.seed)
    optimizer = torch.optim.Adam(model.parameters(), setting.rate)
    schedule = LogSpaced(16)
    due: int | None = 0
    path = 0.0
    curve: Curve = {"step": [], "path": [], "folds": [], "accuracy": []}
    for step in range(setting.steps + 1):
        if step == due or step == setting.steps:
            with statistics_of(model, x):
                folds = _folds(model, x[: setting.points])
            model.eval()
            with torch.no_grad():
                accuracy = float((model(x).argmax(1) == y).double().mean())
            model.train()
            for key, value in (("step", step), ("path", path), ("folds", folds), ("accuracy", accuracy)):
                curve[key].append(value)
            due = schedule.next_after(step)
        rows = torch.randint(len(x), (setting.batch,), generator=generator)
        optimizer.zero_grad()
        F.mse_loss(model(x[rows]), targets[rows]).backward()
        before = [w.detach().clone() for w in hidden] if step % EVERY == 0 else []
        optimizer.step()
        if before:
            moved = [float((w.detach() - old).norm() / old.norm()) for w, old in zip(hidden, before, strict=True)]
            path += EVERY * float(np.mean(moved))
    return curve


def drop(curve: Curve) -> dict[str, float]:
    """Step and path at which local complexity falls below `LEFT` of its peak after the first minimum; the end and
    `reached` 0 if it never does.
    """
    folds = np.array(curve["folds"])
    low = int(folds[: max(1, int(0.6 * len(folds)))].argmin())
    high = low + int(folds[low:].argmax())
    below = np.flatnonzero(folds[high:] < LEFT * folds[high])
    at = high + int(below[0]) if len(below) else len(folds) - 1
    found = {"reached": float(len(below) > 0), "accuracy": curve["accuracy"][-1]}
    share = (folds[at - 1] - LEFT * folds[high]) / (folds[at - 1] - folds[at]) if len(below) else 1.0
    for key in ("step", "path"):
        a, b = (float(curve[key][i]) for i in (at - 1, at))
        found[key] = a + share * (b - a)
    return found


def _claim(text: str, what: str, key: str, drops: dict[str, list[list[dict[str, float]]]]) -> Claim:
    ratios = [
        [b[key] / a[key] for a, b in zip(plain, normed, strict=True)]
        for plain, normed in zip(drops["plain"], drops["batch norm"], strict=True)
    ]
    ends = [ratio_interval(row, 1 - 0.05 / len(RATES)) for row in ratios]
    every = [run for rows in drops.values() for row in rows for run in row]
    why = "1 is no difference; Bonferroni over the rates"
    cut = sum(not run["reached"] for row in drops["plain"] for run in row)
    return judged(
        text,
        f"{what}: "
        + ", ".join(f"{np.exp(np.log(row).mean()):.2f} ({low:.2f} to {high:.2f}) at rate {rate:g}"
                    for row, (low, high), rate in zip(ratios, ends, RATES, strict=True))
        + f"; {len(ratios[0])} seeds; plain runs that end before the drop, counted as if it came at their end: {cut}",
        holds=[Check(f"upper end of the interval at rate {rate:g}", high, "<", 1.0, why)
               for rate, (_, high) in zip(RATES, ends, strict=True)],
        fails=[Check(f"lower end of the interval at rate {rate:g}", low, ">", 1.0, why)
               for rate, (low, _) in zip(RATES, ends, strict=True)],
        needs=[Check("runs with batch norm that reach the drop", min(run["reached"] for row in drops["batch norm"]
                     for run in row), ">", 0.5, "an end counted as a drop would favor the claim"),
               Check("training accuracy at the end, least", min(run["accuracy"] for run in every), ">", 0.995,
                     "it must have learned its points")],
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(3, width=PAGE / 3, height=2.9)
    colors = {"plain": "#0072b2", "batch norm": "#d55e00"}
    rates = numbers["rates"]
    for name, color in colors.items():
        for s, curve in enumerate(numbers["curves"][name][0]):
            label = name if s == 0 else None
            folds = np.array(curve["folds"])
            axes[0].semilogx(np.maximum(curve["step"], 0.5), folds, color=color, linewidth=1, alpha=0.7, label=label)
    axes[0].set(xlabel=f"step (0 drawn at 0.5), rate {rates[0]:g}", title="folds near a training point")
    for ax, key, words in ((axes[1], "step", "step of the drop"), (axes[2], "path", "path of the weights to it")):
        for place, of_rate in enumerate(zip(*numbers["drops"].values(), strict=True)):
            pairs = np.array([[run[key] for run in row] for row in of_rate])
            sides = (place - 0.2, place + 0.2)
            ax.plot(sides, pairs, "-", color="0.7", linewidth=1)  # networks of one seed
            for side, values, color in zip(sides, pairs, colors.values(), strict=True):
                ax.plot([side] * len(values), values, "o", color=color, alpha=0.7, markersize=5)
        ax.set(xlabel="learning rate", title=words, xlim=(-0.6, len(rates) - 0.4), ylim=(0, None))
        ax.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes[0].legend()
    return figure


EXPERIMENT = Experiment("Batch norm and the late drop: rates and the effective rate", run, draw, place="after Figure 9")
