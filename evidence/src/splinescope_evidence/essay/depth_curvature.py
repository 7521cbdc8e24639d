"""An open question of the essay: spline geometry and curvature in the training of very deep networks."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor, nn

from splinescope.normalization import with_statistics
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.framework.parts import part
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import log_ticks, subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_research import depth_profile
from splinescope_research.folds.depth_profile import DepthProfile, partial_rank_correlation

KINDS = ("plain", "batch norm", "skip", "both")
DEPTHS = (5, 7, 10, 13, 17, 22, 28, 36, 46, 60, 77, 100)
WIDTH, RADIUS = 24, 0.5
"""The radius is about half the spacing of digits."""

QUANTITIES = ("folds", "conditioning", "curvature")
"""Shares of units with folds at the data, effective ranks of the layers' maps to the outputs (condition numbers are
infinite where ReLUs are off), means over layers; digits of the largest eigenvalue of the Gauss-Newton matrix."""

STATES = ("start", "trained")
WEAK, STRONG = 0.3, 0.6
"""Correlations: below the first less than a tenth of the variance of ranks is explained; with the second, a third."""


class Stack(nn.Module):
    """`depth` layers of one width with ReLU; batch norm before it, a skip connection around both, or neither."""

    def __init__(self, depth: int, width: int, kind: str) -> None:
        super().__init__()
        self.skip = kind in ("skip", "both")
        self.layers = nn.ModuleList(nn.Linear(64 if i == 0 else width, width) for i in range(depth))
        normed = kind in ("batch norm", "both")
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) if normed else nn.Identity() for _ in range(depth))
        self.out = nn.Linear(width, 10)
        for i, layer in enumerate(self.layers):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
            if self.skip and i > 0:  # or the sums would grow without bound
                with torch.no_grad():
                    layer.weight.mul_(depth**-0.5)  # type: ignore[operator]

    def forward(self, x: Tensor) -> Tensor:
        for i, (layer, normed) in enumerate(zip(self.layers, self.norms, strict=True)):
            bent = torch.relu(normed(layer(x)))
            x = x + bent if self.skip and i > 0 else bent
        scores: Tensor = self.out(x)
        return scores


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    depths, seeds, steps, points, width = ((3, 4, 5, 6), 2, 3, 6, 8) if size == "quick" else (DEPTHS, 8, 100, 30, WIDTH)
    found = []
    for s in range(seeds):
        if progress is not None:
            progress(s / seeds, f"seed {s + 1} of {seeds}")
        found.append(part(f"seed {s}", partial(_of_seed, seed + s, depths, steps, points, width)))
    numbers = {"depths": depths, "steps": steps, "seeds": found}
    return Outcome(numbers, _claims(numbers))


def _of_seed(seed: int, depths: tuple[int, ...], steps: int, points: int, width: int) -> dict[str, Any]:
    """By kind, `[depths]` each quantity at the start and trained, and the loss on the training set in the end."""
    x, y = digits()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:1000]
    table: dict[str, Any] = {kind: {**{state: [] for state in STATES}, "loss": []} for kind in KINDS}
    for kind, depth in itertools.product(KINDS, depths):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 * seed + depth)
            net = Stack(depth, width, kind)
        for state in STATES:
            if state == "trained":
                _train(net, x[order].float(), y[order], steps, torch.Generator().manual_seed(seed))
            profile = measured(net, x[order], y[order], points)
            largest = float(np.log10(max(profile.spectrum[0], 1e-30)))
            ranks = float(np.mean(profile.map_rank[:depth]))
            table[kind][state].append([float(np.mean(profile.folds)), ranks, largest])
        with torch.no_grad():  # as trained: with the statistics of what is put in
            table[kind]["loss"].append(float(nn.functional.cross_entropy(net(x[order].float()), y[order])))
    return table


def measured(net: Stack, x: Tensor, y: Tensor, points: int) -> DepthProfile:
    """Its profile on some of the data, in float64, with the statistics of all of it where it has batch norm."""
    wide = Stack(len(net.layers), net.out.in_features, "both" if net.skip else "batch norm").double()
    normed = any(isinstance(norm, nn.BatchNorm1d) for norm in net.norms)
    if normed:
        wide.load_state_dict(net.state_dict())
        wide = with_statistics(wide, x)  # type: ignore[assignment]
    else:
        wide.norms = nn.ModuleList(nn.Identity() for _ in net.layers)
        wide.load_state_dict(net.state_dict())
    return depth_profile(wide.eval(), x[:points], y[:points], loss="cross_entropy", radius=RADIUS)


def _train(net: Stack, x: Tensor, y: Tensor, steps: int, generator: torch.Generator) -> None:
    """Adam at 1e-3, batches of 64, cross-entropy."""
    optimizer = torch.optim.Adam(net.train().parameters(), 1e-3)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()


def correlations(numbers: dict[str, Any], kind: str, asked: str) -> list[float]:
    """`[seeds]` partial rank correlations over networks of a kind, beyond their depth.

    Either of the changes of folds and curvature in training, or of folds at the start with the loss in the end.
    """
    values = []
    for of_seed in numbers["seeds"]:
        start, trained = (np.array(of_seed[kind][state]) for state in STATES)
        change = trained - start
        first = change if asked == "changes" else start
        second = change[:, 2] if asked == "changes" else np.array(of_seed[kind]["loss"])
        values.append(partial_rank_correlation(first[:, 0], second, np.arange(len(change))))
    return values


def _claims(numbers: dict[str, Any]) -> tuple[Claim, ...]:
    texts = {
        "changes": "Folds at the data and curvature change together in training",
        "start": "Folds at the data at the start predict the loss after training",
    }
    return tuple(_claim(numbers, asked, text) for asked, text in texts.items())


def _claim(numbers: dict[str, Any], asked: str, text: str) -> Claim:
    """By the mean over kinds, one number a seed."""
    by_kind = np.array([correlations(numbers, kind, asked) for kind in KINDS])
    mean = by_kind.mean(0)
    low, high = interval(mean)
    nearer, further = max(low, -high), max(abs(low), abs(high))
    reach, error = (high - low) / 2, mean.std(ddof=1) / np.sqrt(len(mean))
    strong, none = (norm.cdf((STRONG - WEAK - reach) / error), 2 * norm.cdf((WEAK - reach) / error) - 1)
    told = ", ".join(f"{kind} {v.mean():+.2f}" for kind, v in zip(KINDS, by_kind, strict=True))
    return judged(
        f"{text}, beyond depth, in networks of {numbers['depths'][0]} to {numbers['depths'][-1]} layers. (Essay, very "
        f"deep networks: an open question.)",
        f"partial rank correlation over {len(numbers['depths'])} depths, {numbers['steps']} steps, mean over four "
        f"kinds {mean.mean():+.2f}, 95% interval {low:+.2f} to {high:+.2f}, {len(mean)} seeds; {told}; with this "
        f"spread a true {STRONG:g} would hold in {strong:.0%} of such runs and a true 0 be refuted in {none:.0%}",
        holds=[Check("size of the correlation: nearer end of the 95% interval", nearer, ">", WEAK,
                     "below it less than a tenth of the variance of ranks is explained")],
        fails=[Check("size of the correlation: further end of the 95% interval", further, "<", WEAK,
                     "less than a tenth of the variance of ranks is explained")],
    )  # fmt: skip


def draw(numbers: dict[str, Any]) -> Any:
    """Curvature against depth at the start and trained; then correlations of all seeds by kind."""
    figure, (curvature, *asked) = subplots(3)
    colors = dict(zip(KINDS, ("#56b4e9", "#009e73", "#e6a000", "#d55e00"), strict=True))
    depths = numbers["depths"]
    for kind in KINDS:
        for state, style in zip(STATES, (":", "-"), strict=True):
            values = np.array([of_seed[kind][state] for of_seed in numbers["seeds"]])[:, :, 2]
            label = kind if state == "trained" else None
            curvature.plot(depths, values.mean(0), style, color=colors[kind], label=label)
    curvature.plot([], [], ":", color="0.4", label="before training")
    log_ticks(curvature, depths[::2] if len(depths) > 6 else depths)
    curvature.set(xlabel="layers", ylabel="log10 of the largest eigenvalue")
    curvature.legend(frameon=False, fontsize=8)
    titles = ("changes of folds and of curvature", "folds at the start and loss at the end")
    for ax, name, title in zip(asked, ("changes", "start"), titles, strict=True):
        by_kind = np.array([correlations(numbers, kind, name) for kind in KINDS])
        for place, (kind, values) in enumerate(zip(KINDS, by_kind, strict=True)):
            ax.plot(np.full(len(values), place), values, "o", ms=4, color=colors[kind], alpha=0.7)
        low, high = interval(by_kind.mean(0))
        ax.errorbar(len(KINDS), (low + high) / 2, (high - low) / 2, fmt="o", color="black", capsize=4)
        ax.axhspan(-WEAK, WEAK, color="0.93", lw=0, zorder=0)
        ax.axhline(0, color="0.6", lw=1)
        ax.set_xticks(range(len(KINDS) + 1), [*KINDS, "mean"])
        ax.set(ylim=(-1.05, 1.05), ylabel="partial rank correlation", title=title)
    return figure


EXPERIMENT = Experiment(
    "Geometry and curvature in very deep networks",
    run,
    draw,
    place="closing part, open questions: very deep networks",
    revised=(1, 2),
)
