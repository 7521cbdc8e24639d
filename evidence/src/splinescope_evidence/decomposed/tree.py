"""Figures 7, 8 and the remark for vectors: the tree of rows as a bisection of the line."""

from __future__ import annotations

from typing import Any

import numpy as np

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots
from splinescope_research.random_layers.tree_model import tree_gram, tree_rows


def _layer(rows: np.ndarray) -> np.ndarray:
    """One layer as the document writes it: each row becomes its centered positive and its centered negative part."""
    centered = rows - rows.mean(1, keepdims=True)
    return np.concatenate([np.maximum(centered, 0), np.maximum(-centered, 0)])


def _brute_gram(x: np.ndarray, depth: int) -> np.ndarray:
    """Gram matrix of a batch `[n, d]` after `depth` layers, every row of every coordinate written down."""
    rows = x.T
    for _ in range(depth):
        rows = _layer(rows)
    return rows.T @ rows


def _intervals(values: np.ndarray, depth: int) -> np.ndarray:
    """Ends `[2^depth, 2]` of the intervals of the bisection: (l, h) becomes (l, mu), (mu, h), mu the "
    "mean of clip(x)."""
    found = [(float(values.min()), float(values.max()))]
    for _ in range(depth):
        following = []
        for low, high in found:
            middle = float(np.clip(values, low, high).mean())
            following += [(low, middle), (middle, high)]
        found = following
    return np.array(found)


def _row_errors(values: np.ndarray, depth: int) -> float:
    """How far rows of the literal tree are from clip(x, l, h) - l or h - clip(x, l, h) of their interval."""
    rows = tree_rows(values, depth)
    scale = np.ptp(values)
    candidates = []
    for low, high in _intervals(values, depth):
        clipped = np.clip(values, low, high)
        candidates += [clipped - low, high - clipped]
    table = np.array(candidates)
    return float(max(np.abs(table - row).max(1).min() for row in rows) / scale)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    draws, depth, n = (3, 5, 6) if size == "quick" else (40, 9, 12)
    rng = np.random.default_rng(seed)
    rows, vectors, sums = [], [], []
    for i in range(draws):
        if progress is not None:
            progress(i / draws, f"batch {i + 1} of {draws}")
        values = rng.normal(size=n)
        rows.append(_row_errors(values, depth))
        x = rng.normal(size=(n, 3))
        whole = _brute_gram(x, depth)
        gram, log_scale = tree_gram(x, depth)
        vectors.append(float(np.abs(np.exp(2 * log_scale) * gram - whole).max() / np.abs(whole).max()))
        parts = sum(_brute_gram(column[:, None], depth) for column in x.T)
        sums.append(float(np.abs(parts - whole).max() / np.abs(whole).max()))
    shown = np.sort(rng.normal(size=8))
    limit = "float64 rounding over some ten layers"
    claims = (
        judged(
            "Figures 7 and 8: the rows at depth t are the leaves of a tree, each the batch clipped to one "
            "interval of a "
            "bisection of its range.",
            f"largest difference of a row from its interval's {max(rows):.1e} of the range, {draws} batches of "
            f"{n}, depth "
            f"{depth} ({2**depth} rows)",
            holds=[Check("largest difference", max(rows), "<", 1e-12, limit)],
        ),
        judged(
            "Remark for d > 1: the Gram matrix of a batch of vectors is the sum of those of its coordinates.",
            f"largest relative difference, d = 3: {max(sums):.1e} summing trees written down, {max(vectors):.1e} "
            f"by the "
            "bisection",
            holds=[
                Check("difference, written down", max(sums), "<", 1e-12, limit),
                Check("difference, by bisection", max(vectors), "<", 1e-12, limit),
            ],
        ),
    )
    return Outcome({"values": shown, "intervals": [_intervals(shown, t) for t in range(5)]}, claims)


def draw(numbers: dict[str, Any]) -> Any:
    figure, (ax,) = subplots(1)
    values = np.array(numbers["values"])
    for t, intervals in enumerate(numbers["intervals"]):
        for i, (low, high) in enumerate(np.array(intervals)):
            ax.plot([low, high], [t, t], color=("#3b528b", "#5ec962")[i % 2], lw=5, solid_capstyle="butt")
    ax.plot(values, np.full(len(values), -0.4), "k|", ms=12)
    ax.set(xlabel="value of a point (marks: the batch)", ylabel="depth", ylim=(4.5, -0.8))
    return figure


EXPERIMENT = Experiment(
    "Figures 7 and 8: the tree as a bisection",
    run,
    draw,
    place="Figures 7 and 8; section IV and its remark for vectors",
)
