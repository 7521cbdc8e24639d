"""An open question of the essay: spline geometry and curvature in very deep networks; does one tell the other?"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.normalization import with_statistics
from splinescope.research import depth_profile
from splinescope.research.depth_profile import DepthProfile, partial_rank_correlation
from splinescope_evidence.framework.experiment import Check, Claim, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import log_ticks, subplots
from splinescope_evidence.shared.intervals import interval

KINDS = ("plain", "batch norm", "skip", "both")
DEPTHS = (5, 7, 10, 13, 17, 22, 28, 36, 46, 60, 77, 100)
WIDTH, RADIUS = 24, 0.5
"""The radius is about half the spacing of digits."""

QUANTITIES = ("folds", "conditioning", "curvature", "spectral rank")
"""The last is the effective rank of the loss's spectrum, of which curvature is the largest eigenvalue."""

PAIRS = tuple(sorted(itertools.combinations(QUANTITIES, 2), key=lambda pair: QUANTITIES.index(pair[1]) > 2))

ASKED = (("networks", ("folds", "curvature")), ("layers", ("conditioning", "curvature")))
"""Over what, and which two quantities: those that the essay names."""

STATES = ("start", "trained")
WEAK = 0.3
"""Of a correlation below it: less than a tenth of the variance of ranks."""


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
        for i, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            bent = torch.relu(norm(layer(x)))
            x = x + bent if self.skip and i > 0 else bent
        scores: Tensor = self.out(x)
        return scores


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    depths, seeds, steps, points, width = ((3, 4, 5, 6), 2, 3, 6, 8) if size == "quick" else (DEPTHS, 8, 100, 30, WIDTH)
    x, y = digits()
    nets: dict[str, dict[str, list[list[list[float]]]]] = {k: {state: [] for state in STATES} for k in KINDS}
    deepest: dict[str, dict[str, list[dict[str, list[float]]]]] = {k: {state: [] for state in STATES} for k in KINDS}
    work = list(itertools.product(range(seeds), KINDS, depths))
    for i, (s, kind, depth) in enumerate(work):
        if progress is not None:
            progress(i / len(work), f"seed {s}, {kind}, depth {depth}")
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed + s))[:1000]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 * (seed + s) + depth)
            net = Stack(depth, width, kind)
        for state in STATES:
            if state == "trained":
                _train(net, x[order].float(), y[order], steps, torch.Generator().manual_seed(seed + s))
            layers = _layers(measured(net, x[order], y[order], points), depth)
            if depth == depths[0]:
                nets[kind][state].append([])
            nets[kind][state][-1].append([*(float(np.mean(layers[q])) for q in QUANTITIES[:2]), *layers["whole"]])
            if depth == depths[-1]:
                deepest[kind][state].append(layers)
    numbers = {"depths": depths, "steps": steps, "networks": nets, "layers": deepest}
    return Outcome(numbers, _claims(numbers))


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


def _layers(found: DepthProfile, depth: int) -> dict[str, list[float]]:
    """Per hidden layer: share of folds near the data, effective rank of the map to the outputs (condition numbers are
    infinite where ReLUs are off), digits of the largest eigenvalue and effective rank of its parameters' Gauss-Newton
    matrix; the last two of all layers together.
    """
    largest = np.log10(np.maximum([*found.largest[:depth], found.spectrum[0]], 1e-30))
    return {
        "folds": found.folds.tolist(),
        "conditioning": found.map_rank[:depth].tolist(),
        "curvature": largest[:-1].tolist(),
        "spectral rank": found.effective_rank[:depth].tolist(),
        "whole": [float(largest[-1]), found.spectral_rank],
    }


def _train(net: Stack, x: Tensor, y: Tensor, steps: int, generator: torch.Generator) -> None:
    """Adam at 1e-3, batches of 64, cross-entropy."""
    optimizer = torch.optim.Adam(net.train().parameters(), 1e-3)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()


def correlations(numbers: dict[str, Any], over: str, kind: str, state: str, pair: tuple[str, str]) -> list[float]:
    """`[seeds]` partial rank correlations: over networks given their depth, or over layers given their place."""
    if over == "networks":
        table = [dict(zip(QUANTITIES, np.array(rows).T, strict=True)) for rows in numbers["networks"][kind][state]]
    else:
        table = numbers["layers"][kind][state]
    return [
        partial_rank_correlation(columns[pair[0]], columns[pair[1]], np.arange(len(columns[pair[0]])))
        for columns in table
    ]


def _claims(numbers: dict[str, Any]) -> tuple[Claim, ...]:
    level = 1 - 0.05 / len(KINDS)
    claims = []
    for over, pair in ASKED:
        values = {kind: correlations(numbers, over, kind, "trained", pair) for kind in KINDS}
        start = {kind: correlations(numbers, over, kind, "start", pair) for kind in KINDS}
        ends = {kind: interval(v, level) for kind, v in values.items()}
        told = "; ".join(
            f"{kind} {np.mean(values[kind]):+.2f} ({ends[kind][0]:+.2f} to {ends[kind][1]:+.2f}), before training "
            f"{np.mean(start[kind]):+.2f}" for kind in KINDS
        )  # fmt: skip
        place = "networks of other depths, beyond depth" if over == "networks" else \
            f"the layers of networks of depth {numbers['depths'][-1]}, beyond their place"  # fmt: skip
        least, most = in_one_direction(list(ends.values()))
        claims.append(
            judged(
                f"{pair[0].capitalize()} and {pair[1]} tell each other after {numbers['steps']} steps of training, "
                f"alike in all four kinds (in one direction, by {WEAK:g} or more), in {place}. (Essay, very deep "
                f"networks: an open question.)",
                f"partial rank correlation, mean over {len(values['plain'])} seeds with intervals (5% shared by four "
                f"kinds): {told}",
                holds=[Check("lower end, least of the kinds, in the better direction", least, ">", WEAK,
                             "below it less than a tenth of the variance of ranks is told")],
                fails=[Check("upper end, least of the kinds, in the better direction", most, "<", WEAK,
                             "in either direction one kind is surely weak or goes the other way")],
            )
        )  # fmt: skip
    return tuple(claims)


def in_one_direction(ends: list[tuple[float, float]]) -> tuple[float, float]:
    """Least lower and least upper end of intervals, each in the direction in which it is larger."""
    turned = [(-high, -low) for low, high in ends]
    least, most = (max(min(e[i] for e in ends), min(e[i] for e in turned)) for i in (0, 1))
    return least, most


def draw(numbers: dict[str, Any]) -> Any:
    """First the quantities against depth, trained; then partial rank correlations of all seeds."""
    figure, axes = subplots(5, 2)
    colours = dict(zip(KINDS, ("#56b4e9", "#009e73", "#e6a000", "#d55e00"), strict=True))
    names = ("share of units with folds at the data", "effective rank of layers' maps",
             "log10 of the largest eigenvalue", "effective rank of the spectrum")  # fmt: skip
    depths = numbers["depths"]
    for i, name in enumerate(names):
        for kind in KINDS:
            values = np.array(numbers["networks"][kind]["trained"])[:, :, i]
            axes[i].plot(depths, values.mean(0), "o-", ms=3, color=colours[kind], label=kind)
            axes[i].fill_between(depths, values.min(0), values.max(0), color=colours[kind], alpha=0.15, lw=0)
        log_ticks(axes[i], depths[::2] if len(depths) > 6 else depths)
        axes[i].set(xlabel="layers", ylabel=name)
    axes[0].legend(frameon=False, fontsize=8)
    for ax, pair in zip(axes[4:], PAIRS, strict=True):
        for j, over in enumerate(("networks", "layers")):
            for k, kind in enumerate(KINDS):
                values = correlations(numbers, over, kind, "trained", pair)  # type: ignore[assignment]
                ax.plot(np.full(len(values), 5 * j + k), values, "o", ms=4, color=colours[kind], alpha=0.7)
        ax.axhline(0, color="0.6", lw=1)
        ax.set_xticks([1.5, 6.5], ["networks,\nbeyond depth", "layers,\nbeyond place"])
        ax.set(ylim=(-1.05, 1.05), ylabel="partial rank correlation", title=f"{pair[0]} and {pair[1]}")
    return figure


EXPERIMENT = Experiment(
    "Geometry and curvature in very deep networks",
    run,
    draw,
    place="closing part, open questions: very deep networks",
    revised=(1, 2),
)
