"""An open question of the essay: folds placed by data once, in deep convolutional, residual and layer-norm networks."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..normalization import initialize_
from ._data import digits
from ._experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from ._figures import log_ticks, subplots
from ._intervals import ratio_interval

FAMILIES = ("convolutional", "residual", "layer norm")
STARTS = ("placed", "He", "unit variance", "batch norm")
"""How a network begins. In the family with layer norm, batch norm takes the place of the layer norm, and unit variance
is what it has by itself."""

DEPTHS = (8, 20, 50)
RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
CHANNELS, WIDTH = 12, 48


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    depths, rates, steps, seeds, rows = ((4,), (0.03,), 8, 2, 100) if size == "quick" else (DEPTHS, RATES, 150, 5, 1000)
    x, y = (t[torch.randperm(1797, generator=torch.Generator().manual_seed(seed))[:rows]] for t in digits())
    x = x.float()
    found: dict[str, Any] = {}
    cells = list(itertools.product(FAMILIES, depths, STARTS))
    for i, (family, depth, start) in enumerate(cells):
        runs: dict[float, list[list[float]]] = {rate: [] for rate in rates}
        spread = []
        for s in range(seed, seed + seeds):
            if progress is not None:
                progress((i + (s - seed) / seeds) / len(cells), f"{family}, depth {depth}, {start}, seed {s}")
            first = started(family, depth, start, x, s)
            for rate in rates:
                curve = _train(copy.deepcopy(first), x, y, steps, rate, torch.Generator().manual_seed(s))
                runs[rate].append(curve)
            spread.append(features_spread(first, x[:200]))
        speeds = {rate: [_speed(curve) for curve in curves] for rate, curves in runs.items()}
        best = min(rates, key=lambda rate: float(np.mean(speeds[rate])))
        found[f"{family}|{depth}|{start}"] = {"rate": best, "speed": speeds[best], "spread": spread}
    return Outcome({"cells": found, "depths": depths, "steps": steps}, _claims(found, depths, steps))


class Net(nn.Module):
    """`depth` layers with a fold each; images 1 x 8 x 8 are halved by the first convolution."""

    def __init__(self, family: str, depth: int, batch_norm: bool) -> None:
        super().__init__()
        self.family = family
        images = family != "layer norm"
        sizes = [(1 if images else 64), *[CHANNELS if images else WIDTH] * depth]
        self.layers, self.norms = nn.ModuleList(), nn.ModuleList()
        for i, (before, after) in enumerate(itertools.pairwise(sizes)):
            layer: nn.Module
            if images:
                layer = nn.Conv2d(before, after, 3, stride=2 if i == 0 else 1, padding=1)
            else:
                layer = nn.Linear(before, after)
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
            self.layers.append(layer)
            if batch_norm:
                self.norms.append(nn.BatchNorm2d(after) if images else nn.BatchNorm1d(after))
            else:
                self.norms.append(nn.Identity() if images else nn.LayerNorm(after))
        self.out = nn.Linear(sizes[-1], 10)

    def features(self, x: Tensor) -> Tensor:
        x = x if self.family == "layer norm" else x.unflatten(1, (1, 8, 8))
        maps = list(zip(self.layers, self.norms, strict=True))
        if self.family == "residual":
            layer, norm = maps[0]
            x = norm(layer(x))
            for (first, norm_1), (second, norm_2) in zip(maps[1:-1:2], maps[2::2], strict=True):
                x = x + norm_2(second(torch.relu(norm_1(first(torch.relu(x))))))
            return torch.relu(x).mean((2, 3))
        for layer, norm in maps:
            x = torch.relu(norm(layer(x)))
        return x.mean((2, 3)) if self.family == "convolutional" else x

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(self.features(x))
        return scores


def started(family: str, depth: int, start: str, x: Tensor, seed: int) -> Net:
    """He weights, and what data make of them; a residual network has one layer more where the depth is even."""
    depth += family == "residual" and depth % 2 == 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Net(family, depth, start == "batch norm")
    branch = max(1, (depth - 1) // 2) ** -0.5 if family == "residual" else 1.0
    if start == "placed":
        initialize_(net, x, branch=branch)
    if start == "unit variance":
        initialize_(net, x, method="unit_variance", branch=branch)
    return net.train()


@torch.no_grad()
def features_spread(net: Net, x: Tensor) -> float:
    """Dimension of the last features: `(sum v)^2 / sum v^2` of the eigenvalues of their covariance."""
    features = net.features(x).double()
    values = torch.linalg.svdvals(features - features.mean(0)).square()
    return float(values.sum() ** 2 / values.square().sum().clamp_min(1e-300)) if features.isfinite().all() else 0.0


def _train(net: Net, x: Tensor, y: Tensor, steps: int, rate: float, generator: torch.Generator) -> list[float]:
    """Losses of SGD with momentum, batches of 32; ends where a loss is not finite."""
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    losses = []
    for _ in range(steps):
        rows = torch.randint(len(x), (32,), generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
        losses.append(float(loss.detach()))
        if not np.isfinite(losses[-1]):
            break
        loss.backward()
        optimizer.step()
    return losses


def _speed(losses: list[float]) -> float:
    """Mean loss of the run, each cut at twice that of guessing, which is also what a run that diverged counts."""
    most = 2 * np.log(10)
    return float(np.minimum(losses, most).mean()) if np.isfinite(losses).all() else float(most)


def _claims(found: dict[str, Any], depths: tuple[int, ...], steps: int) -> tuple[Claim, ...]:
    where = "(Essay and decomposed, initialisation by data for real architectures: an open question.)"
    level = 1 - 0.05 / (len(FAMILIES) * len(depths))

    def against(other: str) -> tuple[list[tuple[float, float]], str]:
        ends, words = [], []
        for family, depth in itertools.product(FAMILIES, depths):
            own, rival = (found[f"{family}|{depth}|{start}"] for start in ("placed", other))
            ends.append(ratio_interval(np.array(own["speed"]) / np.array(rival["speed"]), level))
            low, high = ends[-1]
            words.append(
                f"{family} {depth}: {np.mean(own['speed']):.3f} (rate {own['rate']:g}) and "
                f"{np.mean(rival['speed']):.3f} ({rival['rate']:g}), {low:.2f} to {high:.2f}"
            )
        return ends, "; ".join(words)

    def claim(text: str, other: str, line: float, reason: str) -> Claim:
        ends, words = against(other)
        return judged(
            f"{text} {where}",
            f"mean train loss over {steps} steps, each at its best rate, placed and {other}, with intervals of the "
            f"ratio (5% shared by {len(ends)}): {words}",
            holds=[Check("upper end of the ratio, largest over families and depths", max(e[1] for e in ends), "<", line,
                         reason)],
            fails=[Check("lower end of the ratio, largest over families and depths", max(e[0] for e in ends), ">", line,
                         "surely not in one of them")],
        )  # fmt: skip

    return (
        claim("Folds placed by data once train deep networks faster than He weights.", "He", 1.0, "1 is as fast"),
        claim("They train them faster than unit variance per layer (LSUV).", "unit variance", 1.0, "1 is as fast"),
        claim("They train them as fast as batch norm.", "batch norm", 1.1, "a tenth more loss is as fast"),
    )


def draw(numbers: dict[str, Any]) -> Any:
    """Above: mean training loss against depth. Below: dimension of the last features at the start."""
    figure, axes = subplots(3, 2)
    colours = dict(zip(STARTS, ("#d55e00", "#56b4e9", "#009e73", "black"), strict=True))
    depths = numbers["depths"]
    for i, family in enumerate(FAMILIES):
        for row, (key, label) in enumerate((("speed", f"mean train loss over {numbers['steps']} steps"),
                                            ("spread", "dimension of the last features at the start"))):  # fmt: skip
            ax = axes[3 * row + i]
            for start in STARTS:
                values = np.array([numbers["cells"][f"{family}|{depth}|{start}"][key] for depth in depths])
                ax.plot(depths, values.mean(1), "o-", ms=4, color=colours[start], label=start)
                ax.fill_between(depths, values.min(1), values.max(1), color=colours[start], alpha=0.15, lw=0)
            log_ticks(ax, depths)
            ax.set(title=family, xlabel="layers", ylabel=label, ylim=(0, None))
    axes[0].legend(frameon=False, fontsize=8)
    return figure


EXPERIMENT = Experiment(
    "essay-initialization-deep",
    "essay",
    "Folds placed by data in deep networks of three kinds",
    run,
    draw,
    place=("the closing part, open questions: a start by data; the closing section of Batch Normalization Decomposed"),
)
