"""Drawings of training: a monitor's records, a timeline's curves with tilings below them, and a film."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.checks import require
from ..support.errors import InputError, MissingExtraError
from ..support.files import replacing
from ..tiling.measures.quantities import available, tile_quantity
from ._axes import new_axes
from .frame import tiling_frame
from .page import write_film_page
from .style import house_style
from .tiling import plot_tiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..complexity.timeline import Timeline

_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")


def plot_curves(story: Timeline, names: Sequence[str], ax: Axes | None = None, *, label: str) -> Axes:
    """Measures over training steps, on an axis that is linear up to 1 and logarithmic beyond."""
    ax = new_axes(ax)
    for name, color in zip(names, _COLORS, strict=False):
        text = name.split("/")[-1].removeprefix("tiles_near_").replace("_", " ")
        ax.plot(story.steps, story.measures[name], color=color, marker=".", label=text)
    ax.set_ylim(bottom=0)
    return _over_steps(ax, label, len(names) > 1)


def plot_records(
    records: Sequence[Mapping[str, Any]], names: Sequence[str] | None = None, ax: Axes | None = None, *,
    label: str = "measured",
) -> Axes:  # fmt: skip
    """Numbers of a monitor's records over training steps, on an axis that is linear up to 1 and logarithmic beyond.

    `names` are numbers, or groups of them by what their names begin with ("tokens/nearest"); by default those without
    a slash in their name: one per set of points, and the metrics; all where none is without.
    """
    if not records:
        raise InputError("there are no records to draw: call monitor.step(step) in the training loop first.")
    known = [
        name
        for name, value in records[-1].items()
        if isinstance(value, float) and name not in ("step", "seconds", "late")
    ]
    chosen = ([name for name in known if "/" not in name] or known) if names is None else list(names)
    groups = {name: [other for other in known if other.startswith(f"{name}/")] for name in chosen}
    chosen = [own for name in chosen for own in ([name] if name in known else groups[name] or [name])]
    if unknown := [name for name in chosen if name not in known]:
        raise InputError(f"names must be among {', '.join(known)}, got {', '.join(unknown)}.")
    ax = new_axes(ax)
    for name in chosen:
        rows = [(record["step"], record[name]) for record in records if name in record]
        ax.plot(*zip(*rows, strict=True), marker=".", label=name)
    return _over_steps(ax, label, bool(chosen))


def _over_steps(ax: Axes, label: str, legend: bool) -> Axes:
    """Training steps on an axis that is linear up to 1 and logarithmic beyond."""
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(left=0)
    ax.set(xlabel="training step", ylabel=label)
    if legend:
        ax.legend(frameon=False, fontsize="small")
    return ax


def plot_timeline(story: Timeline, *, at: Sequence[int] | None = None) -> Figure:
    """Local complexity, tiles near data and boundary, the boundary's length, slopes at the data, and some tilings.

    `at` are the checkpoints to draw, as indices; the first, a middle one and the last by default.
    """
    pyplot = require("matplotlib.pyplot", "plot")
    chosen = list(dict.fromkeys(at if at is not None else (0, len(story.steps) // 2, len(story.steps) - 1)))
    with house_style():
        figure = pyplot.figure(figsize=(4.2 * max(2, len(chosen)), 7.6), layout="constrained")
        top, bottom = figure.subfigures(2, 1, height_ratios=(3, 4))
        panels = {
            f"folds near points, r = {story.radius:g}": [
                name for name in story.measures if name.startswith("complexity/")
            ],
            f"tiles within {story.near:.3g} of": ["tiles_near_data", "tiles_near_boundary", "tiles_near_random"],
            "length of the decision boundary": ["boundary_length"],
            "slope norm at the data": ["slope_at_data"],
        }
        for ax, (label, names) in zip(top.subplots(1, len(panels)), panels.items(), strict=True):
            plot_curves(story, names, ax, label=label)
        limits = _limits(story)
        for ax, index in zip(np.atleast_1d(bottom.subplots(1, len(chosen))), chosen, strict=True):
            last = index == chosen[-1]
            plot_tiles(story.tilings[index], "slope", ax, boundary=True, limits=limits, colorbar=last)
            ax.set_title(f"step {story.steps[index]}: {story.tilings[index].count} tiles")
    figure_: Figure = figure
    return figure_


def film(story: Timeline, path: str | os.PathLike[str], *, frames_per_second: int = 2, dpi: int = 100) -> None:
    """Write the tilings of a timeline as a film: .gif, .webp, .mp4 where ffmpeg is installed, or an .html page.

    Tiles are colored by slope on one scale for all checkpoints; the decision boundary is red. The page is to explore,
    with a slider through time.
    """
    ending = check_film(path)
    if ending == ".html":
        frames = []
        for step, tiling in zip(story.steps, story.tilings, strict=True):
            shown = [name for name in ("slope", "class") if name in available(tiling)]
            frames.append({**tiling_frame(tiling, only=shown), "moment": f"step {step}: {tiling.count:,} tiles"})
        write_film_page(frames, path, title="Tiles through training", color=frames[0]["quantities"][0]["name"])
        return
    pyplot = require("matplotlib.pyplot", "plot")
    from matplotlib.animation import FFMpegWriter, PillowWriter

    figure = pyplot.figure(figsize=(6.4, 5.4), layout="constrained")
    limits = _limits(story)
    writer = (FFMpegWriter if ending == ".mp4" else PillowWriter)(fps=frames_per_second)
    with house_style(), replacing(path) as partial, writer.saving(figure, str(partial), dpi):
        for step, tiling in zip(story.steps, story.tilings, strict=True):
            figure.clear()
            ax = figure.add_subplot()
            plot_tiles(tiling, "slope", ax, boundary=True, limits=limits)
            ax.set_title(f"step {step}: {tiling.count} tiles")
            writer.grab_frame()
    pyplot.close(figure)


def check_film(path: str | os.PathLike[str]) -> str:
    """The ending of a film that can be written here."""
    ending = Path(path).suffix.lower()
    if ending not in (".gif", ".webp", ".mp4", ".html"):
        raise InputError(f"a film must end in .gif, .webp, .mp4 or .html, got {os.fspath(path)!r}.")
    if ending == ".mp4" and shutil.which("ffmpeg") is None:
        raise MissingExtraError("an .mp4 film needs the program ffmpeg, which is not on the path; write a .gif.")
    return ending


def _limits(story: Timeline) -> tuple[float, float]:
    """One color range for all tilings: the 1st and 99th percentile of their slopes, over at most four decades.

    Beyond that slopes are rounding: a network that is constant somewhere would take all the colors.
    """
    slopes = np.concatenate([tile_quantity(tiling, "slope").values for tiling in story.tilings])
    slopes = slopes[slopes > 0]
    if not len(slopes):
        return 0.1, 1.0
    low, high = np.percentile(slopes, (1, 99))
    return float(max(low, 1e-4 * high)), float(max(high, low * 1.01))
