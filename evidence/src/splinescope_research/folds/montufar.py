"""Montufar's count of the pieces that a constructed ReLU network reaches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from splinescope.tiling import zaslavsky


def montufar(d: int, widths: Sequence[int]) -> int:
    """A lower bound on the largest number of pieces over all weights of a ReLU network on d inputs.

    `prod_{l<L} floor(n_l / d)^d * sum_{j<=d} C(n_L, j)`, for widths n_1..n_L all at least d. Constructed networks
    reach it; networks with random weights are far below.

    Example:
        >>> montufar(1, [5, 5, 5])
        150

    Reference: Montufar, Pascanu, Cho, Bengio, "On the number of linear regions of deep neural networks", 2014.
    """
    return prod((width // d) ** d for width in widths[:-1]) * zaslavsky(widths[-1], d)
