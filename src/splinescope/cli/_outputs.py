"""What the verbs write: tables or JSON on stdout, pictures and pages in files, notes on stderr."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ..support.checks import require
from ..support.display import table
from ..support.errors import InputError, did_you_mean
from ..support.files import replacing

if TYPE_CHECKING:
    from ..reports.compare import ModelComparison
    from ..reports.report import Report
    from ..tiling import Tiling

_PICTURES = {".png", ".svg", ".pdf"}


class _WrittenFile(click.Path):
    """A file to write, refused while options are read, before anything that takes time is loaded."""

    def __init__(self, *, allow_dash: bool = False, picture: bool = False) -> None:
        super().__init__(dir_okay=False, allow_dash=allow_dash)
        self._picture = picture

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = str(super().convert(value, param, ctx))
        name = "it" if param is None else param.opts[-1]
        if self._picture and Path(path).suffix.lower() not in _PICTURES:
            raise InputError(f"{name} must end in .png, .svg or .pdf, got {path!r}.")
        if path != "-" and not Path(path).absolute().parent.is_dir():
            raise InputError(f"{path}: the folder {Path(path).parent} does not exist.")
        return path


written_file, written_picture = _WrittenFile(), _WrittenFile(picture=True)
written_or_piped = _WrittenFile(allow_dash=True)


class QuantityName(click.ParamType):
    """The name of a quantity of tiles; the table of them is looked up only when one is given: help stays fast."""

    name = "quantity"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from ..tiling.measures.quantities import QUANTITIES

        if value not in QUANTITIES:
            near = did_you_mean(value, QUANTITIES)
            self.fail(f"must be one of {', '.join(QUANTITIES)}, got {value!r}{near}", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from ..tiling.measures.quantities import QUANTITIES

        return [CompletionItem(name) for name in QUANTITIES if name.startswith(incomplete)]


def picture_options(command: Any) -> Any:
    """--plot, --html and --color, for every verb that has a tiling."""
    for option in (
        click.option("--color", type=QuantityName(), default="slope", show_default=True,
                     help="What tiles are coloured by: slope, area, class, ...; a wrong name lists them all."),
        click.option("--html", type=written_file, help="Write a page to explore."),
        click.option("--plot", type=written_picture, help="Write a picture: .png, .svg or .pdf."),
    ):  # fmt: skip
        command = option(command)
    return command


def check_page(html: str | None, dimension: int) -> None:
    """Refuse a page of a line, or of four dimensions and more, before anything is written."""
    if html is not None and dimension not in (2, 3):
        what = "a line: --plot draws it as a graph" if dimension == 1 else f"{dimension}-D"
        raise InputError(f"--html shows planes and spaces, and this slice is {what}.")


def write_pictures(tiling: Tiling, *, plot: str | None, html: str | None, color: str, title: str) -> None:
    """The picture and the page that were asked for."""
    if plot is not None:
        options: dict[str, Any] = {"boundary": tiling.values is not None} if tiling.dimension == 2 else {}
        write_figure(lambda: tiling.plot(color=color, **options), plot)
    if html is not None:
        tiling.to_html(html, title=title, color=color)
        note(f"wrote {html}")


def write_figure(draw: Callable[[], Any], path: str, *, dpi: int = 200) -> None:
    """A drawing (what is called returns its axes, or the figure) as a picture in a file."""
    require("matplotlib", "plot").use("Agg")
    from matplotlib import pyplot

    drawn = draw()
    figure = drawn if hasattr(drawn, "savefig") else drawn.get_figure(root=True)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=dpi)
    pyplot.close(figure)
    note(f"wrote {path}")


def write_to_stdout(tiling: Tiling) -> None:
    """The tiling's file, for a pipe."""
    with tempfile.TemporaryDirectory() as folder:
        tiling.save(Path(folder, "tiling"))
        with Path(folder, "tiling").open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


def tell_page(found: Report | ModelComparison, out: str, as_json: bool) -> None:
    """What verbs that write a page print: the numbers, or the result in words."""
    note(f"wrote {out} and its numbers as .json")
    if as_json:
        echo_json(found.records())
    else:
        click.echo(found.summary())


def note(text: str) -> None:
    """A line for the person, on stderr."""
    click.echo(text, err=True)


def echo_facts(facts: Iterable[tuple[str, Any]]) -> None:
    """Names and values in two columns on stdout: floats to six figures, yes or no, - where there is nothing."""
    click.echo(table([(name, _cell(value)) for name, value in facts]))


def echo_numbers(numbers: dict[str, Any], as_json: bool) -> None:
    """Numbers by name on stdout: as JSON, or in two columns."""
    if as_json:
        echo_json(numbers)
    else:
        echo_facts(numbers.items())


def echo_text(text: str, out: str | None) -> None:
    """Text on stdout, or in a file."""
    if out is None:
        click.echo(text)
    else:
        Path(out).write_text(text + "\n", encoding="utf-8")
        note(f"wrote {out}")


def _cell(value: Any) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(_cell, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def echo_json(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(value, indent=1))
