"""Batch norm in training: without gamma and beta, quicker to lower losses, along a smoother path."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.intervals import median_interval
from splinescope_evidence.shared.normalization import seeded

ARMS = ("gamma and beta learned", "neither", "no batch norm")
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    layers, steps, seeds, tuned = (3, 10, 2, 1) if size == "quick" else (6, 200, 32, 5)
    chosen: dict[str, float] = {}
    curves: dict[str, list[list[float]]] = {arm: [] for arm in ARMS}
    turns: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for arm in ARMS:
        tried = {
            rate: np.median([_trained(arm, layers, steps, rate, seed + 900 + s)[0][-1] for s in range(tuned)])
            for rate in RATES  # on seeds of their own
        }
        chosen[arm] = min(tried, key=lambda rate: tried[rate])
        for s in range(seeds):
            if progress is not None:
                progress((ARMS.index(arm) + s / seeds) / 3, arm)
            losses, turn = _trained(arm, layers, steps, chosen[arm], seed + s)
            curves[arm].append(losses)
            turns[arm].append(turn)
    last = {arm: np.array([losses[-1] for losses in curves[arm]]) for arm in ARMS}
    diverged = {arm: int(np.isinf(last[arm]).sum()) for arm in ARMS}
    affine, plain = _ratios(last[ARMS[0]], last[ARMS[1]]), _ratios(last[ARMS[2]], last[ARMS[0]])
    gains = median_interval(np.log2(affine))
    (low, high), (worse, most) = np.exp2(gains), median_interval(plain)
    smoother = np.array(turns[ARMS[0]]) - np.array(turns[ARMS[2]])
    down, up = median_interval(smoother)
    told = ", ".join(f"{arm} {np.median(last[arm]):.3g} at rate {chosen[arm]:g}" for arm in ARMS)
    return Outcome(
        {"curves": curves, "turns": turns, "rates": chosen},
        (
            judged(
                "Learning gamma and beta makes little difference: none at the start, and less than a factor of two in "
                "the loss.",
                f"training loss after {steps} steps, {layers} layers on digits, {seeds} seeds, medians, each at its "
                f"best of {len(RATES)} rates: {told}; learned over neither {np.median(affine):.2f}, 95% interval "
                f"{low:.2f} to {high:.2f}",
                holds=[
                    Check("lower end of the 95% interval: learned over neither", low, ">", 0.5, "a factor of two"),
                    Check("upper end of the 95% interval: learned over neither", high, "<", 2.0, "a factor of two"),
                ],
                fails=[Check("interval of |log2|: its distance from 0", max(gains[0], -gains[1]), ">", 1.0,
                             "a factor of two")],
            ),
            judged(
                "Batch norm finds lower losses in as many steps.",
                f"loss without batch norm over that with it, median: {np.median(plain):.3g}, 95% interval {worse:.3g} "
                f"to {most:.3g}, {seeds} seeds; He weights, each at its best rate; diverged, which counts as the "
                f"largest loss: {diverged[ARMS[2]]} without, {diverged[ARMS[0]]} with",
                holds=[Check("lower end of the 95% interval: without over with", worse, ">", 1.0, "1 is no gain")],
                fails=[Check("upper end of the 95% interval: without over with", most, "<", 1.0, "1 is no gain")],
            ),
            judged(
                "Batch norm smooths the loss along the path of training (the narrative that the essay quotes): the "
                "gradient keeps its direction better from step to step.",
                f"cosine of the gradients before and after a step, mean over the path, median over seeds: "
                f"{np.median(turns[ARMS[0]]):.3f} with batch norm, {np.median(turns[ARMS[2]]):.3f} without; difference "
                f"{np.median(smoother):+.3f}, 95% interval {down:+.3f} to {up:+.3f}, {seeds} seeds",
                holds=[Check("lower end of the 95% interval: difference of cosines", down, ">", 0.0, "0 is no effect")],
                fails=[Check("upper end of the 95% interval: difference of cosines", up, "<", 0.0, "0 is no effect")],
            ),
        ),
    )  # fmt: skip


def _ratios(over: np.ndarray, under: np.ndarray) -> np.ndarray:
    """Ratios of losses, seed by seed; 1 where both diverged."""
    both = np.isinf(over) & np.isinf(under)
    return np.divide(over, under, out=np.ones_like(over), where=~both)


def _network(arm: str, layers: int) -> nn.Sequential:
    """64-64-...-10 with He weights; batch norm before each ReLU or none."""
    parts: list[nn.Module] = []
    for _ in range(layers):
        linear = nn.Linear(64, 64)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        nn.init.zeros_(linear.bias)
        parts.append(linear)
        if arm != "no batch norm":
            parts.append(nn.BatchNorm1d(64, affine=arm == "gamma and beta learned"))
        parts.append(nn.ReLU())
    return nn.Sequential(*parts, nn.Linear(64, 10))


def _trained(arm: str, layers: int, steps: int, rate: float, seed: int) -> tuple[list[float], float]:
    """Losses on the 500 training digits, and the mean cosine of successive gradients on them (every fourth step).

    From where training diverges, losses are infinite; its cosine is then -1, the least there is.
    """
    generator = torch.Generator().manual_seed(seed)
    x, y = digits()
    order = torch.randperm(len(x), generator=generator)[:500]
    x, y = x[order].float(), y[order]
    net = seeded(lambda: _network(arm, layers), seed)
    optimizer = torch.optim.SGD(net.parameters(), rate)
    losses: list[float] = []
    turns: list[float] = []
    for step in range(steps):
        rows = torch.randperm(len(x), generator=generator)[:100]
        before = _gradient(net, x, y)[1] if step % 4 == 0 else None
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()
        if before is not None:
            loss, after = _gradient(net, x, y)
            if not (np.isfinite(loss) and torch.isfinite(after).all()):
                return losses + [np.inf] * (len(range(0, steps, 4)) - len(losses)), -1.0
            losses.append(loss)
            turns.append(float(nn.functional.cosine_similarity(before, after, dim=0)))
    return losses, float(np.mean(turns))


def _gradient(net: nn.Module, x: Tensor, y: Tensor) -> tuple[float, Tensor]:
    loss = nn.functional.cross_entropy(net(x), y)
    found = torch.autograd.grad(loss, list(net.parameters()))
    return float(loss.detach()), torch.cat([part.flatten() for part in found])


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    for place, (arm, color) in enumerate(zip(ARMS, ("#0072b2", "#e69f00", "#d55e00"), strict=True)):
        table = np.array(numbers["curves"][arm])
        steps = 4 * np.arange(table.shape[1]) + 1
        left.semilogy(steps, np.median(table, 0), color=color, label=arm)
        left.fill_between(
            steps, *np.quantile(np.where(np.isfinite(table), table, 1e3), (0.1, 0.9), 0), color=color, alpha=0.15
        )
        right.plot([place] * len(numbers["turns"][arm]), numbers["turns"][arm], "o", color=color, alpha=0.6)
    left.set(xlabel="step", ylabel="training loss")
    left.legend(frameon=False)
    right.set_xticks(range(3), [arm.replace(" learned", "") for arm in ARMS])
    right.set(ylabel="cosine of gradients before and after a step", xlim=(-0.5, 2.5))
    return figure


EXPERIMENT = Experiment(
    "Batch norm in training: gamma and beta, speed, smoothness",
    run,
    draw,
    place="the part on batch norm, with footnote 2; the essay's account of other explanations",
    revised=(1, 2, 3),
)
