"""The house style of all figures: `house.mplstyle` and, for dark pages, `dark.mplstyle`, both beside this file."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..support.checks import require

STYLE = "splinescope.plot.house"
"""What matplotlib calls the style; axes that a user gives keep the user's own."""
DARK = "splinescope.plot.dark"


def house_style(*, dark: bool | None = None) -> AbstractContextManager[None]:
    """A context in which new figures and axes get the house style; in dark colours if None and the user's own are."""
    matplotlib = require("matplotlib", "plot")
    if dark is None:
        red, green, blue = require("matplotlib.colors", "plot").to_rgb(matplotlib.rcParams["figure.facecolor"])
        dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
    styles = [STYLE, DARK] if dark else [STYLE]
    context: AbstractContextManager[None] = require("matplotlib.pyplot", "plot").style.context(styles)
    return context


def ink() -> str:
    """The colour of lines that must be seen on the figure's own ground: dark on white, light on black."""
    color: str = require("matplotlib", "plot").rcParams["text.color"]
    return color
