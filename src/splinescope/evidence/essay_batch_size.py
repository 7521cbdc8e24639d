"""Margins and test accuracy against batch size: that of the statistics and that of the loss, apart and together."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..normalization import with_statistics
from ._experiment import Claim, Experiment, Outcome, Progress, Size
from ._figures import log_ticks, subplots
from ._intervals import interval
from ._normalization import measure_margins, moons_network, paired, seeded, train_moons, two_moons

QUANTITIES = {"smallest": "smallest margin", "mean": "mean margin", "accuracy": "test accuracy"}
PRIMARY = 16  # stated beforehand: an eighth of the data, the size that trial runs had least to say about
KINDS = {"both": "statistics and loss", "statistics": "statistics only", "loss": "loss only"}


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    n, width, steps, seeds = (48, 12, 30, 2) if size == "quick" else (128, 64, 1000, 10)
    sizes = (PRIMARY,) if size == "quick" else (4, PRIMARY, n // 2)
    arms = {("both", n): (n, n)}  # loss batch, statistics batch
    for batch in sizes:
        arms |= {("both", batch): (batch, batch), ("statistics", batch): (n, batch), ("loss", batch): (batch, n)}
    rows: dict[tuple[str, int], list[dict[str, float]]] = {arm: [] for arm in arms}
    for s in range(seed, seed + seeds):
        generator = torch.Generator().manual_seed(s)
        x, y = two_moons(n, 0.2, generator)
        test = two_moons(1000, 0.2, generator)
        for i, (arm, (loss_batch, statistics_batch)) in enumerate(arms.items()):
            if progress is not None:
                progress((s - seed + i / len(arms)) / seeds, f"seed {s}, {KINDS[arm[0]]} of {arm[1]}")
            net = seeded(lambda: moons_network(width), s).double()
            train_moons(net, x, y, steps, loss_batch, statistics_batch, torch.Generator().manual_seed(s))
            rows[arm].append(measure_margins(with_statistics(net, x), x, y, *test))
    gains: dict[str, dict[str, Any]] = {}
    for key in QUANTITIES:
        base = np.array([row[key] for row in rows["both", n]])
        gains[key] = {
            f"{kind} {batch}": (np.array([r[key] for r in rows[kind, batch]]) - base).tolist()
            for kind in KINDS
            for batch in sizes
        }
    return Outcome(
        {"sizes": sizes, "n": n, "gains": gains},
        (
            _claim(
                "Small batches generalise better than the full batch (essay, batch size).", "accuracy", gains, sizes
            ),
            _claim(
                "Small batches leave larger mean margins than the full batch (essay, batch size).", "mean", gains, sizes
            ),
            _claim(
                "Small batches leave larger smallest margins than the full batch (essay, batch size).",
                "smallest",
                gains,
                sizes,
            ),
            paired(
                "(Ours.) The statistics of small batches alone enlarge the mean margin too.",
                f"mean margin, statistics of {PRIMARY} and loss of all, minus the full batch",
                np.array(gains["mean"][f"statistics {PRIMARY}"]),
                f"; through the loss alone {np.mean(gains['mean'][f'loss {PRIMARY}']):+.4f}, both "
                f"{np.mean(gains['mean'][f'both {PRIMARY}']):+.4f}",
            ),
        ),
    )


def _claim(text: str, key: str, gains: dict[str, dict[str, Any]], sizes: tuple[int, ...]) -> Claim:
    """The primary size, of statistics and loss alike, against the full batch; the other arms are told."""
    told = []
    for kind, name in KINDS.items():
        for batch in sizes:
            if (kind, batch) != ("both", PRIMARY):
                low, high = interval(gains[key][f"{kind} {batch}"])
                told.append(f"{name} of {batch} {low:+.4f} to {high:+.4f}")
    what = f"{QUANTITIES[key]}, statistics and loss of {PRIMARY} minus the full batch"
    return paired(text, what, np.array(gains[key][f"both {PRIMARY}"]), f"; also, not judged: {', '.join(told)}")


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(3)
    for ax, (key, name) in zip(axes, QUANTITIES.items(), strict=True):
        for (kind, label), marker in zip(KINDS.items(), "osv", strict=True):
            values = np.array([numbers["gains"][key][f"{kind} {batch}"] for batch in numbers["sizes"]])
            error = values.std(1, ddof=1) / np.sqrt(values.shape[1])
            ax.errorbar(numbers["sizes"], values.mean(1), 2 * error, marker=marker, capsize=3, label=label)
        ax.axhline(0, color="0.6", linewidth=1)
        log_ticks(ax, numbers["sizes"])
        ax.set_xlabel("batch size")
        ax.set_ylabel(f"{name}, minus the full batch")
    axes[0].legend(frameon=False, fontsize="small", title="small batches for")
    return figure


EXPERIMENT = Experiment(
    "essay-batch-size",
    "essay",
    "Margins and generalisation against batch size",
    run,
    draw,
    place="the part on minibatches and batch size",
)
