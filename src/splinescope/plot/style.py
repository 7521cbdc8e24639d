"""The house style of all figures: `house.mplstyle` and, for dark pages, `dark.mplstyle`, both beside this file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..support.checks import require
from ..support.display import numbered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE = "splinescope.plot.house"
"""What matplotlib calls the style; axes that a user gives keep the user's own."""
DARK = "splinescope.plot.dark"
_MOST_NAMED = 16  # places whose names fit below a picture


def house_style(*, dark: bool | None = None) -> AbstractContextManager[None]:
    """A context in which new figures and axes get the house style; in dark colors if None and the user's own are."""
    matplotlib = require("matplotlib", "plot")
    if dark is None:
        red, green, blue = require("matplotlib.colors", "plot").to_rgb(matplotlib.rcParams["figure.facecolor"])
        dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
    styles = [STYLE, DARK] if dark else [STYLE]
    context: AbstractContextManager[None] = require("matplotlib.pyplot", "plot").style.context(styles)
    return context


def ink() -> str:
    """The color of lines that must be seen on the figure's own ground: dark on white, light on black."""
    color: str = require("matplotlib", "plot").rcParams["text.color"]
    return color


def name_places(ax: Axes, names: Sequence[str], what: str, places: Sequence[int] | None = None) -> None:
    """The horizontal axis of one mark a site or layer (at 0, 1, ... by default): its name where all fit."""
    if len(names) > _MOST_NAMED:
        whole_numbers(ax)
        ax.set_xlabel(f"{what}, numbered in order of execution")
        return
    slanted: dict[str, Any] = {"rotation": 45, "ha": "right"} if max(map(len, names)) > 4 else {}
    ax.set_xticks(range(len(names)) if places is None else places, numbered(names), **slanted)
    ax.set_xlabel(what)


def whole_numbers(ax: Axes) -> None:
    """Ticks of the horizontal axis at whole numbers only: places have no halves."""
    ax.xaxis.set_major_locator(require("matplotlib.ticker", "plot").MaxNLocator(integer=True, min_n_ticks=1))
