"""What the verbs write: tables or JSON on stdout, pictures and pages in files, notes on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import numpy as np

from ..support.checks import require
from ..support.display import table
from ..support.errors import InputError, did_you_mean
from ..support.files import replacing

if TYPE_CHECKING:
    from ..tiling import Tiling

_F = TypeVar("_F", bound=Callable[..., Any])


class _WrittenFile(click.Path):
    """A file to write, refused while options are read, before anything that takes time is loaded."""

    def __init__(self, *endings: str) -> None:
        super().__init__(dir_okay=False)
        self._endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = str(super().convert(value, param, ctx))
        name = "it" if param is None else param.opts[-1]
        if self._endings and Path(path).suffix.lower() not in self._endings:
            raise InputError(f"{name} must end in {', '.join(self._endings)}, got {path!r}.")
        if not Path(path).absolute().parent.is_dir():
            raise InputError(f"{path}: the folder {Path(path).parent} does not exist.")
        return path


written_file, written_arrays, written_image = _WrittenFile(), _WrittenFile(".npz"), _WrittenFile(".png")
_PICTURE = _WrittenFile(".png", ".svg", ".pdf")


class QuantityName(click.ParamType):
    """The name of a quantity of tiles; the table of them is looked up only when one is given: help stays fast."""

    name = "quantity"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from ..tiling.measures.quantities import QUANTITIES

        if value not in QUANTITIES:
            near = did_you_mean(value, QUANTITIES)
            self.fail(f"must be one of {', '.join(QUANTITIES)}, got {value!r}{near}", param, ctx)
        return value


def options(*decorators: Callable[[Any], Any]) -> Callable[[_F], _F]:
    """Several options as one decorator, listed by help in this order."""

    def decorate(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


json_option = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
quiet_option = click.option("--quiet", is_flag=True, help="No progress on stderr.")
plot_option = click.option("--plot", type=_PICTURE, help="Write a picture: .png, .svg or .pdf.")
picture_options = options(
    plot_option,
    click.option("--html", type=written_file, help="Write a page to explore."),
    click.option("--color", type=QuantityName(), default="slope", show_default=True,
                 help="What tiles are coloured by: slope, area, class, ...; a wrong name lists them all."),
)  # fmt: skip
"""For every verb that has a tiling."""


def check_page(html: str | None, dimension: int) -> None:
    """Refuse a page of a line, or of four dimensions and more, before anything is written."""
    if html is not None and dimension not in (2, 3):
        what = "a line: --plot draws it as a graph" if dimension == 1 else f"{dimension}-D"
        raise InputError(f"--html shows planes and spaces, and this slice is {what}.")


def write_pictures(tiling: Tiling, *, plot: str | None, html: str | None, color: str, title: str) -> None:
    """The picture and the page that were asked for."""
    if plot is not None:
        extra: dict[str, Any] = {"boundary": tiling.values is not None} if tiling.dimension == 2 else {}
        write_figure(lambda: tiling.plot(color=color, **extra), plot)
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


def write_arrays(path: str, arrays: dict[str, np.ndarray]) -> None:
    """Arrays into one .npz file, whole or not at all."""
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    note(f"wrote {path}")


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


def echo_result(text: str, records: Any, as_json: bool) -> None:
    """A result on stdout: its numbers as JSON, or its words."""
    if as_json:
        echo_json(records)
    else:
        click.echo(text)


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
