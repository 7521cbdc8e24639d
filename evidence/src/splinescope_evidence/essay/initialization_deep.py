"""An open question of the essay: folds placed by data once, in deep convolutional, residual and layer-norm networks."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.normalization import initialize_
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import log_ticks, subplots
from splinescope_evidence.shared.intervals import ratio_interval

FAMILIES = ("convolutional", "residual", "layer norm")
STARTS = ("placed", "He", "unit variance", "batch norm")
"""How a network begins. In the family with layer norm, batch norm takes the place of the layer norm, and unit variance
is what it has by itself."""

DEPTHS = (8, 20, 50)
RATES = tuple(2.0**-k for k in range(16))
"""From 3e-5 to 1 by factors of 2: `chosen_rate` tries what it needs of them."""

TUNING = 1000
"""Added to the seeds on which rates are chosen: none of these is judged."""

TRAINS = 0.95 * np.log(10)
"""Mean loss of a start that learns: below, by a twentieth, that of guessing one of ten classes."""

CHANNELS, WIDTH = 12, 48


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    quick = size == "quick"
    depths, rates, steps, seeds, rows = ((4,), RATES[4:7], 8, 2, 100) if quick else (DEPTHS, RATES, 150, 5, 1000)
    x, y = (t[torch.randperm(1797, generator=torch.Generator().manual_seed(seed))[:rows]] for t in digits())
    x = x.float()
    found: dict[str, Any] = {}
    cells = list(itertools.product(FAMILIES, depths, STARTS))

    for i, (family, depth, start) in enumerate(cells):
        if progress is not None:
            progress(i / len(cells), f"{family}, depth {depth}, {start}")
        own, other = range(seed, seed + seeds), range(seed + TUNING, seed + TUNING + (1 if quick else 2))
        nets = {s: started(family, depth, start, x, s) for s in (*own, *other)}
        found[f"{family}|{depth}|{start}"] = _cell(nets, own, other, x, y, steps, rates)
    return Outcome({"cells": found, "depths": depths, "steps": steps}, _claims(found, depths, steps))


def _cell(
    nets: dict[int, Net], own: range, other: range, x: Tensor, y: Tensor, steps: int, rates: tuple[float, ...]
) -> dict[str, Any]:
    """One start of one family and depth: its rate by the `other` seeds, and how fast it is then with its `own`."""

    def speeds(seeds: range, rate: float) -> list[float]:
        generators = {s: torch.Generator().manual_seed(s) for s in seeds}
        return [_speed(_train(copy.deepcopy(nets[s]), x, y, steps, rate, generators[s])) for s in seeds]

    tried = chosen_rate(rates, lambda rate: float(np.mean(speeds(other, rate))))
    best = min(tried, key=lambda rate: tried[rate])
    return {
        "rate": best,
        "inside": min(tried) < best < max(tried),
        "tuned": tried[best],
        "tried": sorted(tried),
        "speed": speeds(own, best),
        "spread": [features_spread(nets[s], x[:200]) for s in own],
    }


def chosen_rate(rates: tuple[float, ...], loss: Callable[[float], float]) -> dict[float, float]:
    """Losses of the rates that were tried: some of the list, then neighbors of the best until both are there.

    So the best of them is a rate whose neighbors in the list are no better, or an end of the list.
    """
    tried = {rate: loss(rate) for rate in rates[len(rates) // 4 : -len(rates) // 4 : 3]}
    while True:
        at = rates.index(min(tried, key=lambda rate: tried[rate]))
        new = [rate for rate in rates[max(at - 1, 0) : at + 2] if rate not in tried]
        if not new:
            return tried
        tried |= {rate: loss(rate) for rate in new}


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
    where = "(Essay and decomposed, initialization by data for real architectures: an open question.)"
    level = 1 - 0.05 / (len(FAMILIES) * len(depths))

    def claim(text: str, other: str, line: float, reason: str) -> Claim:
        ends, words, at_end, idle = [], [], 0, []
        for family, depth in itertools.product(FAMILIES, depths):
            own, rival = (found[f"{family}|{depth}|{start}"] for start in ("placed", other))
            low, high = ratio_interval(np.array(own["speed"]) / np.array(rival["speed"]), level)
            learns = min(own["tuned"], rival["tuned"]) < TRAINS
            if learns:
                ends.append((low, high))
                at_end += not (own["inside"] and rival["inside"])
            else:
                idle.append(f"{family} {depth}")
            words.append(
                f"{family} {depth}{'' if learns else ' (not judged)'}: {np.mean(own['speed']):.3f} (rate "
                f"{own['rate']:.2g}) and {np.mean(rival['speed']):.3f} ({rival['rate']:.2g}), {low:.2f} to {high:.2f}"
            )
        return judged(
            f"{text} {where}",
            f"mean train loss over {steps} steps of {len(own['speed'])} seeds, placed and {other}, each at the best of "
            f"rates a factor of 2 apart on other seeds, with intervals of the ratio (5% shared by {len(words)}): "
            + "; ".join(words)
            + (f". Neither start trains in {', '.join(idle)}" if idle else ""),
            holds=[Check("upper end of the ratio, largest over families and depths that train",
                         max((e[1] for e in ends), default=np.nan), "<", line, reason)],
            fails=[Check("lower end of the ratio, largest over families and depths that train",
                         max((e[0] for e in ends), default=np.nan), ">", line, "significantly not in one of them")],
            needs=[Check("families and depths in which one of the two starts trains", len(ends), ">", 0.5,
                         "its mean loss on the other seeds is below .95 of guessing; none would test nothing"),
                   Check("of these, with a best rate at an end of the rates", at_end, "<", 0.5,
                         "a rate beyond might serve it better")],
        )  # fmt: skip

    return (
        claim("Folds placed by data once train deep networks faster than He weights, in all families and depths that "
              "train.", "He", 1.0, "1 is as fast"),
        claim("They train them faster than unit variance per layer (LSUV), in all that train.", "unit variance", 1.0,
              "1 is as fast"),
        claim("They train them as fast as batch norm (at most a tenth more loss), in all that train.", "batch norm",
              1.1, "a tenth more loss is as fast"),
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Any:
    """Above: mean training loss against depth. Below: dimension of the last features at the start."""
    figure, axes = subplots(3, 2)
    colors = dict(zip(STARTS, ("#d55e00", "#56b4e9", "#009e73", "black"), strict=True))
    depths = numbers["depths"]
    for i, family in enumerate(FAMILIES):
        for row, (key, label) in enumerate((("speed", f"mean train loss over {numbers['steps']} steps"),
                                            ("spread", "dimension of the last features at the start"))):  # fmt: skip
            ax = axes[3 * row + i]
            for start in STARTS:
                values = np.array([numbers["cells"][f"{family}|{depth}|{start}"][key] for depth in depths])
                ax.plot(depths, values.mean(1), "o-", ms=4, color=colors[start], label=start)
                ax.fill_between(depths, values.min(1), values.max(1), color=colors[start], alpha=0.15, lw=0)
            log_ticks(ax, depths)
            ax.set(title=family, xlabel="layers", ylabel=label, ylim=(0, None))
    axes[0].legend(frameon=False, fontsize=8)
    return figure


EXPERIMENT = Experiment(
    "Folds placed by data in deep networks of three kinds",
    run,
    draw,
    place="closing part, open questions: a start by data",
    revised=(1, 2, 3),
)
