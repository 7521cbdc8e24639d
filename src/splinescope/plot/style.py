"""The house style of all figures: `house.mplstyle` and, for dark pages, `dark.mplstyle`, both beside this file."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..support.checks import require

STYLE = "splinescope.plot.house"
"""What matplotlib calls the style; axes that a user gives keep the user's own."""


def house_style() -> AbstractContextManager[None]:
    """A context in which new figures and axes get the house style: sizes and colours are read when they are made."""
    context: AbstractContextManager[None] = require("matplotlib.pyplot", "plot").style.context(STYLE)
    return context
