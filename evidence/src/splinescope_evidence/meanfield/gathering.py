"""Figure 1's message: with batch norm neurons gather at the direction that matters."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from splinescope.meanfield import TwoLayer, descend
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.shared.meanfield import random_neurons, relu_data

TARGETS = {"relu(x1)": lambda x: torch.relu(x[:, 0])}
ALIGNED = 0.95


def _share(b: torch.Tensor) -> float:
    """Share of neurons within acos(.95), 18 degrees, of the axis of x1, either way."""
    cosine = b[:, 0].abs() / b.norm(dim=1)
    return float((cosine > ALIGNED).double().mean())


def _shares(m: int, n: int, steps: int, seed: int, target: Any) -> tuple[float, float, float]:
    """Share of aligned neurons at the start, after training with batch norm, and after training without."""
    data, net = relu_data(n, seed, target), random_neurons(m, seed)
    plain = TwoLayer(net.a, net.b, net.activation)
    ends = []
    for dynamics, start in (("euclidean", net), ("plain", plain)):
        path = descend(start, data, rate=0.01, iterations=steps, dynamics=dynamics, record_every=steps)  # type: ignore[arg-type]
        ends.append(_share(path.b[-1]))
    return _share(net.b), ends[0], ends[1]


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    m, n, steps, seeds = (40, 200, 300, 2) if size == "quick" else (100, 2000, 8000, 8)
    table: dict[str, list[tuple[float, float, float]]] = {name: [] for name in TARGETS}
    for i in range(seeds):
        for j, (name, target) in enumerate(TARGETS.items()):
            if progress is not None:
                progress((i * len(TARGETS) + j) / (seeds * len(TARGETS)), f"{name}, seed {seed + i}")
            table[name].append(_shares(m, n, steps, seed + i, target))
    values = {name: np.array(rows) for name, rows in table.items()}

    texts = {
        name: f"{v[:, 0].mean():.2f} at the start, {v[:, 1].mean():.2f} ({v[:, 1].min():.2f} to {v[:, 1].max():.2f}) "
        f"with batch norm, {v[:, 2].mean():.2f} ({v[:, 2].min():.2f} to {v[:, 2].max():.2f}) without"
        for name, v in values.items()
    }
    claims = []
    for name in TARGETS:
        low, high = interval(values[name][:, 1] - values[name][:, 2])
        claims.append(
            judged(
                f"Section 4.1, Figure 1: with batch norm neurons gather at the significant direction; target {name}.",
                f"share of {m} neurons within 18 degrees of the axis after {steps} steps: {texts[name]}; difference "
                f"{low:+.3f} to {high:+.3f} (95% interval, {seeds} seeds)",
                holds=[
                    Check("lower end of the 95% interval of the difference of shares", low, ">", 0.1,
                          "a tenth of the neurons more than without batch norm is visible in the figure"),
                ],
                fails=[Check("upper end of that interval", high, "<", 0.1, "less than visible")],
            )
        )  # fmt: skip
    return Outcome({"shares": {name: v.tolist() for name, v in values.items()}}, tuple(claims))


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(len(numbers["shares"]))
    for ax, (name, rows) in zip(axes, numbers["shares"].items(), strict=True):
        for end, color, label in ((1, "#0072b2", "batch norm"), (2, "#d55e00", "plain")):
            shares = [[row[0] for row in rows], [row[end] for row in rows]]
            lines = ax.plot([0, 1], shares, ".-", color=color, alpha=0.6)
            lines[0].set_label(label)
        ax.set_xticks([0, 1], ["start", "after training"])
        ax.legend(frameon=False)
        ax.set(title=f"target {name}", ylabel="share of neurons near the axis of x1", ylim=(0, 1))
    return figure


EXPERIMENT = Experiment(
    "Figure 1: neurons gather at the significant direction", run, draw, place="Figure 1; section 4.1"
)
