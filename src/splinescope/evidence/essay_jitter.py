"""Minibatch statistics make folds and boundaries jitter."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from ..normalization import fold_jitter, minibatch_networks, with_statistics
from ._decomposed import judge, log_ticks, subplots
from ._experiment import Claim, Experiment, Outcome, Progress, Size
from ._normalization import seeded, two_moons

SIZES = (8, 16, 32, 64, 128)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    draws, units = (400, 32) if size == "quick" else (4000, 64)
    generator = torch.Generator().manual_seed(seed)
    x, _ = two_moons(256, 0.1, generator)
    net = seeded(
        lambda: nn.Sequential(
            *(nn.Linear(2, units), nn.BatchNorm1d(units), nn.ReLU()),
            *(nn.Linear(units, units), nn.BatchNorm1d(units), nn.ReLU(), nn.Linear(units, 2)),
        ),
        seed,
    ).double()
    axis = torch.linspace(-2, 3, 60, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    ratios, spreads, flips = [], [], []
    with torch.no_grad():
        classes = with_statistics(net, x)(grid).argmax(1)
        for i, batch_size in enumerate(SIZES):
            if progress is not None:
                progress(i / len(SIZES), f"batches of {batch_size}")
            first = fold_jitter(net, x, batch_size, draws=draws, generator=generator)[0]
            ratios.append(float((first.measured / first.predicted).mean()))
            spreads.append(float((first.measured / first.deviation).mean()))
            networks = minibatch_networks(net, x, batch_size, 12, generator=generator)
            flips.append(float(np.mean([float((m(grid).argmax(1) != classes).double().mean()) for m in networks])))
    return Outcome(
        {"sizes": SIZES, "ratios": ratios, "spreads": spreads, "flips": flips, "rows": len(x)},
        (
            Claim(
                "The offset of a fold in the first layer spreads over minibatches by the rms distance of the data over "
                "sqrt(B), times sqrt((N-B)/(N-1)).",
                judge(bool(np.abs(np.array(ratios) - 1).max() < 0.05)),
                "measured / predicted: " + ", ".join(f"B={b} {r:.3f}" for b, r in zip(SIZES, ratios, strict=True)),
                "within 5 % for every batch size",
            ),
            Claim(
                "Smaller batches move the decision boundary more.",
                judge(bool((np.diff(flips) < 0).all())),
                "share of a grid that changes class: "
                + ", ".join(f"B={b} {f:.3f}" for b, f in zip(SIZES, flips, strict=True)),
                "decreasing in B",
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    sizes, n = np.array(numbers["sizes"]), numbers["rows"]
    left.plot(sizes, numbers["spreads"], "o", label="measured")
    left.plot(sizes, np.sqrt((n - sizes) / ((n - 1) * sizes)), label="predicted")
    left.set_ylabel("spread of a fold / rms distance of the data")
    right.plot(sizes, numbers["flips"], "o-")
    right.set_ylabel("share of the plane that changes class")
    for ax in (left, right):
        log_ticks(ax, sizes)
        ax.set_xlabel("batch size")
        ax.set_ylim(bottom=0)
    left.legend(frameon=False)
    return figure


EXPERIMENT = Experiment("essay-jitter", "essay", "Minibatch statistics make folds jitter", run, draw)
