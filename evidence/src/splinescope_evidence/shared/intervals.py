"""Intervals over independent repetitions: seeds, networks, starts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats


def interval(values: Any, level: float = 0.95) -> tuple[float, float]:
    """Student's interval for the mean of independent values; the whole line for a single one."""
    array = np.asarray(values, dtype=np.float64)
    if len(array) < 2:
        return -np.inf, np.inf
    reach = float(stats.t.ppf((1 + level) / 2, len(array) - 1) * array.std(ddof=1) / np.sqrt(len(array)))
    return float(array.mean()) - reach, float(array.mean()) + reach


def ratio_interval(ratios: Any, level: float = 0.95) -> tuple[float, float]:
    """The same for positive ratios: of their geometric mean."""
    low, high = interval(np.log(np.asarray(ratios, dtype=np.float64)), level)
    return float(np.exp(low)), float(np.exp(high))


def median_interval(values: Any, level: float = 0.95) -> tuple[float, float]:
    """The interval for the median between two order statistics; values may be infinite, as losses that diverged are."""
    array = np.sort(np.asarray(values, dtype=np.float64))
    place = int(stats.binom.ppf((1 - level) / 2, len(array), 0.5))  # from either end; 0 if they are too few
    return (float(array[place - 1]), float(array[-place])) if place else (-np.inf, np.inf)
