"""What the verbs write: tables or JSON on stdout, pictures and pages in files, notes on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import numpy as np

from ..support.checks import check_choice, require
from ..support.display import table
from ..support.errors import InputError
from ..support.files import check_writable, replacing

if TYPE_CHECKING:
    from ..tiling import Tiling

_F = TypeVar("_F", bound=Callable[..., Any])


class Checked(click.ParamType):
    """What `check(value, option)` makes of a value or refuses, while options are read: before torch is loaded."""

    def __init__(self, name: str, check: Callable[[Any, str], Any]) -> None:
        self.name, self._check = name, check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._check(value, "it" if param is None else param.opts[-1])


def _written(*endings: str) -> Checked:
    def check(path: str, option: str) -> str:
        if endings and Path(path).suffix.lower() not in endings:
            raise InputError(f"{option} must end in {', '.join(endings)}, got {path!r}.")
        return str(check_writable(path))

    return Checked("FILE", check)


def _check_quantity(name: str, option: str) -> str:
    from ..tiling.measures.quantities import QUANTITIES

    return check_choice(name, option, tuple(QUANTITIES))


written_file, written_arrays = _written(), _written(".npz")
quantity_name = Checked("QUANTITY", _check_quantity)


def options(*decorators: Callable[[Any], Any]) -> Callable[[_F], _F]:
    """Several options as one decorator, listed by help in this order."""

    def decorate(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


json_option = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
quiet_option = click.option("--quiet", is_flag=True, help="No progress on stderr.")
plot_option = click.option("--plot", type=_written(".png", ".svg", ".pdf"), help="Write a picture: .png, .svg or .pdf.")
picture_options = options(
    plot_option,
    click.option("--html", type=written_file, help="Write a page to explore."),
    click.option("--color", type=quantity_name, default="slope", show_default=True,
                 help="What tiles are colored by: slope, area, class, ...; a wrong name lists them all."),
)  # fmt: skip
"""For every verb that has a tiling."""


def check_page(html: str | None, dimension: int) -> None:
    """Refuse a page of a line, or of four dimensions and more, before anything is written."""
    if html is not None and dimension not in (2, 3):
        what = "a line: --plot draws it as a graph" if dimension == 1 else f"{dimension}-D"
        raise InputError(f"--html shows planes and spaces, and this slice is {what}.")


def write_pictures(tiling: Tiling, *, plot: str | None, html: str | None, color: str, title: str) -> None:
    """The picture and the page that were asked for."""
    extra: dict[str, Any] = {"boundary": tiling.values is not None} if tiling.dimension == 2 else {}
    write_figure(plot, lambda: tiling.plot(color=color, **extra))
    write(html, lambda page: tiling.to_html(page, title=title, color=color))


def write(path: str | None, save: Callable[[str], Any]) -> None:
    """Save to a file that was asked for, and say so."""
    if path is not None:
        save(path)
        note(f"wrote {path}")


def write_figure(path: str | None, draw: Callable[[], Any], *, dpi: int = 200) -> None:
    """A drawing (what is called returns its axes, or the figure) as a picture in a file, if that was asked for."""
    if path is None:
        return
    require("matplotlib", "plot").use("Agg")
    from matplotlib import pyplot

    drawn = draw()
    figure = drawn if hasattr(drawn, "savefig") else drawn.get_figure(root=True)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=dpi)
    pyplot.close(figure)
    note(f"wrote {path}")


def write_arrays(path: str | None, arrays: dict[str, np.ndarray]) -> None:
    """Arrays into one .npz file, if that was asked for; whole or not at all."""
    if path is not None:
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        note(f"wrote {path}")


def note(text: str) -> None:
    """A line for the person, on stderr."""
    click.echo(text, err=True)


def echo_result(records: Any, as_json: bool, text: str | None = None) -> None:
    """A result on stdout: its records as one JSON document, or in words, by default those of `facts`."""
    if as_json:
        click.echo(json.dumps(records, indent=1))
    else:
        click.echo(facts(records.items()) if text is None else text)


def facts(pairs: Iterable[tuple[str, Any]]) -> str:
    """Names and values in two columns: floats to six figures, yes or no, - where there is nothing."""
    return table([(name, _cell(value)) for name, value in pairs])


def _cell(value: Any) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(_cell, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
