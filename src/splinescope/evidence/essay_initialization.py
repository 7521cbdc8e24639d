"""Folds placed by data without batch norm: training curves on digits against batch norm, default and He weights."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..normalization import initialize_
from ._decomposed import digits, judge, subplots
from ._experiment import Claim, Experiment, Outcome, Progress, Size
from ._normalization import seeded

KINDS = ("batch norm", "default", "He", "mean", "standard", "whiten", "quantile")


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    hidden, width, steps, seeds = (6, 64, 120, 2) if size == "quick" else (10, 128, 1000, 5)
    x, y = digits()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    x, y = x[order].float(), y[order]
    train, test = (x[:1200], y[:1200]), (x[1200:], y[1200:])
    curves: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    accuracy: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for i, (kind, s) in enumerate(itertools.product(KINDS, range(seed, seed + seeds))):
        if progress is not None:
            progress(i / (len(KINDS) * seeds), f"{kind}, seed {s}")
        net = _network(kind, hidden, width, train[0], s)
        curves[kind].append(_train(net, *train, steps, torch.Generator().manual_seed(s)))
        with torch.no_grad():
            accuracy[kind].append(float((net.eval()(test[0]).argmax(1) == test[1]).double().mean()))
    final = {kind: np.array([np.mean(curve[-10:]) for curve in found]) for kind, found in curves.items()}
    told = ", ".join(f"{kind} {loss.mean():.3f} ({np.mean(accuracy[kind]):.3f})" for kind, loss in final.items())
    return Outcome(
        {"curves": curves, "accuracy": accuracy, "hidden": hidden},
        (
            Claim(
                "A plain deep network whose folds are placed by data once, before training, trains faster than with "
                "default or He weights.",
                judge(bool((final["standard"] < np.minimum(final["default"], final["He"])).all())),
                f"train loss (test accuracy) after {steps} steps of SGD, {hidden} hidden layers: {told}",
                "lower final loss than both in every seed (weights and offsets set by mean and deviation)",
            ),
            Claim(
                "It then trains as fast as with batch norm.",
                judge(bool(final["standard"].mean() <= 1.1 * final["batch norm"].mean())),
                f"train loss: standard {final['standard'].mean():.3f}, batch norm {final['batch norm'].mean():.3f}",
                "mean final loss at most 1.1 times that of batch norm",
            ),
        ),
    )


def _network(kind: str, hidden: int, width: int, x: Tensor, seed: int) -> nn.Sequential:
    """Default weights, He weights, with batch norm, or set by data from He weights."""

    def make() -> nn.Sequential:
        layers: list[nn.Module] = []
        for fan_in in (64, *[width] * (hidden - 1)):
            linear = nn.Linear(fan_in, width)
            if kind != "default":
                nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
                nn.init.zeros_(linear.bias)
            layers += [linear, *([nn.BatchNorm1d(width)] if kind == "batch norm" else []), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, 10))

    net = seeded(make, seed)
    assert isinstance(net, nn.Sequential)
    if kind in KINDS[3:]:
        initialize_(net, x, method=kind, generator=torch.Generator().manual_seed(seed))  # type: ignore[arg-type]
    return net


def _train(net: nn.Module, x: Tensor, y: Tensor, steps: int, generator: torch.Generator) -> list[float]:
    """Losses of SGD at .05 with batches of 64."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        pick = torch.randint(len(x), (64,), generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x[pick]), y[pick])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    colours = ("black", "#999999", "#56b4e9", "#e6a000", "#d55e00", "#009e73", "#cc79a7")
    for kind, colour in zip(numbers["curves"], colours, strict=True):
        curve = np.mean(numbers["curves"][kind], 0)
        smooth = np.convolve(curve, np.ones(10) / 10, mode="valid")
        left.semilogy(np.arange(len(smooth)) + 10, smooth, label=kind, color=colour)
    left.set_xlabel("step")
    left.set_ylabel("train loss (mean of 10 steps)")
    left.legend(frameon=False, fontsize="small")
    names = list(numbers["accuracy"])
    for i, name in enumerate(names):
        right.plot(numbers["accuracy"][name], [i] * len(numbers["accuracy"][name]), "o", color=colours[i])
    right.set_yticks(range(len(names)), names)
    right.invert_yaxis()
    right.set_xlabel("test accuracy (one point a seed)")
    return figure


EXPERIMENT = Experiment("essay-initialization", "essay", "Folds placed by data, without batch norm", run, draw)
