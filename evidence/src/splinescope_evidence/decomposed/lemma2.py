"""Lemma 2: a random ReLU row leaves any proper subspace with probability at least gamma."""

from __future__ import annotations

from typing import Any

import numpy as np

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_research import sign_classes
from splinescope_research.random_layers.full_rank import new_direction_probability

NONE = "a step of a proof: none may"


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    rng = np.random.default_rng(seed)
    repeats, draws = (6, 2000) if size == "quick" else (30, 20000)
    ratios, shapes = [], []
    for n in (3, 4, 5, 6):
        for k in (2, 3):
            for _ in range(repeats):
                x = rng.standard_normal((n, k)) * rng.uniform(0.2, 5, (n, 1))
                classes = sign_classes(x)
                for subspace in _subspaces(x, classes.signs, rng):
                    ratios.append(new_direction_probability(x, subspace, classes) / classes.gamma)
                    shapes.append((n, k))
    printed, corrected = _flips(rng, draws)
    least = min(ratios)
    return Outcome(
        {"ratios": ratios, "shapes": shapes, "other_flips_printed": printed, "other_flips_corrected": corrected},
        (
            judged(
                "A random row relu(w X) leaves any proper subspace with probability at least gamma(X) (Lemma 2).",
                f"{len(ratios)} subspaces (random, or holding whole sign classes): smallest P / gamma {least:.2f}",
                holds=[Check("smallest P / gamma", least, ">", 1 - 1e-9, "as stated; P and gamma are exact")],
            ),
            judged(
                "The proof of Lemma 2 moves w across one wall only, that of the smallest |w x_i| (equation (18)). "
                "Corrected: of the smallest |w x_i| / |x_i|.",
                f"another sign flips in {printed:.1%} of {draws} draws as printed, {corrected:.1%} as corrected",
                holds=[Check("share of draws in which another sign flips, printed", printed, "<", 1e-9, NONE)],
                corrected=[Check("share of draws in which another sign flips", corrected, "<", 1e-9, NONE)],
            ),
        ),
    )


def _subspaces(x: np.ndarray, signs: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Spans of random ReLU rows, and hyperplanes that hold as many whole sign classes as possible."""
    n, k = x.shape
    found = []
    for rank in range(1, n):
        rows = np.maximum(rng.standard_normal((rank, k)) @ x.T, 0)
        if rows.any():
            found.append(rows)
    held = rng.permutation(len(signs))[: max((n - 1) // k, 1)]
    inside = np.concatenate([(signs[c][:, None] * x).T for c in held])  # rows relu(w X) of these classes span this
    if np.linalg.matrix_rank(inside) < n:
        found.append(inside)
    return found


def _flips(rng: np.random.Generator, draws: int) -> tuple[float, float]:
    """How often moving w just across its smallest wall flips another sign: (printed, corrected) choice of wall."""
    flipped = np.zeros(2)
    for _ in range(draws):
        x = rng.standard_normal((5, 3)) * rng.uniform(0.2, 5, (5, 1))
        w = rng.standard_normal(3)
        products, norms = x @ w, np.linalg.norm(x, axis=1)
        for which, size in enumerate((np.abs(products), np.abs(products) / norms)):
            i = int(size.argmin())
            moved = w - (1 + 1e-9) * products[i] / norms[i] ** 2 * x[i]
            others = np.delete(np.arange(5), i)
            flipped[which] += bool(np.any(np.sign(x[others] @ moved) != np.sign(products[others])))
    return float(flipped[0] / draws), float(flipped[1] / draws)


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    left.hist(np.log10(numbers["ratios"]), bins=30, color="#3b528b")
    left.axvline(0, color="#d55e00", label="the lemma's bound")
    left.set_xlabel("log10 of P(new direction) / gamma")
    left.set_ylabel("subspaces")
    left.legend(frameon=False)
    right.bar(["as printed", "corrected"], [numbers["other_flips_printed"], numbers["other_flips_corrected"]])
    right.set_ylabel("share of draws")
    right.set_title("another sign flips in the proof's step")
    return figure


EXPERIMENT = Experiment(
    "Lemma 2: a random ReLU row adds a direction with probability gamma",
    run,
    draw,
    place="Lemma 2; equation (18) of its proof",
)
