"""Does minibatch jitter enlarge margins? Paired training runs with minibatch and with full-batch statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..normalization import with_statistics
from ._experiment import Experiment, Outcome, Progress, Size
from ._figures import subplots
from ._normalization import measure_margins, moons_network, paired, seeded, train_moons, two_moons


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    n, width, steps, seeds = (40, 12, 40, 2) if size == "quick" else (100, 64, 1500, 12)
    batch_size = 16
    rows: dict[str, list[dict[str, float]]] = {"minibatch": [], "full batch": []}
    for s in range(seed, seed + seeds):
        if progress is not None:
            progress((s - seed) / seeds, f"seed {s}")
        generator = torch.Generator().manual_seed(s)
        x, y = two_moons(n, 0.12, generator)
        test = two_moons(1000, 0.12, generator)
        for kind, found in rows.items():
            net = seeded(lambda: moons_network(width), s).double()
            statistics = batch_size if kind == "minibatch" else n
            train_moons(net, x, y, steps, batch_size, statistics, torch.Generator().manual_seed(s))
            found.append(measure_margins(with_statistics(net, x), x, y, *test))
    difference = {
        key: np.array([a[key] - b[key] for a, b in zip(rows["minibatch"], rows["full batch"], strict=True)])
        for key in rows["minibatch"][0]
    }
    return Outcome(
        {"rows": rows, "batch_size": batch_size, "steps": steps},
        (
            paired("Minibatch statistics in training enlarge the smallest margin of the training points (essay, on "
                   "minibatches: jitter of the boundary enlarges the margin).",
                   f"smallest margin, {COMPARED}", difference["smallest"]),
            paired("They enlarge the mean margin (the same).", f"mean margin, {COMPARED}", difference["mean"]),
            paired("They improve test accuracy (essay, on minibatches).", f"test accuracy, {COMPARED}",
                   difference["accuracy"]),
        ),
    )  # fmt: skip


COMPARED = "statistics of 16 points minus those of all 100, loss of the same 16"


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(3)
    names = {"smallest": "smallest margin", "mean": "mean margin", "accuracy": "test accuracy"}
    for ax, (key, name) in zip(axes, names.items(), strict=True):
        pairs = [[row[key] for row in numbers["rows"][kind]] for kind in ("full batch", "minibatch")]
        ax.plot([0, 1], pairs, "o-", color="#3b528b", alpha=0.6)
        ax.set_xticks([0, 1], ["full batch", f"minibatch of {numbers['batch_size']}"])
        ax.set_xlim(-0.3, 1.3)
        ax.set_xlabel("statistics in training (one line a seed)")
        ax.set_ylabel(name)
    return figure


EXPERIMENT = Experiment(
    "essay-margin",
    "essay",
    "Does minibatch jitter enlarge margins?",
    run,
    draw,
    place="the part on minibatches: jitter of the decision boundary and the margin",
)
