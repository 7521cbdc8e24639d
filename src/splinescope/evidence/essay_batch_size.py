"""Margins and test accuracy against the batch size that batch norm's statistics come from, over seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..normalization import with_statistics
from ._decomposed import log_ticks, subplots
from ._experiment import Claim, Experiment, Outcome, Progress, Size
from ._normalization import CRITERION, measure_margins, moons_network, paired_verdict, seeded, train_moons, two_moons

QUANTITIES = {"smallest": "smallest margin", "mean": "mean margin", "accuracy": "test accuracy"}


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    sizes, n, width, steps, seeds = (
        ((4, 16, 60), 60, 24, 120, 3) if size == "quick" else ((4, 8, 16, 32, 64, 128), 128, 64, 1500, 10)
    )
    rows: list[list[dict[str, float]]] = []  # by seed, then by batch size
    for s in range(seed, seed + seeds):
        if progress is not None:
            progress((s - seed) / seeds, f"seed {s}")
        generator = torch.Generator().manual_seed(s)
        x, y = two_moons(n, 0.2, generator)
        test = two_moons(1000, 0.2, generator)
        rows.append([])
        for batch_size in sizes:
            net = seeded(lambda: moons_network(width), s).double()
            train_moons(net, x, y, steps, batch_size, True, torch.Generator().manual_seed(s))
            rows[-1].append(measure_margins(with_statistics(net, x), x, y, *test))
    table = {key: np.array([[row[key] for row in by_size] for by_size in rows]) for key in QUANTITIES}
    return Outcome(
        {"sizes": sizes, "n": n, **{key: values.tolist() for key, values in table.items()}},
        (
            _claim("Small batches generalise better than the full batch.", "accuracy", table, sizes),
            _claim("Small batches leave larger mean margins than the full batch.", "mean", table, sizes),
            _claim("Small batches leave larger smallest margins than the full batch.", "smallest", table, sizes),
        ),
    )


def _claim(text: str, key: str, table: dict[str, np.ndarray], sizes: tuple[int, ...]) -> Claim:
    """Every smaller size against the full batch, paired by seed."""
    gains = table[key][:, :-1] - table[key][:, -1:]
    means, errors = gains.mean(0), gains.std(0, ddof=1) / np.sqrt(len(gains))
    verdict, p = paired_verdict(gains)
    told = ", ".join(
        f"B={b} {m:+.4f} +- {e:.4f} (p={q:.2g})" for b, m, e, q in zip(sizes[:-1], means, errors, p, strict=True)
    )
    measured = f"{QUANTITIES[key]} minus that of B={sizes[-1]}: {told}; {len(gains)} paired seeds"
    return Claim(text, verdict, measured, CRITERION)


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(3)
    for ax, (key, name) in zip(axes, QUANTITIES.items(), strict=True):
        values = np.array(numbers[key])
        ax.plot(numbers["sizes"], values.T, color="#3b528b", alpha=0.3, linewidth=0.8)
        ax.plot(numbers["sizes"], values.mean(0), "o-", color="#d55e00", label="mean of seeds")
        log_ticks(ax, numbers["sizes"])
        ax.set_xlabel("batch size")
        ax.set_ylabel(name)
    axes[0].legend(frameon=False)
    return figure


EXPERIMENT = Experiment("essay-batch-size", "essay", "Margins and generalisation against batch size", run, draw)
