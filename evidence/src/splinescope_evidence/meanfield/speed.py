"""Does batch norm speed up the learning of features, and do neurons of diverse lengths forgive more rates?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from splinescope.meanfield import TwoLayerBN
from splinescope.meanfield.effects import learning_rate_study
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.meanfield.fig1 import TARGETS
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval, ratio_interval
from splinescope_evidence.shared.meanfield import random_neurons, relu_data

FITTED = ("relu(x1)", "relu(x2)", "relu(x1) + relu(x2)", "|x1|")
"""Positively homogeneous, so that ReLU neurons without biases can fit them."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    m, n, iterations, seeds, count = (20, 100, 20, 2, 5) if size == "quick" else (60, 400, 300, 6, 13)
    rates = np.logspace(-2, 2, count)
    best: dict[str, list[float]] = {}
    curves: dict[str, Any] = {}
    for number, name in enumerate(FITTED):
        best[name] = []
        for s in range(seeds):
            if progress is not None:
                progress(0.6 * (number + s / seeds) / len(FITTED), name)
            study = learning_rate_study(
                random_neurons(m, seed + s), relu_data(n, seed + s, TARGETS[name]), rates=rates, iterations=iterations
            )
            best[name].append(float(np.nanmin(study.batch_norm) / np.nanmin(study.plain)))
    ends = {name: ratio_interval(values) for name, values in best.items()}
    wide = np.logspace(-6, 3, 2 * count)
    more = []
    for s in range(seeds):
        if progress is not None:
            progress(0.6 + 0.4 * s / seeds, f"lengths, seed {s}")
        start, data = random_neurons(m, seed + s), relu_data(n, seed + s)
        generator = torch.Generator().manual_seed(seed + s)
        lengths = 10 ** (2 * torch.rand(m, 1, generator=generator, dtype=torch.float64) - 1)
        pair = [
            learning_rate_study(TwoLayerBN(5 * start.a, start.b * scale, "relu"), data, rates=wide,
                                iterations=iterations, train_amplitudes=False)
            for scale in (torch.ones_like(lengths), lengths)
        ]  # fmt: skip
        more.append([study.workable_decades()[0] for study in pair])
        curves[str(s)] = [np.nan_to_num(study.batch_norm, posinf=1e3).tolist() for study in pair]
    gain = np.array(more)[:, 1] - np.array(more)[:, 0]
    low, high = interval(gain)
    return Outcome(
        {"best": best, "rates": wide.tolist(), "curves": curves},
        (
            judged(
                "Batch norm speeds up the learning of the features: in as many steps it reaches a lower loss, each "
                "network at its best rate.",
                f"loss with batch norm over that of its plain twin after {iterations} steps, {seeds} networks, 95% "
                "intervals: "
                + "; ".join(f"{name} {ends[name][0]:.3g} to {ends[name][1]:.3g}" for name in FITTED),
                holds=[Check(f"upper end of the 95% interval: {name}", ends[name][1], "<", 1.0, "1 is no gain")
                       for name in FITTED],
                fails=[Check(f"lower end of the 95% interval: {name}", ends[name][0], ">", 1.0, "1 is no gain")
                       for name in FITTED],
            ),
            judged(
                "Neurons of diverse lengths, an ensemble of rates, make training less sensitive to the rate than "
                "equal lengths.",
                f"decades of rates over which inner weights train: {np.mean(np.array(more)[:, 0]):.2f} with lengths 1, "
                f"{np.mean(np.array(more)[:, 1]):.2f} with lengths over two decades; difference "
                f"{gain.mean():+.2f}, 95% "
                f"interval {low:+.2f} to {high:+.2f}, {seeds} networks",
                holds=[Check("lower end of the 95% interval: decades gained", low, ">", 0.0, "0 is no gain")],
                fails=[Check("upper end of the 95% interval: decades gained", high, "<", 0.0, "0 is no gain")],
                needs=[Check("most decades of a network", float(np.max(more)), "<", 9.0,
                             "some of the rates must fail")],
            ),
        ),
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    for place, name in enumerate(FITTED):
        left.semilogy([place] * len(numbers["best"][name]), numbers["best"][name], "o", color="#0072b2", alpha=0.6)
    left.axhline(1, color="0.5", linestyle="--", linewidth=1)
    left.set_xticks(range(len(FITTED)), FITTED, fontsize=7)
    left.set(ylabel="loss, batch norm over plain", xlabel="target")
    for place, words, color in ((0, "equal lengths", "#d55e00"), (1, "diverse lengths", "#009e73")):
        table = np.minimum(np.array([pair[place] for pair in numbers["curves"].values()]), 1e3)
        right.loglog(numbers["rates"], np.exp(np.log(table).mean(0)), "o-", color=color, label=words)
    right.set(xlabel="learning rate", ylabel="loss at the end (inner weights trained)")
    right.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    "Batch norm and the speed of learning; diverse lengths",
    run,
    draw,
    place="section 4.1 (claim 1) and section 4.2 (claim 2)",
    revised=(2,),
)
