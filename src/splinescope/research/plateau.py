"""When a number recorded in training has come to rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..support.errors import InputError


def plateaued(
    steps: Sequence[int],
    values: Sequence[float],
    *,
    patience: int = 4,
    tolerance: float = 0.1,
    span: float = 2.0,
    earliest: int = 10,
) -> bool:
    """Whether a number recorded at ascending steps has moved, and over the last stretch hardly moves any more.

    The stretch reaches from the last record back to the last one at `1 / span` of its step, further if it would hold
    fewer than `patience` records. There is a plateau if it begins at step `earliest` or later and the largest and the
    smallest value on it differ by no more than `tolerance` of how far all values lie apart.

    Example:
        >>> steps, values = [0, 1, 2, 4, 8, 16, 32, 64, 128], [9.0, 9.0, 8.9, 8.0, 6.5, 5.0, 5.1, 5.0, 5.05]
        >>> plateaued(steps[:3], values[:3]), plateaued(steps, values)
        (False, True)
    """
    at, known = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    if at.shape != known.shape or at.ndim != 1:
        raise InputError(f"steps and values must be as many numbers, got shapes {at.shape} and {known.shape}.")
    early = np.flatnonzero(at <= at[-1] / span) if len(at) else at[:0]
    if not len(early) or len(at) < patience:
        return False
    first = min(int(early[-1]), len(at) - patience)
    finite = known[np.isfinite(known)]
    moved = float(np.ptp(finite)) if len(finite) else 0.0
    return bool(at[first] >= earliest and moved > 0 and np.ptp(known[first:]) <= tolerance * moved)
