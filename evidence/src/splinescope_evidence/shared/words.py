"""A few numbers as text."""

from __future__ import annotations

from typing import Any

import numpy as np


def span(values: Any) -> str:
    """Smallest to largest."""
    v = np.asarray(values, dtype=np.float64)
    return f"{v.min():.3g} to {v.max():.3g}"


def spread(values: Any) -> str:
    """Mean [smallest, largest]."""
    v = np.asarray(values, dtype=np.float64)
    return f"{v.mean():.3g} [{v.min():.3g}, {v.max():.3g}]"


def by_seed(values: Any) -> str:
    """Mean with its range over seeds."""
    v = np.asarray(values, dtype=np.float64)
    if len(v) == 1:
        return f"{v[0]:.2f} (1 seed)"
    return f"{v.mean():.2f} ({v.min():.2f} to {v.max():.2f}, {len(v)} seeds)"
