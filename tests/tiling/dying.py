"""Work that ends its process: what a killed worker, or one out of memory, looks like from outside."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


def once(number: int, mark: str, common: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Number 1 dies if the mark is not there yet; what all have in common is not used."""
    if number == 1 and not os.path.exists(mark):
        Path(mark).touch()
        os._exit(9)
    return {"number": np.array([number])}


def always(number: int) -> dict[str, np.ndarray]:
    """Number 1 dies."""
    if number == 1:
        os._exit(9)
    return {"number": np.array([number])}
