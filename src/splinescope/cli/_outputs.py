"""What the verbs write: tables or JSON on stdout, pictures and pages in files, notes on stderr."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._checks import require
from .._errors import InputError
from .._files import replacing

if TYPE_CHECKING:
    from ..tiling import Tiling

COLORS = ("slope", "area", "depth", "class", "value", "active")
_PICTURES = {".png", ".svg", ".pdf"}


def picture_options(command: Any) -> Any:
    """--plot, --html and --color, for every verb that has a tiling."""
    for option in (
        click.option("--color", type=click.Choice(COLORS), default="slope", show_default=True,
                     help="What tiles are coloured by."),
        click.option("--html", type=click.Path(dir_okay=False), help="Write a page to explore."),
        click.option("--plot", type=click.Path(dir_okay=False), help="Write a picture: .png, .svg or .pdf."),
    ):  # fmt: skip
        command = option(command)
    return command


def check_outputs(*paths: str | None, plot: str | None = None) -> None:
    """Refuse what cannot be written before the long work starts."""
    if plot is not None and Path(plot).suffix.lower() not in _PICTURES:
        raise InputError(f"--plot must end in .png, .svg or .pdf, got {plot!r}.")
    for path in (*paths, plot):
        if path is not None and not Path(path).absolute().parent.is_dir():
            raise InputError(f"{path}: the folder {Path(path).parent} does not exist.")


def write_pictures(tiling: Tiling, *, plot: str | None, html: str | None, color: str, title: str) -> None:
    """The picture and the page that were asked for."""
    if plot is not None:
        require("matplotlib", "plot").use("Agg")
        from matplotlib import pyplot

        from ..plot import plot_graph

        if tiling.dimension == 1:
            ax = plot_graph(tiling)
        else:
            ax = tiling.plot(color=color, boundary=tiling.values is not None)
        with replacing(plot) as partial:
            ax.figure.savefig(partial, dpi=200)
        pyplot.close(ax.figure)
        note(f"wrote {plot}")
    if html is not None:
        tiling.to_html(html, title=title, color=color)
        note(f"wrote {html}")


def note(text: str) -> None:
    """A line for the person, on stderr."""
    click.echo(text, err=True)


def echo_json(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(value, indent=1))
