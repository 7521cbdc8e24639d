"""Does batch norm speed up the learning of features?"""

from __future__ import annotations

from typing import Any

import numpy as np

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.meanfield.fig1 import TARGETS
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import ratio_interval
from splinescope_evidence.shared.meanfield import random_neurons, relu_data
from splinescope_research.meanfield.meanfield_effects import learning_rate_study

FITTED = ("relu(x1)", "relu(x2)", "relu(x1) + relu(x2)", "|x1|")
"""Positively homogeneous, so that ReLU neurons without biases can fit them."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    m, n, iterations, seeds, count = (20, 100, 20, 2, 5) if size == "quick" else (60, 400, 300, 6, 13)
    rates = np.logspace(-2, 2, count)
    best: dict[str, list[float]] = {}
    for number, name in enumerate(FITTED):
        best[name] = []
        for s in range(seeds):
            if progress is not None:
                progress((number + s / seeds) / len(FITTED), name)
            study = learning_rate_study(
                random_neurons(m, seed + s), relu_data(n, seed + s, TARGETS[name]), rates=rates, iterations=iterations
            )
            best[name].append(float(np.nanmin(study.batch_norm) / np.nanmin(study.plain)))
    ends = {name: ratio_interval(values) for name, values in best.items()}
    return Outcome(
        {"best": best},
        (
            judged(
                "Batch norm speeds up the learning of the features: in as many steps it reaches a lower loss, each "
                "network at its best rate.",
                f"loss with batch norm over that of its plain twin after {iterations} steps, {seeds} networks, 95% "
                "intervals: "
                + "; ".join(f"{name} {ends[name][0]:.3g} to {ends[name][1]:.3g}" for name in FITTED),
                holds=[Check(f"at most, in the 95% interval: {name}", ends[name][1], "<", 1.0, "1 is no gain")
                       for name in FITTED],
                fails=[Check(f"at least, in the 95% interval: {name}", ends[name][0], ">", 1.0, "1 is no gain")
                       for name in FITTED],
            ),
        ),
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Any:
    figure, (ax,) = subplots(1)
    for place, name in enumerate(FITTED):
        ax.semilogy([place] * len(numbers["best"][name]), numbers["best"][name], "o", color="#0072b2", alpha=0.6)
    ax.axhline(1, color="0.5", linestyle="--", linewidth=1)
    ax.set_xticks(range(len(FITTED)), [name.replace(" + ", " +\n") for name in FITTED])
    ax.set(ylabel="loss, batch norm over plain", xlabel="target", xlim=(-0.5, len(FITTED) - 0.5))
    return figure


EXPERIMENT = Experiment("Batch norm and the speed of learning features", run, draw, place="section 4.1")
