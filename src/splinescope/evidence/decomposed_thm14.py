"""Theorem 14: a far odd point makes the cluster contract."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..representation import invariant_representation, odd_point_step, sample_odd_point_step
from ._decomposed import judge, spread, subplots
from ._experiment import Claim, Experiment, Outcome, Progress, Size


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    rng = np.random.default_rng(seed)
    repeats, draws = (3, 4000) if size == "quick" else (20, 20000)
    width = 20  # narrow, to tell a mean length from a root mean square
    rows = []
    for n in (5, 10):
        for factor in (0.45, 0.8, 1.05, 1.2, 2.0):  # R in units of n/(n-1)
            for radius in (0.03, 0.3, 3.0):
                for _ in range(repeats):
                    x = _odd_and_cluster(n, factor * n / (n - 1), radius, rng)
                    step = odd_point_step(x)
                    rows.append(
                        {
                            "n": n,
                            "factor": factor,
                            "gain": step.gain,
                            "ratio": float(np.nanmax(step.ratios)),
                            "odd": float(step.gram[0, 0]),
                            "mean": float(step.gram[-1, -1] * (n - 1) ** 2),
                            "product": float(abs(step.gram[0, -1])),
                        }
                    )
    sampled = []
    for n in (5, 10):
        x = _odd_and_cluster(n, 1.2 * n / (n - 1), 1.0, rng)
        images = sample_odd_point_step(x, width, draws, rng)
        distances = np.square(images[:, 1] - images[:, 2]).sum(axis=1)
        exact = odd_point_step(x)
        expected = float(exact.ratios[0, 1] * np.square(x[1] - x[2]).sum())
        norms = np.linalg.norm(images[:, 0], axis=1)
        sampled.append(
            {
                "z_score": float((distances.mean() - expected) / (distances.std(ddof=1) / math.sqrt(draws))),
                "norm": float(norms.mean()),
                "norm_error": float(norms.std(ddof=1) / math.sqrt(draws)),
                "predicted_norm": 1 - 5 / (8 * width),
                "product": float(np.abs(images[:, 0] * images[:, -1]).max()),
            }
        )
    x = _odd_and_cluster(5, 2.0, 1.0, rng)
    x[2] = x[1]
    gram = odd_point_step(x).gram
    twins = float(gram[1, 1] + gram[2, 2] - 2 * gram[1, 2])  # two equal points cannot come closer
    far = [r for r in rows if r["factor"] > 1]
    near = [r for r in rows if r["factor"] < 0.5]
    empty = all(not odd_point_step(invariant_representation(n)).contracts for n in (3, 10, 100))
    return Outcome(
        {"rows": rows, "sampled": sampled},
        (
            Claim(
                "Hypotheses: an invariant representation with R > n/(n-1). None exists (R = sqrt(1 + 1/(n-1)^2)); drop "
                "'invariant'.",
                judge(not empty, empty),
                f"R for n = 10: {odd_point_step(invariant_representation(10)).distance:.4f} < {10 / 9:.4f}",
                "R < n/(n-1) for n = 3, 10, 100",
            ),
            Claim(
                "Lengths 1 and 1/(n-1) are kept: in expected square; expected lengths fall short by 5/(8 width).",
                judge(
                    all(abs(s["norm"] - 1) < 3 * s["norm_error"] for s in sampled),
                    all(abs(r["odd"] - 1) < 1e-9 and abs(r["mean"] - 1) < 1e-9 for r in rows)
                    and all(abs(s["norm"] - s["predicted_norm"]) < 0.015 for s in sampled),
                ),
                f"expected squares off by at most {max(abs(r['odd'] - 1) for r in rows):.0e}; mean length "
                f"{spread([s['norm'] for s in sampled])} at width {width}, predicted {1 - 5 / (8 * width):.4f}",
                "squares to 1e-9, lengths to .015 of the prediction; as stated: lengths within 3 standard errors of 1",
            ),
            Claim(
                "The odd point and the image of the cluster's mean are orthogonal.",
                judge(all(r["product"] < 1e-12 for r in rows) and all(s["product"] == 0 for s in sampled)),
                f"closed form {max(r['product'] for r in rows):.0e}, sampled exactly 0",
                "closed form below 1e-12, sampled exactly 0",
            ),
            Claim(
                "Any two different points of the cluster come closer in expected square, by the gain at least, if "
                "R > n/(n-1); they need not if R is smaller, and equal points stay equal.",
                judge(
                    twins < 0,
                    all(r["ratio"] <= r["gain"] * (1 + 1e-9) and r["gain"] < 1 for r in far)
                    and max(r["ratio"] for r in near) > 1
                    and all(abs(s["z_score"]) < 4 for s in sampled),
                ),
                f"largest ratio for R > n/(n-1): {max(r['ratio'] for r in far):.3f}; for R = .45 n/(n-1): "
                f"{max(r['ratio'] for r in near):.2f}; sampled against exact: z = "
                + ", ".join(f"{s['z_score']:.1f}" for s in sampled),
                "ratio <= gain < 1 when far, > 1 for some near batch, |z| < 4; as stated: equal points come closer too",
            ),
        ),
    )


def _odd_and_cluster(n: int, distance: float, radius: float, rng: np.random.Generator) -> np.ndarray:
    cluster = radius * rng.standard_normal((n - 1, 6)) / math.sqrt(6)
    direction = rng.standard_normal(6)
    return np.vstack([cluster.mean(axis=0) + distance * direction / np.linalg.norm(direction), cluster])


def draw(numbers: dict[str, Any]) -> Any:
    figure, axes = subplots(2)
    for ax, n in zip(axes, (5, 10), strict=True):
        rows = [r for r in numbers["rows"] if r["n"] == n]
        factors = sorted({r["factor"] for r in rows})
        ax.semilogy([r["factor"] for r in rows], [r["ratio"] for r in rows], ".", label="largest ratio, exact")
        ax.semilogy(factors, [1 / f**2 for f in factors], color="#d55e00", label="gain")
        ax.axhline(1, color="0.6", linewidth=1)
        ax.axvline(1, color="0.6", linewidth=1, linestyle=":")
        ax.set_xlabel("R in units of n / (n-1)")
        ax.set_ylabel("squared distance after / before")
        ax.set_title(f"n = {n}")
        ax.legend(frameon=False)
    return figure


EXPERIMENT = Experiment("decomposed-thm14", "decomposed", "Theorem 14: the cluster contracts", run, draw)
