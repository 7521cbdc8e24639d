"""Minibatch statistics make folds and boundaries jitter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope.normalization import with_statistics
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import log_ticks, subplots
from splinescope_evidence.shared.intervals import interval
from splinescope_evidence.shared.normalization import seeded, two_moons
from splinescope_evidence.shared.words import span
from splinescope_research import fold_jitter
from splinescope_research.normalization.jitter import minibatch_networks

SIZES = (8, 16, 32, 64, 128)
BEHIND_RELU = math.sqrt((1 / 4 - 3 / (4 * math.pi)) / (1 / 2 - 1 / (2 * math.pi)))
"""Of the first layer's law, what is left behind a batch-normalized ReLU layer of independent Gaussian units: the norm
takes the first two Hermite components of the ReLU out of a batch's mean."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    draws, moved, units, seeds, sizes = (60, 12, 16, 2, SIZES[::2]) if size == "quick" else (2000, 200, 64, 5, SIZES)
    axis = torch.linspace(-2, 3, 60, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    ratios, deeper, flips = (np.zeros((seeds, len(sizes))) for _ in range(3))
    for s in range(seeds):
        generator = torch.Generator().manual_seed(seed + s)
        x, _ = two_moons(256, 0.1, generator)
        net = _network(2, units, seed + s)
        with torch.no_grad():
            classes = with_statistics(net, x)(grid).argmax(1)
            for i, batch_size in enumerate(sizes):
                if progress is not None:
                    progress((s + i / len(sizes)) / (seeds + 1), f"network {s + 1}, batches of {batch_size}")
                first, second = fold_jitter(net, x, batch_size, draws=draws, generator=generator)
                ratios[s, i] = (first.measured / first.predicted).mean()
                deeper[s, i] = (second.measured / second.predicted).mean()
                networks = minibatch_networks(net, x, batch_size, moved, generator=generator)
                flips[s, i] = np.mean([float((m(grid).argmax(1) != classes).double().mean()) for m in networks])
    if progress is not None:
        progress(seeds / (seeds + 1), "independent Gaussian units")
    batches, left = _behind_relu(size, seed, seeds)
    numbers = {"sizes": sizes, "ratios": ratios, "deeper": deeper, "flips": flips, "rows": 256,
               "gaussian": {"sizes": batches, "left": left}}  # fmt: skip
    slopes = np.polyfit(np.log(sizes), np.log(flips.T), 1)[0]
    low, high = interval(slopes)
    intervals = [interval(column) for column in left.T]
    return Outcome(
        numbers,
        (
            judged(
                "The offset of a fold in the first layer spreads over minibatches by the rms distance of the data over "
                "sqrt(B), times sqrt((N-B)/(N-1)) (essay, on minibatches: folds jitter; ours as a law).",
                f"measured / predicted, mean of {seeds} networks: " + _by_size(sizes, ratios),
                holds=[Check("further end of an interval over networks from 1 (5% shared), largest over batch sizes",
                             _farther_end(ratios), "<", 0.05,
                             "an identity in expectation; the draws estimate it to 2% a network")],
                fails=[Check("nearer end of an interval over networks to 1 (5% shared), largest over batch sizes",
                             _nearer_end(ratios), ">", 0.05, "significantly off at one size")],
            ),
            judged(
                "Smaller batches move the decision boundary more (essay, on minibatches: jitter of the boundary).",
                f"share of a grid that changes class, {moved} draws a size, mean of {seeds} untrained networks: "
                f"{_by_size(sizes, flips)}; slope of its logarithm over that of B {slopes.mean():.2f} "
                f"(95%: {low:.2f} to {high:.2f})",
                holds=[Check("upper end of the slope's 95% interval over networks", high, "<", 0.0,
                             "the boundary moves less the larger the batch, beyond what networks differ by")],
                fails=[Check("lower end of the slope's 95% interval over networks", low, ">", -0.1,
                             "from 8 to 128 points the share falls by less than a quarter"),
                       Check("upper end of the slope's 95% interval over networks", high, ">", 0.0,
                             "the fall is not significant")],
            ),
            judged(
                "(Ours.) Behind a normalized layer, folds jitter by what the norm leaves of each row's influence "
                "(first order in 1/B).",
                f"measured / predicted in the second layer, mean of {seeds} networks: " + _by_size(sizes, deeper),
                holds=[Check("further end of an interval over networks from 1 (5% shared), largest over "
                             f"B >= {sizes[1]}", _farther_end(deeper[:, 1:]), "<", 0.08,
                             "terms of order 1/B are left out: 1/16, and a quarter of that for the draws' error")],
                fails=[Check(f"nearer end of an interval over networks to 1 (5% shared), largest over B >= {sizes[1]}",
                             _nearer_end(deeper[:, 1:]), ">", 0.08, "significantly off at one size")],
            ),
            judged(
                f"(Ours.) For independent Gaussian units and ReLU that is {BEHIND_RELU:.4f} of the first layer's law.",
                ", ".join(
                    f"B={b} {column.mean():.4f} ({low:.4f} to {high:.4f})"
                    for b, column, (low, high) in zip(batches, left.T, intervals, strict=True)
                )
                + f", 95% intervals over {seeds} networks",
                holds=[Check(f"share left at B = {batches[-1]} over the closed form: further end of its 95% interval "
                             "over networks from 1", _farther_end(left[:, -1:] / BEHIND_RELU), "<", 0.03,
                             "terms of order 1/B and the draws' error")],
                fails=[Check("nearer end of its 95% interval over networks to 1",
                             _nearer_end(left[:, -1:] / BEHIND_RELU), ">", 0.03, "significantly off")],
            ),
        ),
    )  # fmt: skip


def _network(inputs: int, units: int, seed: int) -> nn.Sequential:
    return seeded(
        lambda: nn.Sequential(
            *(nn.Linear(inputs, units), nn.BatchNorm1d(units), nn.ReLU()),
            *(nn.Linear(units, units), nn.BatchNorm1d(units), nn.ReLU(), nn.Linear(units, 2)),
        ),
        seed,
    ).double()


def _behind_relu(size: Size, seed: int, seeds: int) -> tuple[tuple[int, ...], np.ndarray]:
    """Spread of the second norm's offsets over the first layer's law, `[networks, batch sizes]`."""
    batches, rows, units, draws = ((16, 64), 1000, 30, 40) if size == "quick" else ((16, 64, 256), 20_000, 100, 400)
    left = np.zeros((seeds, len(batches)))
    for s in range(seeds):
        generator = torch.Generator().manual_seed(1000 + seed + s)
        x = torch.randn(rows, units, generator=generator, dtype=torch.float64)
        net = nn.Sequential(nn.BatchNorm1d(units), nn.ReLU(), nn.Linear(units, 20), nn.BatchNorm1d(20)).double()
        with torch.no_grad():
            layer = net[2]
            assert isinstance(layer, nn.Linear)
            layer.weight.normal_(generator=generator)
        for i, batch in enumerate(batches):
            second = fold_jitter(net, x, batch, draws=draws, generator=generator)[1]
            law = second.deviation * math.sqrt((rows - batch) / ((rows - 1) * batch))
            left[s, i] = float(np.sqrt(np.mean((second.measured / law) ** 2)))
    return batches, left


def _nearer_end(ratios: np.ndarray) -> float:
    """How far from 1 the nearer end of the interval over networks lies, largest over columns that share 5%; negative
    where all hold 1."""
    ends = [interval(column, 1 - 0.05 / ratios.shape[1]) for column in ratios.T]
    return max(max(low - 1, 1 - high) for low, high in ends)


def _farther_end(ratios: np.ndarray) -> float:
    """How far from 1 the further end of that interval lies, largest over columns."""
    ends = [interval(column, 1 - 0.05 / ratios.shape[1]) for column in ratios.T]
    return max(max(high - 1, 1 - low) for low, high in ends)


def _by_size(sizes: tuple[int, ...], values: np.ndarray) -> str:
    return ", ".join(f"B={b} {column.mean():.3f} ({span(column)})" for b, column in zip(sizes, values.T, strict=True))


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, middle, right) = subplots(3)
    sizes = np.array(numbers["sizes"])
    for name, marker in (("ratios", "o"), ("deeper", "s")):
        values = np.array(numbers[name])
        label = "first layer" if name == "ratios" else "second layer"
        left.plot(sizes, values.T, marker, ms=4, alpha=0.5, color="#0072b2" if name == "ratios" else "#d55e00")
        left.plot([], [], marker, color="#0072b2" if name == "ratios" else "#d55e00", label=label)
    left.axhline(1, color="0.6", linewidth=1)
    left.set_ylabel("rms offset, measured / predicted")
    left.legend(frameon=False)
    middle.plot(sizes, np.array(numbers["flips"]).T, "o-", color="#3b528b", alpha=0.6)
    middle.set_ylabel("share of the plane that changes class")
    right.plot(numbers["gaussian"]["sizes"], np.array(numbers["gaussian"]["left"]).T, "o", color="#3b528b", alpha=0.6)
    right.axhline(BEHIND_RELU, color="#d55e00", label=f"closed form, {BEHIND_RELU:.4f}")
    right.set_ylabel("rms offset over the first layer's")
    right.legend(frameon=False)
    for ax, ticks in ((left, sizes), (middle, sizes), (right, numbers["gaussian"]["sizes"])):
        log_ticks(ax, ticks)
        ax.set_xlabel("batch size")
    middle.set_ylim(bottom=0)
    return figure


EXPERIMENT = Experiment(
    "Minibatch statistics make folds jitter",
    run,
    draw,
    place="the part on minibatches: jitter of folds and of the decision boundary",
    revised=(1, 2, 3, 4),
)
