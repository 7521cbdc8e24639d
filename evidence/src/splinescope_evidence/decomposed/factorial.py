"""Which part of batch norm makes it train: recentering, rescaling and non-linearity on and off."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_research import random_network

PARTS = {"rc": "recentering", "rs": "rescaling", "nl": "ReLU"}
ARMS = ["+".join(part for part, on in zip(PARTS, chosen, strict=True) if on) or "none"
        for chosen in product((False, True), repeat=3)]  # fmt: skip
RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    depth, steps, seeds, linear = (3, 5, 2, 1) if size == "quick" else (10, 150, 250, 5)
    losses: dict[str, list[float]] = {}
    chosen: dict[str, float] = {}
    for number, arm in enumerate(ARMS):
        if progress is not None:
            progress(number / len(ARMS), arm)
        tried = {rate: _trained(arm, depth, steps // 2, rate, seed + 900) for rate in RATES}  # on a seed of its own
        chosen[arm] = min(tried, key=lambda rate, tried=tried: tried[rate])  # type: ignore[misc]
        several = range(seeds if "nl" in arm else linear)  # only networks with ReLU are judged
        losses[arm] = [_trained(arm, depth, steps, chosen[arm], seed + s) for s in several]
    logs = {arm: np.log10(values) for arm, values in losses.items()}
    told = ", ".join(f"{arm} {10 ** logs[arm].mean():.2g}" for arm in ARMS)

    def effect(part: str, name: str) -> Claim:
        """Mean change of the log loss of ReLU networks when a part is switched on, with the other one off and on."""
        pairs = [("nl", f"{part}+nl"), ("rs+nl" if part == "rc" else "rc+nl", "rc+rs+nl")]
        change = np.mean([logs[on] - logs[off] for off, on in pairs], axis=0)
        apart = [float((logs[on] - logs[off]).mean()) for off, on in pairs]
        low, high = interval(change)
        return judged(
            f"In ReLU networks {name} is a part that makes batch norm train: it lowers the training loss.",
            f"log10 of the training loss changes by {change.mean():+.2f} with {name}, 95% interval {low:+.2f} to "
            f"{high:+.2f}, {seeds} seeds ({apart[0]:+.2f} alone, {apart[1]:+.2f} beside the other); mean losses after "
            f"{steps} steps, {depth} layers on digits, each at its best of {len(RATES)} rates ({linear} seeds "
            f"without nl): {told}",
            holds=[Check(f"upper end of the 95% interval: {name}", high, "<", 0.0, "0 is no effect")],
            fails=[Check(f"lower end of the 95% interval: {name}", low, ">", 0.0, "0 is no effect")],
        )

    return Outcome({"losses": losses, "rates": chosen}, (effect("rc", "recentering"), effect("rs", "rescaling")))


def _trained(arm: str, depth: int, steps: int, rate: float, seed: int) -> float:
    """Loss on 500 training digits behind SGD from He weights; a network that diverges has that of the start."""
    generator = torch.Generator().manual_seed(seed)
    x, y = digits()
    order = torch.randperm(len(x), generator=generator)[:500]
    x, y = x[order].float(), y[order]
    parts = () if arm == "none" else tuple(arm.split("+"))
    net = random_network(depth, 64, in_features=64, out_features=10, components=parts, generator=generator)
    optimizer = torch.optim.SGD(net.parameters(), rate)
    for _ in range(steps):
        rows = torch.randperm(len(x), generator=generator)[:100]
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        loss = float(nn.functional.cross_entropy(net(x), y))
    return loss if np.isfinite(loss) and loss < np.log(10) else float(np.log(10))


def draw(numbers: dict[str, Any]) -> Any:
    figure, (ax,) = subplots(1)
    for place, arm in enumerate(ARMS):
        color = "#d55e00" if "nl" in arm else "#0072b2"
        values = numbers["losses"][arm]
        spread = np.linspace(-0.3, 0.3, len(values))
        ax.semilogy(place + spread, values, ".", color=color, alpha=0.35, markersize=4)
        ax.semilogy(place, np.exp(np.log(values).mean()), "_", color="black", markersize=26, markeredgewidth=2)
    ax.set_xticks(range(len(ARMS)), [arm.replace("+", "\n") for arm in ARMS])
    ax.set(xlabel="parts: rc recentering, rs rescaling, nl ReLU", ylabel="training loss, best rate")
    return figure


EXPERIMENT = Experiment(
    "Which part of batch norm makes it train: a factorial",
    run,
    draw,
    place="closing section, discussion: what makes batch norm succeed",
)
