"""Corollary 4: with recentering, the hypothesis of Theorem 3 is about the centered points."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import circle
from splinescope_evidence.shared.figures import subplots
from splinescope_research import full_rank_width


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    weights = torch.Generator().manual_seed(seed)
    draws = 1000 if size == "quick" else 20000
    x = circle(5)
    shifted = full_rank_width(x + np.array([7.0, -3.0]), recenter=True, draws=draws, generator=weights)
    centered = full_rank_width(x, draws=draws, generator=weights)
    line = np.stack([np.arange(4.0), np.ones(4)], axis=1)  # no two collinear, but all on one line
    plain = full_rank_width(line, draws=20, limit=2000, generator=weights)
    recentered = full_rank_width(line, recenter=True, draws=20, limit=2000, generator=weights)
    error = float(np.hypot(shifted.standard_error, centered.standard_error))
    return Outcome(
        {
            "shifted_recentered": shifted.widths,
            "centered_plain": centered.widths,
            "line_plain_reached": plain.reached,
            "line_recentered_reached": recentered.reached,
        },
        (
            judged(
                "A recentering layer reaches full rank if no two points are collinear (Corollary 4). Corrected: if no "
                "two centered points are.",
                f"mean width {shifted.mean:.2f} on the shifted pentagon with recentering, {centered.mean:.2f} on the "
                f"centered one without (standard error {error:.2f}); four non-collinear points on a line: full rank in "
                f"{plain.reached:.0%} of draws without recentering, {recentered.reached:.0%} with",
                holds=[
                    Check(
                        "share of full rank, points on a line, recentered",
                        recentered.reached,
                        ">",
                        0.999,
                        "as stated: no two of these points are collinear",
                    )
                ],
                corrected=[
                    Check(
                        "means apart, in standard errors",
                        abs(shifted.mean - centered.mean) / error,
                        "<",
                        4.0,
                        "the same law; met by chance once in 16,000",
                    ),
                    Check(
                        "share of full rank, points on a line, recentered",
                        recentered.reached,
                        "<",
                        0.001,
                        "their centered points are collinear",
                    ),
                    Check(
                        "share of full rank, points on a line, plain",
                        plain.reached,
                        ">",
                        0.999,
                        "without recentering they are not",
                    ),
                ],
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    arms = {"shifted, recentered": numbers["shifted_recentered"], "centered, plain": numbers["centered_plain"]}
    names = [f"{name}: mean {np.mean(widths):.2f}" for name, widths in arms.items()]
    left.hist(list(arms.values()), bins=(np.arange(5, 13) - 0.5).tolist(), label=names, density=True)
    left.set(title="a pentagon", xlabel="units for full rank", ylabel="share of draws")
    left.legend()
    right.bar(("plain", "recentered"), (numbers["line_plain_reached"], numbers["line_recentered_reached"]), width=0.5)
    right.set(title="four points on a line, no two collinear", ylabel="share of draws with full rank", xlim=(-0.6, 1.6))
    return figure


EXPERIMENT = Experiment("Corollary 4: full rank with recentering", run, draw, place="Corollary 4")
