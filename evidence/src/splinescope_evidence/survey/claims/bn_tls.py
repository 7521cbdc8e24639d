"""Equation (8): batch norm's mean is the total-least-squares offset."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope.normalization import fold_distances, initialize_
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots

SHIFTS = np.linspace(-2, 2, 81)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    n, units = (100, 30) if size == "quick" else (2000, 300)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=generator, dtype=torch.float64)
    x = x @ torch.randn(5, 5, generator=generator, dtype=torch.float64) + 1.0
    with torch.random.fork_rng(devices=[]):
        net = nn.Sequential(nn.Linear(5, units), nn.ReLU()).double()
    layer = net[0]
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        layer.weight.normal_(generator=generator)
        layer.bias.zero_()
        initialize_(net, x, method="mean")
    site = fold_distances(net, x)[0]
    weight = layer.weight.detach()
    inner = (x @ weight.T / weight.norm(dim=1)).numpy()
    mean = inner.mean(0)

    def objective(offset: np.ndarray) -> np.ndarray:
        return np.asarray(((inner - offset) ** 2).sum(0))

    error = float(np.abs(site.objective / objective(mean) - 1).max())
    curves = np.stack([objective(mean + shift) for shift in SHIFTS]) / objective(mean)
    beaten = int((curves < 1).sum())
    least = float(n * torch.linalg.eigvalsh(torch.cov(x.T, correction=0))[0])
    offset = Check("relative difference of the objective at the mean", error, "<", 1e-12, "an identity: rounding")
    none_better = Check("offsets that do better", float(beaten), "<", 0.5, "a minimum: none may")
    direction = Check(
        "best unit's objective over that of the smallest principal direction", float(site.optimum.min() / least), "<",
        1.1, "the least over directions, but for a tenth",
    )  # fmt: skip
    return Outcome(
        {"shifts": SHIFTS, "curves": curves[:, :10], "least": least, "optima": site.optimum},
        (
            judged(
                "Batch norm lays each fold at the least total squared distance to the data (equation (8)). Corrected: "
                "over the offset, with the direction held, in the layer's own input space.",
                f"one set of {n} points, {units} units: relative difference of the objective {error:.1e}; better "
                f"offsets found: {beaten} of {curves.size}; "
                f"over the whole fold the least is that of the smallest principal direction, {least:.3g}, where batch "
                f"norm on {units} random directions has {site.optimum.min():.3g} at best",
                holds=[offset, none_better, direction],
                corrected=[offset, none_better],
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    left.plot(numbers["shifts"], np.array(numbers["curves"]), color="#3b528b", alpha=0.6)
    left.set_xlabel("offset of the fold from the mean")
    left.set_ylabel("total squared distance / optimum")
    right.hist(np.array(numbers["optima"]), bins=20, color="#3b528b", label="random directions, best offset")
    right.axvline(numbers["least"], color="#d55e00", label="smallest principal direction")
    right.set_xlabel("total squared distance")
    right.set_ylabel("units")
    right.margins(y=0.35)
    right.legend(frameon=False, loc="upper right")
    return figure


EXPERIMENT = Experiment(
    "Equation (8): batch norm as total least squares", run, draw, place="equation (8)", revised=(1,)
)
