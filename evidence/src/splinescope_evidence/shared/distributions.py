"""Whether sides of tiles and differences of maps are distributed alike at all depths, as far as networks are alike."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from splinescope_evidence.framework.experiment import Check, Claim, judged
from splinescope_evidence.shared.intervals import interval
from splinescope_research.folds.subdivision import Subdivision

ALIKE = 0.02
"""Of Kolmogorov-Smirnov distances beyond those of two networks, which are of this size themselves."""


def ks(values: np.ndarray, others: np.ndarray) -> float:
    """Kolmogorov-Smirnov: the largest difference of two distributions; nan if one is empty."""
    if not len(values) or not len(others):
        return float("nan")
    points = np.concatenate([values, others])
    below = (np.searchsorted(np.sort(v), points, side="right") / len(v) for v in (values, others))
    return float(np.abs(np.subtract(*below)).max())


def sides_of(levels: Any) -> list[np.ndarray]:
    """Numbers of sides of inner tiles, by depth; they have no scale."""
    return [level.sides[level.sides >= 0] for level in levels]


def jumps_of(levels: Any) -> list[np.ndarray]:
    """Differences of maps at the walls that the next layer made, over their median, by depth."""
    return [level.jumps / np.median(level.jumps) if len(level.jumps) else level.jumps for level in levels]


def between(found: Subdivision, other: Subdivision) -> dict[str, Any]:
    """Distances between a depth and the next of one network, and between two networks at one depth, means over depths.

    Args:
        found: Of a network.
        other: Of another network of the kind, which has nothing to do with it.
    """
    told: dict[str, Any] = {}
    for name, values in (("sides", sides_of), ("jumps", jumps_of)):
        first = 1 if name == "sides" else 0  # the domain is one tile, all of it at the rim
        own, others = values(found.levels[first:]), values(other.levels[first:])
        told[f"{name}, depths"] = [ks(a, b) for a, b in pairwise(own)]
        told[f"{name}, networks"] = [ks(a, b) for a, b in zip(own, others, strict=True)]
    return told


def alike(rows: dict[str, list[dict[str, Any]]], name: str, what: str, then: str = "") -> Claim:
    """A claim that a distribution is the same at all depths, in every kind of network.

    Two networks of a kind differ at the same depth by chance alone; depths must hardly differ by more.
    """
    pairs = {
        kind: np.array([[np.mean(row[f"{name}, depths"]), np.mean(row[f"{name}, networks"])] for row in of_kind])
        for kind, of_kind in rows.items()
    }
    ends = {kind: interval(p[:, 0] - p[:, 1], 1 - 0.05 / len(pairs)) for kind, p in pairs.items()}
    words = "; ".join(
        f"{kind} {p[:, 0].mean():.3f} and {p[:, 1].mean():.3f} ({ends[kind][0]:+.3f} to {ends[kind][1]:+.3f})"
        for kind, p in pairs.items()
    )
    low, high = (float(np.max([e[i] for e in ends.values()])) for i in range(2))  # nan if one is
    return judged(
        f"{what} are distributed alike at all depths: a depth differs from the next by no more than two unrelated "
        f"networks do at the same depth, but for {ALIKE:g}, in all {len(rows)} kinds (survey, on Figures 3 and 4: an "
        "open question).",
        "Kolmogorov-Smirnov distance between a depth and the next of one network, and between two networks at one "
        f"depth, means over depths, with intervals of the difference over {len(next(iter(rows.values())))} networks "
        f"(5% shared by {len(rows)} kinds): {words}{then}",
        holds=[Check("upper end of the difference, largest over kinds", high, "<", ALIKE,
                     "two networks of a kind differ by little more themselves")],
        fails=[Check("lower end of the difference, largest over kinds", low, ">", ALIKE,
                     "significantly different in one kind")],
    )  # fmt: skip
