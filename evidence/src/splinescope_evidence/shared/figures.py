"""How experiments draw: panels of one size, ticks at the sizes that were run."""

from __future__ import annotations

from typing import Any

from matplotlib import pyplot

PAGE = 7.6
"""Inches across a page: letters of a figure that is no wider are shown at their size."""


def subplots(columns: int, rows: int = 1, *, width: float = 4.4, height: float = 3.5) -> tuple[Any, Any]:
    """A figure of panels of this many inches and its axes, always a flat array."""
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False
    )
    return figure, axes.ravel()


def log_ticks(ax: Any, values: Any) -> None:
    """A logarithmic x axis marked at these values only."""
    ax.set_xscale("log")
    ax.set_xticks([int(v) for v in values], [str(int(v)) for v in values])
    ax.set_xticks([], minor=True)
