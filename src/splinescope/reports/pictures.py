"""Pictures of blocks: for light and for dark pages, and on common scales where several stand side by side."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..plot.style import house_style
from ..support.checks import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .block import ReportBlock

_INCHES = (5.6, 3.6)
_DARK = dict.fromkeys(("figure.facecolor", "savefig.facecolor", "axes.facecolor", "legend.facecolor"), "#202326")
"""The ground of the dark page."""


def pictures(blocks: Sequence[ReportBlock], *, dark: bool = False) -> list[bytes | None]:
    """PNG files of blocks that show the same of different networks (or of one block); None where nothing is drawn."""
    matplotlib = require("matplotlib", "plot")
    from matplotlib.figure import Figure as NewFigure

    with house_style(dark=dark), matplotlib.rc_context(_DARK if dark else {}):
        figures = {i: NewFigure(figsize=_INCHES, layout="constrained") for i, b in enumerate(blocks) if b.draw}
        ranges = [blocks[i].colors for i in figures]
        known = [one for one in ranges if one is not None]
        common = (min(low for low, _ in known), max(high for _, high in known)) if known else None
        for i, figure in figures.items():
            blocks[i].draw_on(figure, common if len(figures) > 1 else None)
        share_scales(list(figures.values()))
        return [_png(figures[i]) if i in figures else None for i in range(len(blocks))]


def share_scales(figures: Sequence[Figure]) -> None:
    """Give corresponding charts of several figures the same limits, so that what is taller is more.

    Maps of planes (axes of equal aspect) and color bars keep theirs.
    """
    rows = [[ax for ax in figure.axes if ax.get_label() != "<colorbar>"] for figure in figures]
    if len({len(row) for row in rows}) > 1:
        return
    for axes in zip(*rows, strict=True):
        if len({_kind(ax) for ax in axes}) == 1 and axes[0].get_aspect() == "auto":
            for get, put in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
                ends = [getattr(ax, get)() for ax in axes]
                for ax in axes:
                    getattr(ax, put)(min(low for low, _ in ends), max(high for _, high in ends))


def _kind(ax: Axes) -> tuple[str, str, str, str]:
    return ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale(), ax.get_yscale()


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=140)
    return stream.getvalue()
