"""Theorem 3: the width of a random ReLU layer that gives a batch full rank."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy import stats

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.data import circle
from splinescope_evidence.shared.figures import subplots
from splinescope_research import sign_classes
from splinescope_research.random_layers.full_rank import expected_width_bound, full_rank_width, width_tail_bounds


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    rng = np.random.default_rng(seed)
    weights = torch.Generator().manual_seed(seed)
    corners, draws = ((3, 5, 7), 400) if size == "quick" else ((3, 5, 7, 11, 15, 21), 4000)
    rows: list[dict[str, Any]] = []
    for n in corners:
        if progress is not None:
            progress(len(rows) / (len(corners) + 1), f"polygon of {n} points")
        classes = sign_classes(circle(n))
        width = full_rank_width(circle(n), draws=draws, generator=weights)
        rows.append(
            {
                "n": n,
                "classes": classes.count,
                "gamma": classes.gamma,
                "mean": width.mean,
                "standard_error": width.standard_error,
                "bound": expected_width_bound(n, classes.gamma),
            }
        )
    tail_rows = [
        [n, alpha, _tail(n, 1 / (2 * n), alpha), *width_tail_bounds(n, 1 / (2 * n), alpha)]
        for n in corners
        for alpha in (1.1, 1.5, 2.0, 3.0)
    ]
    gaussian = full_rank_width(rng.standard_normal((10, 10)), draws=draws // 4, generator=weights)
    x = rng.standard_normal((2, 2))
    never = {
        "x, 2x": [x[0], 2 * x[0]],
        "three points on a line, centered": [-x[0], 0.25 * x[0], 0.75 * x[0]],
        "antipodal pairs": [x[0], -x[0], x[1], -x[1], x[0] + x[1], -x[0] - x[1]],
    }
    reached = {
        name: full_rank_width(np.array(points), draws=5, limit=2000, generator=weights).reached
        for name, points in never.items()
    }
    used = max((r["mean"] + 3 * r["standard_error"]) / r["bound"] for r in rows)
    return Outcome(
        {"polygons": rows, "tails": tail_rows, "gaussian_10x10": gaussian.mean, "collinear_reached": reached},
        (
            judged(
                "Example of the circle: n points spread evenly on a circle have n sign classes and gamma = 1/n. "
                "Corrected: for n odd, 2n and 1/(2n).",
                "; ".join(f"n={r['n']}: {r['classes']} classes, gamma n = {r['gamma'] * r['n']:.4f}" for r in rows),
                holds=[Check("gamma n minus 1, largest", max(abs(r["gamma"] * r["n"] - 1) for r in rows), "<", 1e-9,
                             "exact arcs: rounding")],
                corrected=[
                    Check("gamma 2n minus 1, largest", max(abs(r["gamma"] * 2 * r["n"] - 1) for r in rows), "<", 1e-9,
                          "exact arcs: rounding"),
                    Check("classes minus 2n, largest", max(abs(r["classes"] - 2 * r["n"]) for r in rows), "<", 0.5,
                          "a count"),
                ],
            ),
            judged(
                "The expected width for full rank is at most n / gamma (Theorem 3.1; very loose).",
                "; ".join(
                    f"n={r['n']}: {r['mean']:.2f} ± {r['standard_error']:.2f} against {r['bound']:.0f}" for r in rows
                )
                + f"; Gaussian 10 points in 10-D: {gaussian.mean:.2f}",
                holds=[Check("mean plus 3 standard errors, over the bound, largest", used, "<", 1.0,
                             "as stated, with an error met by chance once in 700")],
            ),
            judged(
                "Tail bounds (7a) and (7b) at ceil(alpha n / gamma) (Theorem 3.2), with (7a) the tighter: they bound "
                "the exact tail of what the proof waits for, n successes of probability gamma.",
                "; ".join(
                    f"n={n}, alpha={a:g}: exact {t:.3g}, bounds {p:.3g} and {q:.3g}"
                    for n, a, t, p, q in tail_rows if n in (corners[0], corners[-1])
                ),
                holds=[Check("largest exact tail over (7a)", max(t / a for _, _, t, a, _ in tail_rows), "<", 1.0,
                             "as stated"),
                       Check("largest (7a) over (7b)", max(a / b for _, _, _, a, b in tail_rows), "<", 1.0, "tighter")],
            ),
            judged(
                "No two points may be collinear (Theorem 3; antipodal counts): such batches never reach full rank.",
                "; ".join(f"{name}: {share:.0%}" for name, share in reached.items()) + " of draws within 2000 units",
                holds=[Check("largest share of draws that reach full rank", max(reached.values()), "<", 1e-9,
                             "never: none may")],
            ),
        ),
    )  # fmt: skip


def _tail(n: int, gamma: float, alpha: float) -> float:
    """Probability that n successes of probability gamma take more than ceil(alpha n / gamma) trials: fewer than n in so
    many, exactly."""
    return float(stats.binom.cdf(n - 1, math.ceil(alpha * n / gamma), gamma))


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    rows = numbers["polygons"]
    n = [r["n"] for r in rows]
    left.semilogy(n, [r["mean"] for r in rows], marker="o", label="measured mean width")
    left.semilogy(n, [r["bound"] for r in rows], marker="s", label="bound n / gamma")
    left.semilogy(n, n, color="0.6", linestyle=":", label="n (no layer can do with less)")
    left.set_xlabel("points on the circle")
    left.set_ylabel("units for full rank")
    left.legend(frameon=False)
    tails = np.array(numbers["tails"])
    tails = tails[tails[:, 0] == 5]
    for column, name, marker in ((2, "exact tail", "D"), (3, "(7a)", "o"), (4, "(7b)", "s")):
        right.semilogy(tails[:, 1], tails[:, column], marker=marker, label=name)
    right.set_xlabel("alpha")
    right.set_ylabel("P(more than alpha n / gamma units)")
    right.set_title("n = 5", fontsize="medium")
    right.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    "Theorem 3: the width that gives full rank",
    run,
    draw,
    place="Theorem 3 with equations (7a) and (7b); the example of the circle before it",
    revised=(3,),
)
