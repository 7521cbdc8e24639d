"""Two-layer networks can fit anything; do deeper ones of as many parameters generalize better?"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.shared.normalization import seeded
from splinescope_evidence.survey.figures.fig9_mnist import mnist_5k

SHAPES = {2: (84,), 5: (68, 68, 68, 68)}
"""Hidden widths by number of layers; 66,790 and 68,146 parameters."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    steps, seeds = (20, 2) if size == "quick" else (800, 12)
    rows = []
    for s in range(seeds):
        if progress is not None:
            progress(s / seeds, f"seed {s + 1} of {seeds}")
        rows.append({str(layers): _trained(layers, steps, seed + s) for layers in SHAPES})
    gain = np.array([row["5"]["test"] - row["2"]["test"] for row in rows])
    low, high = interval(gain)
    fitted = min(row[layers]["train"] for row in rows for layers in ("2", "5"))
    mean = {layers: np.mean([row[layers]["test"] for row in rows]) for layers in ("2", "5")}
    return Outcome(
        {"rows": rows},
        (
            judged(
                "Two-layer networks interpolate but generalize worse than deeper networks of as many parameters.",
                f"test accuracy on MNIST, 1,000 training images, {seeds} seeds: {mean['2']:.4f} with two layers, "
                f"{mean['5']:.4f} with five; difference {gain.mean():+.4f}, 95% interval {low:+.4f} to {high:+.4f}; "
                f"least training accuracy {fitted:.3f}",
                holds=[Check("lower end of the 95% interval: five minus two", low, ">", 0.0, "0 is no gain")],
                fails=[Check("upper end of the 95% interval: five minus two", high, "<", 0.0, "0 is no gain")],
                needs=[Check("least training accuracy", fitted, ">", 0.995, "both must interpolate")],
            ),
        ),
    )


@cache
def _images() -> tuple[Tensor, Tensor]:
    return mnist_5k()


def _trained(layers: int, steps: int, seed: int) -> dict[str, float]:
    images, labels = _images()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)
    x, y, x_test, y_test = (rows[part] for part in (order[:1000], order[1000:]) for rows in (images.flatten(1), labels))
    widths = (784, *SHAPES[layers], 10)
    parts = [part for a, b in pairwise(widths) for part in ((a, b), None)][:-1]
    net = seeded(lambda: nn.Sequential(*(nn.ReLU() if part is None else nn.Linear(*part) for part in parts)), seed)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(steps):
        rows = torch.randperm(len(x), generator=generator)[:100]
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        return {"train": float((net(x).argmax(1) == y).double().mean()),
                "test": float((net(x_test).argmax(1) == y_test).double().mean())}  # fmt: skip


def draw(numbers: dict[str, Any]) -> Any:
    figure, (ax,) = subplots(1)
    for row in numbers["rows"]:
        ax.plot([0, 1], [row["2"]["test"], row["5"]["test"]], "o-", color="#0072b2", alpha=0.5)
    ax.set_xticks([0, 1], ["two layers", "five layers"])
    ax.set(xlim=(-0.4, 1.4), ylabel="test accuracy, as many parameters")
    return figure


EXPERIMENT = Experiment(
    "Depth and generalization at equal parameters", run, draw, place="the part on universal approximation and depth"
)
