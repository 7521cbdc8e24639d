"""What the experiments on "Batch Normalization Decomposed" share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .._checks import require


def subplots(columns: int, rows: int = 1) -> tuple[Any, Any]:
    """A figure of 4 x 3.4 inch panels and its axes, always a flat array."""
    pyplot = require("matplotlib.pyplot", "plot")
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(4.4 * columns, 3.5 * rows), layout="constrained", squeeze=False
    )
    return figure, axes.ravel()


def circle(n: int) -> np.ndarray:
    """`[n, 2]` corners of a regular polygon."""
    turn = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """The 1797 8x8 digits: inputs `[1797, 64]` scaled to [0, 1] in float64, labels `[1797]`."""
    x, y = require("sklearn.datasets", "data").load_digits(return_X_y=True)
    return torch.from_numpy(x / 16.0), torch.from_numpy(y)


def spread(values: Any) -> str:
    """Smallest to largest of some numbers, as text."""
    v = np.asarray(values, dtype=np.float64)
    return f"{v.min():.3g} to {v.max():.3g}"


def log_ticks(ax: Any, values: Any) -> None:
    """A logarithmic x axis marked at these values only."""
    ax.set_xscale("log")
    ax.set_xticks([int(v) for v in values], [str(int(v)) for v in values])
    ax.set_xticks([], minor=True)
