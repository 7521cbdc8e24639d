"""Figure 5: the angle between points after many layers, with and without recentering."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from splinescope.representation import representation_geometry
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import digits
from splinescope_evidence.shared.figures import log_ticks, subplots
from splinescope_research import random_network
from splinescope_research.random_layers.expected_gram import arc_cosine

KINDS: dict[str, dict[str, Any]] = {
    "RC + RS": {"components": ("rc", "rs", "nl")},
    "RS by rms": {"components": ("rs", "nl"), "spread": "rms"},
    "RS by std": {"components": ("rs", "nl"), "spread": "std"},
}


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    batches, width, depth, seeds = ((10, 64), 300, 30, 1) if size == "quick" else ((9, 10, 32, 64, 256), 500, 30, 3)
    rows: list[dict[str, Any]] = []
    histograms: dict[str, Any] = {}
    work = [(kind, n, s) for kind in KINDS for n in batches for s in range(seeds)]
    for i, (kind, n, s) in enumerate(work):
        if progress is not None:
            progress(i / len(work), f"{kind}, batch of {n}")
        generator = torch.Generator().manual_seed(100 * seed + s)
        x = digits()[0] if s % 2 else torch.randn(n, 50, dtype=torch.float64, generator=generator)
        x = x[torch.randperm(len(x), generator=generator)[:n]]
        network = random_network(
            depth, width, in_features=x.shape[1], dtype=x.dtype, generator=generator, eps=0.0, **KINDS[kind]
        )
        last = representation_geometry(network, x, method="hooks", keep_gram=False)[-1]
        rows.append({"kind": kind, "n": n, "angle": last.mean_angle, "predicted": _recentered_angle(n)})
        histograms[f"{kind}, n = {n}"] = last.angle_counts
    with_rc = [r for r in rows if r["kind"] == "RC + RS"]
    rms = [r["angle"] for r in rows if r["kind"] == "RS by rms"]
    std = [r["angle"] for r in rows if r["kind"] == "RS by std"]
    error = max(abs(r["angle"] - r["predicted"]) for r in with_rc)
    stated = max(abs(r["angle"] - 75) for r in with_rc)
    return Outcome(
        {"rows": rows, "histograms": histograms, "depth": depth, "width": width},
        (
            judged(
                "With recentering, angles approach 75 degrees (Figure 5). Corrected: arccos J(-1/(n-1)), which is "
                "74.65 for a batch of 10 and 71.44 for a large one.",
                "; ".join(f"n={r['n']}: {r['angle']:.2f} (predicted {r['predicted']:.2f})" for r in with_rc),
                holds=[Check("angle minus 75, largest over n", stated, "<", 1.0, DEGREE)],
                corrected=[Check("angle minus arccos J(-1/(n-1)), largest", error, "<", 1.0, DEGREE)],
            ),
            judged(
                "Without recentering, angles approach 60 degrees (Figure 5). Corrected: if rescaling divides by the "
                "root mean square; by the standard deviation, as in equation (2), they are below 40 degrees.",
                f"rms: {', '.join(f'{a:.1f}' for a in rms)}; std: {', '.join(f'{a:.1f}' for a in std)} degrees",
                holds=[Check("std: angle minus 60, largest", max(abs(a - 60) for a in std), "<", 5.0, FLAT)],
                corrected=[
                    Check("rms: angle minus 60, largest", max(abs(a - 60) for a in rms), "<", 5.0, FLAT),
                    Check("std: largest angle", max(std), "<", 40.0, "far from 60 at every batch size"),
                ],
            ),
        ),
    )


DEGREE = "what a network of width 500 does to the mean angle"
FLAT = "the limit is 58.75, and seeds vary by 3"


def _recentered_angle(n: int) -> float:
    return float(np.degrees(np.arccos(arc_cosine(-1 / (n - 1)))))


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    rows = numbers["rows"]
    names = {kind: kind.replace("RC + RS", "recentered, rescaled").replace("RS by", "rescaled by") for kind in KINDS}
    for kind, marker in zip(KINDS, "osv", strict=True):
        chosen = [r for r in rows if r["kind"] == kind]
        left.semilogx([r["n"] for r in chosen], [r["angle"] for r in chosen], marker, label=names[kind])
    grid = np.unique([r["n"] for r in rows])
    left.semilogx(grid, [_recentered_angle(int(n)) for n in grid], color="0.5", linewidth=1, label="arccos J(-1/(n-1))")
    log_ticks(left, grid[1:])  # 9 and 10 would overlap
    left.set_xlabel("batch size")
    left.set_ylabel(f"mean angle at depth {numbers['depth']} (degrees)")
    left.set_ylim(0, 120)
    left.legend(loc="upper right")
    largest = max(r["n"] for r in rows)
    for kind in KINDS:
        counts = np.asarray(numbers["histograms"][f"{kind}, n = {largest}"], dtype=float)
        edges = np.linspace(0, 180, len(counts) + 1)
        right.stairs(counts / counts.sum(), edges, fill=True, alpha=0.5, label=names[kind])
    right.set_xlim(0, 160)
    right.set_xlabel("angle (degrees)")
    right.set_ylabel(f"share of pairs, n = {largest}")
    right.legend(loc="upper right")
    return figure


EXPERIMENT = Experiment(
    "Figure 5: angles with and without recentering", run, draw, place="Figure 5, with equation (2)", revised=(2,)
)
