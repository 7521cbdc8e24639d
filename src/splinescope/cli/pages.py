"""`splinescope report` and `compare`: a page about one network and its data, or about several side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..support.checks import check_file
from ..support.errors import InputError
from ._outputs import echo_result, json_option, note, options, written_file
from .inputs import (
    MODEL_HELP,
    check_model_name,
    data_file,
    data_option,
    in_python,
    loss_name,
    model_arguments,
    pick_option,
    read_labels,
    read_model,
    read_rows,
    shape_option,
)

if TYPE_CHECKING:
    from ..reports.compare import ModelComparison
    from ..reports.report import Report

_F = TypeVar("_F", bound=Callable[..., Any])


def _page_options(page: str) -> Callable[[_F], _F]:
    """The options of both verbs; `page` is where the page goes by default."""
    return options(
        data_option,
        click.option("--labels", type=data_file,
                     help="Class numbers or targets, one per row, in a file of the same kinds."),
        shape_option,
        click.option("--include", multiple=True, callback=_listed,
                     help="Only these blocks, e.g. tiles,complexity; may be given again."),
        click.option("--exclude", multiple=True, callback=_listed, help="All blocks but these; may be given again."),
        click.option("--seed", default=0, show_default=True, help="Seed of everything random."),
        click.option("--loss", type=loss_name,
                     help="squared, mse, cross_entropy, bce or logistic. The default follows from --labels and is "
                          "printed."),
        click.option("--out", type=written_file, default=lambda: _unused(page),
                     help="Where to write the page; the numbers go beside it as .json. A file of this name is "
                          f"replaced. Without it, {page} is written unless it is there already."),
        json_option,
    )  # fmt: skip


def _listed(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[str]:
    """What an option that may be given again names: ("tiles, folds", "depth") as ["tiles", "folds", "depth"]."""
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def _unused(page: str) -> str:
    if Path(page).exists():
        raise InputError(f"{page} is there already: give --out {page} to replace it, or another name.")
    return page


def _measure(
    measure: Callable[..., Report | ModelComparison], subject: Any, networks: list[Any], *, data: str,
    labels: str | None, shape: tuple[int, ...] | None, include: list[str], out: str, as_json: bool, before: str = "",
    **chosen: Any,
) -> None:  # fmt: skip
    x = read_rows(data, shape, *networks).float()
    y = None if labels is None else read_labels(labels)
    found = measure(subject, x, y, include=include or None, out=out, **chosen)
    note(f"wrote {out} and its numbers as .json")
    echo_result(found.records(), as_json, found.summary() + before)


@click.command("report", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@_page_options("report.html")
def report_command(model: str, weights: str | None, **chosen: Any) -> None:
    """Measure everything about MODEL and write one page.

    \b
    Examples:
      splinescope report net.onnx --data x.npy --labels y.npy --out net.html
      splinescope report mynet:build --weights w.safetensors --data x.npy --exclude curvature,surface
    """
    from ..reports import report

    network = read_model(model, weights)
    lines = in_python(model, weights, chosen["data"], chosen["labels"], chosen["shape"])
    before = f"\nRun before a call of these, in Python:\n{lines}"
    _measure(report, network, [network], title=f"Report on {model}", before=before, **chosen)


@click.command("compare", epilog=f"MODEL is {MODEL_HELP}.")
@click.argument("models", metavar="[NAME=]MODEL...", nargs=-1, required=True)
@click.option("--weights", multiple=True, metavar="[NAME=]FILE",
              help="Parameters, as for the other verbs; may be given again. After one MODEL each FILE is a column; "
                   "after several, NAME says whose they are.")  # fmt: skip
@pick_option
@_page_options("comparison.html")
def compare_command(models: tuple[str, ...], weights: tuple[str, ...], **chosen: Any) -> None:
    """Measure several networks on the same data.

    Takes two or more models, or checkpoints of one, and writes a page with a column for each.

    \b
    Examples:
      splinescope compare plain.onnx normed.onnx --data x.npy --labels y.npy
      splinescope compare mynet:build --weights early=step-100.safetensors --weights late=step-9000.safetensors \\
        --data x.npy --labels y.npy
      splinescope compare plain=mynet:plain normed=mynet:normed --weights plain=p.pt --weights normed=n.pt --data x.npy
    """
    columns = _columns(models, weights)
    for model, file in columns.values():
        check_model_name(model)
        if file is not None:
            check_file(file)
    from ..reports import compare_models

    networks = {name: read_model(*source) for name, source in columns.items()}
    _measure(compare_models, networks, list(networks.values()), **chosen)


def _columns(models: tuple[str, ...], weights: tuple[str, ...]) -> dict[str, tuple[str, str | None]]:
    """Name of each column -> MODEL and its file of parameters, from what stands on the command line."""
    named, files = _named(models, "MODEL"), _named(weights, "FILE")
    if len(models) == 1 and weights:
        ((name, model),) = named.items()
        if name != model:
            raise InputError(f"after one MODEL columns are named by --weights NAME=FILE: write {model} alone.")
        return {name: (model, file) for name, file in files.items()}
    if unknown := sorted(set(files) - set(named)):
        raise InputError(
            f"after several networks --weights NAME=FILE says whose parameters they are; got {', '.join(unknown)}, "
            f"the networks are {', '.join(named)}."
        )
    return {name: (model, files.get(name)) for name, model in named.items()}


def _named(given: tuple[str, ...], what: str) -> dict[str, str]:
    """NAME=PATH by name; without one, and where such a file exists, a path is its own name."""
    named: dict[str, str] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            name = path = text
        if name in named:
            raise InputError(f"two columns are called {name!r}: write NAME={what} for one of them.")
        named[name] = path
    return named
