"""Definition 12 and Theorem 13: the representation that recentering and ReLU leave in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_evidence.shared.words import span
from splinescope_research import invariant_representation, odd_point_step
from splinescope_research.random_layers.invariant import sample_odd_point_step


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    weights = torch.Generator().manual_seed(seed)
    width, draws = (100, 1000) if size == "quick" else (200, 4000)
    rows: list[dict[str, Any]] = []
    for n in (3, 10, 50):
        if progress is not None:
            progress(len(rows) / 3, f"batch of {n}")
        x = invariant_representation(n)
        closed = odd_point_step(x)
        # every cluster point has the same image, so two of them stand for all
        sample = sample_odd_point_step(x, width, draws, weights)[:, [0, 1]]
        squares = np.square(sample).sum(axis=2)
        mean = sample.mean(axis=0)
        rows.append(
            {
                "n": n,
                "closed_error": float(np.abs(closed.gram[:n, :n] - x @ x.T).max()),
                "odd_square": float(squares[:, 0].mean()),
                "odd_square_error": float(squares[:, 0].std(ddof=1) / math.sqrt(draws)),
                "cluster_square": float(squares[:, 1].mean() * (n - 1) ** 2),
                "products": float(np.abs(sample[:, 0] * sample[:, 1]).max()),
                "literal_square": float(np.square(mean[0]).sum()),
                "literal_cosine": float(mean[0] @ mean[1] / np.linalg.norm(mean[0]) / np.linalg.norm(mean[1])),
                "square_sd": float(squares[:, 0].std(ddof=1) / math.sqrt(5 / width)),
            }
        )
    literal = max(abs(r["literal_square"] - 1) for r in rows)
    cosine = max(abs(r["literal_cosine"]) for r in rows)
    closed_error, product = (max(r[key] for r in rows) for key in ("closed_error", "products"))
    away = max(abs(r[key] - 1) / r["odd_square_error"] for r in rows for key in ("odd_square", "cluster_square"))
    return Outcome(
        {"rows": rows, "width": width, "draws": draws},
        (
            judged(
                "One layer of recentering and ReLU leaves the representation of Definition 12 unchanged in expectation "
                "(Theorem 13). Corrected: it leaves the expected Gram matrix, not the expected representation.",
                f"closed form off by {max(r['closed_error'] for r in rows):.0e}; sampled squared lengths (should be "
                f"1): odd {span([r['odd_square'] for r in rows])}, cluster "
                f"{span([r['cluster_square'] for r in rows])}; the literal mean has squared length "
                f"{span([r['literal_square'] for r in rows])} (1/pi = .318) and is parallel to the cluster's "
                f"(cosine {min(r['literal_cosine'] for r in rows):.3f})",
                holds=[
                    Check("squared length of the literal mean minus 1, largest", literal, "<", 0.05, "as stated"),
                    Check("its cosine with the cluster's, largest", cosine, "<", 0.05, "as stated: orthogonal"),
                ],
                corrected=[
                    Check("closed form minus the Gram matrix", closed_error, "<", 1e-12, "an identity: rounding"),
                    Check(
                        "sampled squared lengths minus 1, in standard errors, largest",
                        away,
                        "<",
                        4.0,
                        "met by chance once in 16,000",
                    ),
                    Check("largest sampled inner product", product, "<", 1e-300, "products of exact zeros"),
                ],
            ),
        ),
    )


def draw(numbers: dict[str, Any]) -> Any:
    figure, (ax,) = subplots(1)
    rows = numbers["rows"]
    place = np.arange(len(rows))
    for shift, key, label in (
        (-0.25, "odd_square", "E |odd|^2"),
        (0, "cluster_square", "(n-1)^2 E |cluster|^2"),
        (0.25, "literal_square", "|E odd|^2 (literal)"),
    ):
        ax.bar(place + shift, [r[key] for r in rows], width=0.25, label=label)
    ax.axhline(1, color="0.5", linewidth=1)
    ax.axhline(1 / math.pi, color="0.5", linewidth=1, linestyle=":")
    ax.set_xticks(place, [f"n = {r['n']}" for r in rows])
    ax.set_ylim(0, 1.6)
    ax.set_ylabel("squared length after one layer")
    ax.legend(frameon=False, loc="upper center", fontsize="small")
    return figure


EXPERIMENT = Experiment("Theorem 13: the invariant representation", run, draw, place="Definition 12 and Theorem 13")
