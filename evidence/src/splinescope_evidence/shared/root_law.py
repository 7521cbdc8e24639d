"""Exponents in what a batch is worth, by layer, against -1/2: that of the error of a mean."""

from __future__ import annotations

import numpy as np

from splinescope_evidence.framework.experiment import Check, Claim, judged
from splinescope_evidence.shared.intervals import interval

TENTH = "a tenth off is read as the same exponent: ten times the points change it by 2.5 to 4 then, by 3.2 at -1/2"


def worth(size: int, rows: int) -> float:
    """B of N points without replacement are as good as so many of endless ones: their mean has the same variance."""
    return size * (rows - 1) / (rows - size)


def exponents(values: np.ndarray, sizes: tuple[int, ...], rows: int) -> np.ndarray:
    """`[networks, ...]` slopes of log values `[networks, sizes, ...]` on what batches of so many are worth."""
    logs = np.log(np.maximum(values, 1e-12))
    places = np.log([worth(size, rows) for size in sizes])
    flat = logs.reshape(len(logs), len(sizes), -1)
    return np.array([np.polyfit(places, one, 1)[0] for one in flat]).reshape(len(logs), *logs.shape[2:])


def as_root(text: str, what: str, slopes: dict[str, np.ndarray], then: str) -> Claim:
    """The exponents `[networks, layers]` of layers, before training and after, against -1/2."""
    networks, layers = slopes["trained"].shape
    off = [column + 0.5 for v in slopes.values() for column in v.T]
    ends = [interval(column) for column in off]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    shared = [interval(column, 1 - 0.05 / len(off)) for column in off]
    sure = max(max(end[0], -end[1]) for end in shared)
    words = "; ".join(
        f"{when} " + ", ".join(f"{m:.3f} ({interval(c)[0]:.3f} to {interval(c)[1]:.3f})" for m, c in
                               zip(v.mean(0), v.T, strict=True))
        for when, v in slopes.items()
    )  # fmt: skip
    return judged(
        text,
        f"exponent of {what}, layers 1 to {layers}, with 95% intervals over {networks} networks: {words}; {then}",
        holds=[Check("exponent plus 1/2, lower end of the 95% interval, least over layers", low, ">", -0.1,
                     TENTH),
               Check("exponent plus 1/2, upper end of the 95% interval, largest over layers", high, "<", 0.1,
                     TENTH)],
        fails=[Check(f"exponent plus 1/2, end nearest to 0, farthest of {len(off)} intervals that share 5%", sure, ">",
                     0.1, "significantly another exponent in a layer")],
    )  # fmt: skip
