"""Figure 1: rescaling alone makes the rows of a batch orthogonal."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from splinescope.representation import representation_geometry
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_research import random_network

KINDS: dict[str, dict[str, Any]] = {
    "linear": {"components": ()},
    "rescaling": {"components": ("rs",), "spread": "rms"},
    "rescaling by the deviation": {"components": ("rs",), "spread": "std"},
}
"""Rescaling divides by the root mean square of a unit over the batch, or by its standard deviation, as equation (2) of
the document has it."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    width, depth, seeds, n = (64, 20, 2, 8) if size == "quick" else (512, 60, 5, 8)
    gaps: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
    for i in range(seeds):
        for j, (kind, how) in enumerate(KINDS.items()):
            if progress is not None:
                progress((i * len(KINDS) + j) / (seeds * len(KINDS)), f"{kind}, seed {seed + i}")
            generator = torch.Generator().manual_seed(100 * seed + i)
            # nearly parallel inputs: the gap starts near its largest value
            x = 1.0 + 0.1 * torch.randn(n, 20, generator=generator, dtype=torch.float64)
            net = random_network(depth, width, in_features=20, dtype=x.dtype, generator=generator, eps=0.0, **how)
            places = representation_geometry(net, x, method="hooks", keep_gram=False)
            gaps[kind].append(places.series("orthogonality_gap"))
    ends = {kind: np.array([g[-1] for g in rows]) for kind, rows in gaps.items()}
    starts = np.array([g[0] for g in gaps["rescaling"]])
    fell, printed, kept = (ends[kind] / starts for kind in ("rescaling", "rescaling by the deviation", "linear"))
    floor = "the floor for this width is of order 1 / sqrt(width), some .05"
    stays = Check("least remaining share of the gap, linear", float(kept.min()), ">", 0.8, "nothing makes it fall")
    claims = (
        judged(
            "Figure 1: without a non-linearity, rescaling each unit over the batch makes the rows of a batch "
            "orthogonal with depth; without rescaling they stay as they are or collapse. Corrected: if it divides by "
            "the root mean square; equation (2) has the standard deviation.",
            f"orthogonality gap of {n} points, {seeds} networks of width {width}: {starts.mean():.2f} at the input, "
            f"{ends['rescaling'].min():.3f} to {ends['rescaling'].max():.3f} after {depth} layers with rescaling "
            f"by the root mean square, {ends['rescaling by the deviation'].min():.3f} to "
            f"{ends['rescaling by the deviation'].max():.3f} by the deviation, {ends['linear'].min():.2f} to "
            f"{ends['linear'].max():.2f} without",
            holds=[Check("largest remaining share of the gap, by the deviation", float(printed.max()), "<", 0.2, floor),
                   stays],
            corrected=[
                Check("largest remaining share of the gap, root mean square", float(fell.max()), "<", 0.2, floor),
                stays,
            ],
        ),
    )  # fmt: skip
    return Outcome({"gaps": {kind: [g.tolist() for g in rows] for kind, rows in gaps.items()}}, claims)


def draw(numbers: dict[str, Any]) -> Any:
    figure, (ax,) = subplots(1)
    for (kind, rows), color in zip(numbers["gaps"].items(), ("#d55e00", "#3b528b", "#009e73"), strict=True):
        for i, row in enumerate(rows):
            ax.semilogy(range(len(row)), row, color=color, alpha=0.7, label=kind if i == 0 else None)
    ax.set(xlabel="place in the network (0 = input)", ylabel="orthogonality gap")
    ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    "Figure 1: rescaling makes rows orthogonal", run, draw, place="Figure 1, with equation (2)", revised=(1,)
)
