"""Do neurons of diverse lengths, each with a learning rate of its own, forgive the rate of all?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from splinescope.meanfield import Data, TwoLayerBN
from splinescope.meanfield.flow import descend
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.shared.meanfield import random_neurons, relu_data

SMALL = (0.1, 0.001)
"""Shares of the starting loss below which descent at a rate has learned, roughly and well."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    m, n, iterations, seeds, count = (20, 100, 20, 2, 5) if size == "quick" else (100, 500, 400, 8, 33)
    rates = np.logspace(-3, 1, count)
    curves: dict[str, list[list[float]]] = {"equal": [], "diverse": []}
    for s in range(seeds):
        if progress is not None:
            progress(s / seeds, f"network {s + 1} of {seeds}")
        equal, data = random_neurons(m, seed + s), relu_data(n, seed + s)
        generator = torch.Generator().manual_seed(seed + s)
        lengths = 10 ** (2 * torch.rand(m, 1, generator=generator, dtype=torch.float64) - 1)
        diverse = TwoLayerBN(equal.a, equal.b * lengths, "relu")
        for name, net in (("equal", equal), ("diverse", diverse)):
            curves[name].append([_left(net, data, rate, iterations) for rate in rates])
    spacing = float(np.log10(rates[1] / rates[0]))
    decades = {
        name: np.array([(np.array(rows) < share).sum(1) * spacing for share in SMALL]) for name, rows in curves.items()
    }
    gains = decades["diverse"] - decades["equal"]
    ends = [interval(row, 1 - 0.05 / len(SMALL)) for row in gains]
    told = "; ".join(
        f"below {share:g} of it {decades['diverse'][i].mean():.2f} with lengths 0.1 to 10, "
        f"{decades['equal'][i].mean():.2f} with length 1, gain {gains[i].mean():+.2f} ({ends[i][0]:+.2f} to "
        f"{ends[i][1]:+.2f})"
        for i, share in enumerate(SMALL)
    )
    why = "0 is no gain; Bonferroni over the two losses"
    claim = judged(
        "Neurons of diverse lengths are an ensemble of learning rates: descent with batch norm learns at more rates "
        "than with neurons of one length.",
        f"decades of rate that end at a small share of the starting loss, {seeds} networks: {told}",
        holds=[Check(f"lower end of the interval of the gain in decades, loss below {share:g}", low, ">", 0.0, why)
               for share, (low, _) in zip(SMALL, ends, strict=True)],
        fails=[Check(f"upper end of the interval of the gain in decades, loss below {share:g}", high, "<", spacing,
                     "one rate more of those tried")
               for share, (_, high) in zip(SMALL, ends, strict=True)]
        + [Check("lower end of the interval of the gain, least", min(low for low, _ in ends), "<", 0.0, why)],
        needs=[Check("decades of rate that work, least", float(min(d.min() for d in decades.values())), ">",
                     0.5 * spacing, "the task must be learned at some rates"),
               Check("decades of rate that work, most", float(max(d.max() for d in decades.values())), "<",
                     count * spacing - 1.5 * spacing, "rates must be tried beyond those that work")],
    )  # fmt: skip
    return Outcome({"rates": rates.tolist(), **curves}, (claim,))


def _left(net: TwoLayerBN, data: Data, rate: float, iterations: int) -> float:
    """Share of the starting loss that is left at the end; infinite where descent diverged."""
    risks = descend(net, data, rate=rate, iterations=iterations, record_every=iterations).risks
    left = float(risks[-1] / risks[0])
    return left if np.isfinite(left) else np.inf


def draw(numbers: dict[str, Any]) -> Any:
    figure, (ax,) = subplots(1)
    for name, color in (("equal", "#0072b2"), ("diverse", "#d55e00")):
        rows = np.minimum(np.array(numbers[name], float), 1e3)
        ax.loglog(numbers["rates"], np.exp(np.log(rows).mean(0)), color=color, label=f"{name} lengths")
        ax.fill_between(numbers["rates"], rows.min(0), rows.max(0), color=color, alpha=0.2, lw=0)
    for share in SMALL:
        ax.axhline(share, color="0.5", linestyle="--", linewidth=1)
    ax.set(xlabel="learning rate", ylabel="loss at the end over start")
    ax.legend()
    return figure


EXPERIMENT = Experiment(
    "Are neurons of diverse lengths an ensemble of learning rates?", run, draw, place="section 4.2, beside Figure 2"
)
