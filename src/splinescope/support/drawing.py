"""Drawings of results, looked up when asked for: the one place where what lies below `plot` reaches up to it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from .threads import ALONE


def drawing(name: str) -> Callable[..., Any]:
    """The function of that module and name in `splinescope.plot`: "tiling.plot_tiles"."""
    module, _, function = name.rpartition(".")
    with ALONE:
        return getattr(import_module(f"splinescope.plot.{module}"), function)


def drawn(name: str) -> Callable[..., Any]:
    """The method `plot` of a result that the function of that name draws, with the same options."""

    def plot(self: Any, *args: Any, **options: Any) -> Any:
        return drawing(name)(self, *args, **options)

    plot.__doc__ = f'Draw it (extra "plot"); the options are those of `splinescope.plot.{name}`.'
    return plot
