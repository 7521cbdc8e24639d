"""Data that several experiments share."""

from __future__ import annotations

import numpy as np
import torch

from splinescope import data


def circle(n: int) -> np.ndarray:
    """`[n, 2]` corners of a regular polygon."""
    turn = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """The 1797 8x8 digits as rows: inputs `[1797, 64]` scaled to [0, 1] in float64, labels `[1797]`."""
    images, labels = data.digits()
    return images.flatten(1).double(), labels
