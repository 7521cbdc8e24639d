"""Do very large batches fit the tiling to the training points?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope.complexity import local_complexity
from splinescope.normalization import with_statistics
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import log_ticks, subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.shared.normalization import normalized_by, seeded

SIZES = (8, 32, 256)
FIRST = 100
"""Seeds before this one were seen when the sample size was chosen, and are not judged."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    steps, seeds, points = (10, 2, 20) if size == "quick" else (300, 96, 200)
    rows = []
    for s in range(seeds):
        if progress is not None:
            progress(s / seeds, f"seed {s + 1} of {seeds}")
        rows.append([_excess(batch, steps, seed + FIRST + s, points) for batch in SIZES])
    table = np.array(rows)
    change = table[:, -1, 0] - table[:, 0, 0]
    low, high = interval(change)
    least, most = interval(table[:, -1, 0])
    mean = table.mean(0)
    return Outcome(
        {"rows": rows},
        (
            judged(
                "Statistics of very large batches overfit the training geometry: folds are denser at training points "
                "than at held-out ones, the more the larger the batch.",
                f"log of folds near training over folds near held-out digits, statistics of {SIZES[0]}, {SIZES[1]} and "
                f"all {SIZES[2]} points: "
                + ", ".join(f"{value:+.3f}" for value in mean[:, 0])
                + f"; all minus {SIZES[0]}: {change.mean():+.3f}, 95% interval {low:+.3f} to {high:+.3f}, "
                f"{seeds} paired "
                f"seeds; with all points 95% interval {least:+.3f} to {most:+.3f}; test accuracy "
                + ", ".join(f"{value:.3f}" for value in mean[:, 1]),
                holds=[
                    Check("lower end of the 95% interval: log ratio with all points", least, ">", 0.0, "0 is as dense"),
                    Check("change of the log ratio: least of its interval", low, ">", 0.0, "0 is none"),
                ],
                fails=[
                    Check("upper end of the 95% interval: log ratio with all points", most, "<", 0.0, "0 is as dense")
                ],
            ),
        ),
    )  # fmt: skip


def _excess(batch: int, steps: int, seed: int, points: int) -> tuple[float, float]:
    """Log ratio of folds near training and held-out points, and test accuracy, with the training set's statistics.

    The loss always takes 8 points; what differs is how many the statistics take.
    """
    x, y = digits()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator)
    x, y = x[order].float(), y[order]
    train_x, train_y, test_x, test_y = x[:256], y[:256], x[256:], y[256:]
    net = seeded(_network, seed)
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(steps):
        rows = torch.randperm(256, generator=generator)
        outputs = normalized_by(net, train_x[rows[:8]], train_x[rows[:batch]])
        optimizer.zero_grad()
        nn.functional.cross_entropy(outputs, train_y[rows[:8]]).backward()
        optimizer.step()
    settled = with_statistics(net, train_x)
    folds = [float(local_complexity(settled, part[:points], radius=0.05).total.double().mean())
             for part in (train_x, test_x)]  # fmt: skip
    with torch.no_grad():
        accuracy = float((settled(test_x).argmax(1) == test_y).double().mean())
    return float(np.log(folds[0] / folds[1])), accuracy


def _network() -> nn.Sequential:
    parts: list[nn.Module] = []
    for _ in range(3):
        parts += [nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(64, 10))


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    table = np.array(numbers["rows"])
    for ax, place, words in ((left, 0, "log folds, training over held-out"), (right, 1, "test accuracy")):
        for row in table[:, :, place]:
            ax.plot(SIZES, row, color="0.7", linewidth=0.8)
        ax.plot(SIZES, table[:, :, place].mean(0), "o-", color="#0072b2")
        ax.set(xlabel="points in the statistics", ylabel=words)
        log_ticks(ax, SIZES)
    left.axhline(0, color="0.4", linewidth=0.8)
    return figure


EXPERIMENT = Experiment(
    "Large batches and the training geometry", run, draw, place="the part on batch size", revised=(1,)
)
