"""What the figures of the open questions share: panels, means over seeds with their intervals, rows of effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

Row = tuple[str, float, tuple[float, float], str]
"""Label, mean, ends of the interval, color."""


def panels(columns: int, rows: int = 1, height: float = 3.3) -> tuple[Figure, Sequence[Axes]]:
    """A figure 10.5 inches wide and its axes, row by row."""
    figure, axes = plt.subplots(rows, columns, figsize=(10.5, height * rows), layout="constrained", squeeze=False)
    for ax in axes.flat:
        ax.tick_params(labelsize=8)
        ax.xaxis.label.set_size(9)
        ax.yaxis.label.set_size(9)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, list(axes.flat)


def titled(ax: Axes, title: str) -> None:
    ax.set_title(title, fontsize=9.5, loc="left")


def legend(ax: Axes, **options: Any) -> None:
    ax.legend(**{"frameon": False, "fontsize": 7.5, **options})


def band(ax: Axes, x: Any, values: Any, color: str, label: str | None = None, **options: Any) -> None:
    """The mean over seeds, `values` being `[seeds, len(x)]`, and all of them between the least and the largest."""
    table = np.asarray(values, float)
    ax.plot(x, table.mean(0), color=color, label=label, lw=1.5, **options)
    ax.fill_between(x, table.min(0), table.max(0), color=color, alpha=0.18, lw=0)


def effects(ax: Axes, rows: Sequence[Row | None], line: float, *, labels: bool = True) -> None:
    """Means with intervals, one below the other, beside a line that stands for no effect; None leaves a gap."""
    ax.axvline(line, color="0.5", lw=1, ls="--")
    for place, row in enumerate(rows):
        if row is None:
            continue
        _, mean, (low, high), color = row
        ax.plot([low, high], [place, place], color=color, lw=1.6, solid_capstyle="butt")
        ax.plot([mean], [place], "o", ms=4.5, color=color)
    named = [(place, row[0]) for place, row in enumerate(rows) if row is not None and row[0]]
    ax.set_yticks([place for place, _ in named], [name for _, name in named] if labels else [""] * len(named))
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(axis="x", color="0.92", lw=0.6)
    ax.set_axisbelow(True)


def seeds_and_mean(ax: Axes, place: float, values: Any, ends: tuple[float, float], color: str) -> None:
    """Every seed as a dot, and beside them the mean with its interval."""
    ax.plot(np.full(len(values), place), values, "o", ms=3.5, color=color, alpha=0.5, mew=0)
    ax.plot([place + 0.2, place + 0.2], ends, color=color, lw=1.8)
    ax.plot([place + 0.2], [float(np.mean(values))], "o", ms=5, color=color)
