"""Theorem 11: the limits of the tree model, with sharp constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..representation import tree_representation
from ._decomposed import judge, log_ticks, spread, subplots
from ._experiment import Claim, Experiment, Outcome, Progress, Size


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    rng = np.random.default_rng(seed)
    sizes, repeats = ((5, 10, 20), 4) if size == "quick" else ((5, 10, 20, 50, 100, 200), 20)
    rows: list[dict[str, Any]] = []
    for n in sizes:
        if progress is not None:
            progress(len(rows) / (len(sizes) * repeats), f"batches of {n}")
        for _ in range(repeats):
            rows.append(_limits(np.sort(rng.standard_normal(n))))
    n = 10
    tree = tree_representation(np.sort(rng.standard_normal(n)), 100)
    decay = []
    for _ in range(12):
        decay.append([tree.depth, tree.angles()[1, -2]])
        tree = tree.advance(10)
    rate = (decay[-1][1] / decay[-6][1]) ** (1 / 50)
    predicted = math.sqrt((n * n - 4 * n + 8) / (n * n - 2 * n + 2))
    zero = all(r["first_last_product"] == 0 for r in rows)
    return Outcome(
        {"rows": rows, "decay": decay, "rate": rate, "predicted_rate": predicted},
        (
            Claim(
                "Smallest and largest value become orthogonal, from the first layer on (not at depth 0).",
                judge(zero and all(r["first_last_at_0"] == 0 for r in rows), zero),
                f"inner product exactly 0 at depths 1 and 40 n in {len(rows)} batches; at depth 0 up to "
                f"{max(abs(r['first_last_at_0']) for r in rows):.1f}",
                "exactly 0; as stated also at depth 0",
            ),
            Claim(
                "The inner points collapse to one direction; angles contract by sqrt((n^2-4n+8)/(n^2-2n+2)) a layer.",
                judge(all(r["inner_angle"] < 0.01 for r in rows) and abs(rate - predicted) < 1e-3),
                f"largest inner angle at depth 40 n {max(r['inner_angle'] for r in rows):.1e} degrees; rate for n = 10 "
                f"{rate:.5f}, predicted {predicted:.5f}",
                "angles below 0.01 degrees; rate within 1e-3",
            ),
            Claim(
                "Inner lengths over the odd one's are at most 3/(n-2) in the limit; sharp: sqrt((1+q)/((n-1)^2+q)).",
                judge(all(r["ratio"] * (r["n"] - 2) <= 3 and r["ratio_error"] < 1e-10 for r in rows)),
                f"ratio (n-2) {spread([r['ratio'] * (r['n'] - 2) for r in rows])}; relative distance to the sharp form "
                f"at most {max(r['ratio_error'] for r in rows):.0e}",
                "stated bound and sharp form to 1e-10",
            ),
            Claim(
                "The odd point is within sqrt(2) pi/(n-2) of a right angle to the others; sharp: "
                "arcsin(1/sqrt(2((n-1)^2+1))).",
                judge(all(r["deviation"] <= r["sharp_deviation"] + 1e-9 for r in rows)),
                f"at most {max(r['deviation'] / r['stated_deviation'] for r in rows):.0%} of the stated bound used",
                "deviation below the sharp (and so the stated) bound",
            ),
        ),
    )


def _limits(x: np.ndarray) -> dict[str, Any]:
    n = len(x)
    tree = tree_representation(x, 40 * n)
    gram, angles, norms = tree.gram(), tree.angles(), tree.norms()
    first, last = (tree.upper + tree.lower)[[0, -1]]
    q = min(first / last, last / first)
    ratio = norms[1:-1].max() / norms.max()
    sharp = math.sqrt((1 + q) / ((n - 1) ** 2 + q))
    return {
        "n": n,
        "first_last_product": float(abs(gram[0, -1]) + abs(tree_representation(x, 1).gram()[0, -1])),
        "first_last_at_0": float(x[0] * x[-1]),
        "inner_angle": float(angles[1:-1, 1:-1].max()),
        "ratio": float(ratio),
        "ratio_error": float(abs(ratio / sharp - 1)),
        "deviation": float(np.abs(90 - angles[norms.argmax(), 1:-1]).max()),
        "sharp_deviation": math.degrees(math.asin(1 / math.sqrt(2 * ((n - 1) ** 2 + 1)))),
        "stated_deviation": math.degrees(math.sqrt(2) * math.pi / (n - 2)),
    }


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, middle, right) = subplots(3)
    rows = numbers["rows"]
    n = np.array([r["n"] for r in rows])
    grid = np.unique(n)
    decay = np.array(numbers["decay"])
    left.semilogy(decay[:, 0], decay[:, 1], marker="o", label="measured")
    left.semilogy(
        decay[:, 0],
        decay[-1, 1] * numbers["predicted_rate"] ** (decay[:, 0] - decay[-1, 0]),
        color="#d55e00",
        label="predicted rate",
    )
    left.set_xlabel("layer")
    left.set_ylabel("angle of two inner points (degrees), n = 10")
    left.legend(frameon=False)
    middle.loglog(n, [r["ratio"] for r in rows], ".", label="measured")
    middle.loglog(grid, 3 / (grid - 2), label="stated 3/(n-2)")
    middle.loglog(grid, np.sqrt(2 / ((grid - 1) ** 2 + 1)), linestyle="--", label="sharp, largest q")
    log_ticks(middle, grid)
    middle.set_xlabel("n")
    middle.set_ylabel("inner length / odd length")
    middle.legend(frameon=False)
    right.loglog(n, np.maximum([r["deviation"] for r in rows], 1e-6), ".", label="measured")
    right.loglog(grid, np.degrees(np.sqrt(2) * np.pi / (grid - 2)), label="stated")
    right.loglog(grid, np.degrees(np.arcsin(1 / np.sqrt(2 * ((grid - 1) ** 2 + 1)))), linestyle="--", label="sharp")
    log_ticks(right, grid)
    right.set_xlabel("n")
    right.set_ylabel("deviation from 90 degrees")
    right.legend(frameon=False)
    return figure


EXPERIMENT = Experiment("decomposed-thm11", "decomposed", "Theorem 11: the limits of the tree model", run, draw)
