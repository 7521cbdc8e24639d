"""Rank against the ReLU singular values and the Gaussian mean width of Dittmer, King and Maass: one layer, three views.

"Batch Normalization Decomposed" names their work beside its own on the rank of ReLU layers. Its words were not at hand;
the claims are our reading of what can be compared, and say so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.words import span

READING = "(Ours: our reading of the comparison with Dittmer, King and Maass, 2018.)"


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    layers, units, points, draws = (3, 12, 6, 20) if size == "quick" else (20, 40, 10, 1000)
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(layers):
        if progress is not None:
            progress(i / layers, f"layer {i + 1} of {layers}")
        weight = rng.standard_normal((units, 2))
        x = rng.standard_normal((points, 2))
        before = x @ weight.T
        widths = np.array([_widths(weight, rng.standard_normal(units)) for _ in range(draws)]).mean(0)
        rows.append(
            {
                "linear rank": int(np.linalg.matrix_rank(before)),
                "rank": int(np.linalg.matrix_rank(np.maximum(before, 0))),
                "singular value": _largest(weight) / float(np.linalg.norm(weight, 2)),
                "mean width": float(widths[1] / widths[0]),
            }
        )
    added = [row["rank"] - row["linear rank"] for row in rows]
    return Outcome(
        {"rows": rows, "points": points},
        (
            judged(
                f"By the rank of a batch a ReLU makes a random layer richer than its linear part. {READING}",
                f"rank of {points} points of the plane behind {units} units, {layers} layers: "
                f"{span([row['rank'] for row in rows])} with ReLU, {span([row['linear rank'] for row in rows])} "
                "without",
                holds=[Check("ranks that the ReLU adds, least", float(min(added)), ">", 0.5, "one more is richer")],
            ),
        ),
    )  # fmt: skip


def _widths(weight: np.ndarray, g: np.ndarray) -> tuple[float, float]:
    """Largest g . W x and largest g . relu(W x) over the unit disc, exactly.

    On an arc between two kinks the second is c . x with c the sum of g_i w_i over the units that are on there: its
    maximum is |c| if c points into the arc, and at an end of it otherwise.
    """
    kinks = np.arctan2(weight[:, 0], -weight[:, 1])
    angles = np.sort(np.concatenate([kinks, kinks + np.pi]) % (2 * np.pi))
    ends = np.append(angles, angles[0] + 2 * np.pi)
    middle = (ends[1:] + ends[:-1]) / 2
    on = weight @ np.array([np.cos(middle), np.sin(middle)]) > 0
    c = (weight * g[:, None]).T @ on
    top = np.arctan2(c[1], c[0])
    inside = (top - ends[:-1]) % (2 * np.pi) <= ends[1:] - ends[:-1]
    at_ends = np.maximum(weight @ np.array([np.cos(angles), np.sin(angles)]), 0).T @ g
    best = max(0.0, float(at_ends.max()), float(np.hypot(*c)[inside].max(initial=0.0)))
    return float(np.linalg.norm(weight.T @ g)), best


def _largest(weight: np.ndarray) -> float:
    """Largest |relu(W x)| over unit x, on 20,000 directions: too low by less than 1e-7 of it."""
    turn = np.linspace(0, 2 * np.pi, 20_000, endpoint=False)
    return float(np.linalg.norm(np.maximum(weight @ np.array([np.cos(turn), np.sin(turn)]), 0), axis=0).max())


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    rows = numbers["rows"]
    place = np.arange(len(rows))
    left.plot(place, [row["rank"] for row in rows], "o", label="with ReLU")
    left.plot(place, [row["linear rank"] for row in rows], "s", label="linear part")
    left.axhline(numbers["points"], color="0.6", linestyle=":", label="points")
    left.set(xlabel="layer", ylabel="rank of the batch", ylim=(0, numbers["points"] + 1))
    left.legend(frameon=False)
    for name, marker, least in (("singular value", "o", math.sqrt(0.5)), ("mean width", "s", 0.5)):
        line = right.plot(place, [row[name] for row in rows], marker, label=name)[0]
        right.axhline(least, color=line.get_color(), linestyle=":", linewidth=1)
    right.axhline(1, color="0.6", linewidth=1)
    right.set(xlabel="layer", ylabel="with ReLU over linear part", ylim=(0.4, 1.25))
    right.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    "Rank, ReLU singular values and mean width of one layer",
    run,
    draw,
    place="introductory section, related work on the rank of ReLU layers",
)
