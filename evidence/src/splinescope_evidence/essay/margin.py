"""Does minibatch jitter enlarge margins? Paired runs with minibatch statistics, with those of all data, and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope.normalization import with_statistics
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import PAGE, subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.shared.normalization import (
    measure_margins,
    moons_network,
    paired,
    seeded,
    train_moons,
    two_moons,
)

NOISE, BATCH = 0.05, 16
"""Moons that do not overlap: where classes do, a margin trades against errors, and its mean may rise for that."""

ARMS = ("no batch norm", "all data", "minibatch")
"""Where the statistics of the norms come from; the loss is that of the same 16 points in all three."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    n, width, steps, seeds = (40, 12, 40, 2) if size == "quick" else (100, 64, 1500, 16)
    rows: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
    for s in range(seed, seed + seeds):
        generator = torch.Generator().manual_seed(s)
        x, y = two_moons(n, NOISE, generator)
        test = two_moons(1000, NOISE, generator)
        for i, arm in enumerate(ARMS):
            if progress is not None:
                progress((s - seed + i / len(ARMS)) / seeds, f"seed {s}, {arm}")
            net = seeded(lambda: moons_network(width), s).double()
            if arm == "no batch norm":
                net = nn.Sequential(*(layer for layer in net if not isinstance(layer, nn.BatchNorm1d)))
            train_moons(net, x, y, steps, BATCH, BATCH if arm == "minibatch" else n, torch.Generator().manual_seed(s))
            found = net.eval() if arm == "no batch norm" else with_statistics(net, x)
            rows[arm].append(measure_margins(found, x, y, *test))
    plain, static, jittered = ({key: np.array([row[key] for row in rows[arm]]) for key in NAMES} for arm in ARMS)
    compared = f"statistics of {BATCH} points minus those of all {n}, loss of the same {BATCH}"
    return Outcome(
        {"rows": rows, "batch_size": BATCH, "steps": steps},
        (
            paired("Minibatch statistics in training enlarge the smallest margin of the training points (essay, on "
                   "minibatches: jitter of the boundary enlarges the margin).",
                   f"smallest margin, {compared}", jittered["smallest"] - static["smallest"]),
            paired("They enlarge the mean margin (the same).", f"mean margin, {compared}",
                   jittered["mean"] - static["mean"]),
            paired("They improve test accuracy (essay, on minibatches and batch size).", f"test accuracy, {compared}",
                   jittered["accuracy"] - static["accuracy"]),
            _apart(static["mean"] - plain["mean"], jittered["mean"] - static["mean"]),
        ),
    )  # fmt: skip


NAMES = {"smallest": "smallest margin", "mean": "mean margin", "accuracy": "test accuracy"}


def _apart(static: np.ndarray, dynamic: np.ndarray) -> Claim:
    """Each effect by itself must change the mean margin: its interval leaves out 0."""
    ends = [interval(static), interval(dynamic)]
    size = [max(low, -high) for low, high in ends]
    reach = [max(abs(low), abs(high)) for low, high in ends]
    (a, b), (c, d) = ends
    return judged(
        "Batch norm has a static effect (the data's statistics) and a dynamic one (those of minibatches), each with "
        "consequences of its own (essay, the two effects).",
        f"change of the mean margin by batch norm with the statistics of all data: {static.mean():+.4f}, 95% interval "
        f"{a:+.4f} to {b:+.4f}; by minibatch statistics beyond that: {dynamic.mean():+.4f}, 95% interval {c:+.4f} to "
        f"{d:+.4f}, {len(static)} paired seeds",
        holds=[Check("distance of the nearer interval from 0", min(size), ">", 0.0, "0 is no effect")],
        fails=[Check("farthest point of an interval from 0, least of the two", min(reach), "<", 0.01,
                     "a fifth of the data's noise: too small to matter"),
               Check("distance of the nearer interval from 0", min(size), "<", 0.0, "nor is one shown")],
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(3, width=PAGE / 3, height=2.9)
    for ax, (key, name) in zip(axes, NAMES.items(), strict=True):
        values = [[row[key] for row in numbers["rows"][arm]] for arm in ARMS]
        ax.plot(range(3), values, "o-", color="#3b528b", alpha=0.45, ms=3, lw=0.8)
        ax.plot(range(3), np.mean(values, 1), "D", color="#d55e00", ms=7)
        ax.set_xticks(range(3), ["no\nbatch norm", "all data", f"minibatch\nof {numbers['batch_size']}"])
        ax.set_xlim(-0.3, 2.3)
        ax.set_title(name)
    figure.supxlabel("statistics in training (a line for each seed, means in orange)", fontsize="medium")
    return figure


EXPERIMENT = Experiment(
    "Does minibatch jitter enlarge margins?",
    run,
    draw,
    place="the part on minibatches: jitter, margin and generalization",
    revised=(1, 2, 3, 4),
)
