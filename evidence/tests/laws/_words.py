"""What laws of numbers have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Numbers = dict[str, Any]
Laws = dict[str, Callable[[Numbers], None]]


def near(value: Any, target: float, tolerance: float) -> bool:
    return bool(np.abs(np.asarray(value, float) - target).max() <= tolerance)


def shares(value: Any) -> bool:
    array = np.asarray(value, float)
    return bool(((array >= 0) & (array <= 1)).all())
