"""`splinescope compare`: reports on several networks, or on checkpoints of one, side by side."""

from __future__ import annotations

from pathlib import Path

import click

from ..support.checks import check_file
from ..support.errors import InputError
from ._outputs import tell_page
from .inputs import MODEL_HELP, check_model_name, listed, page_options, pick_option, read_data, read_model, trust_option


@click.command("compare", epilog=f"MODEL is {MODEL_HELP}.")
@click.argument("models", metavar="[NAME=]MODEL...", nargs=-1, required=True)
@click.option(
    "--weights",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Parameters, as for the other verbs; may be given again. After one MODEL each FILE is a column; after "
    "several, NAME says whose they are.",
)
@trust_option
@pick_option
@page_options("comparison.html", "a table")
def command(
    models: tuple[str, ...], weights: tuple[str, ...], trust: bool, data: str, labels: str | None,
    shape: tuple[int, ...] | None, include: tuple[str, ...], exclude: tuple[str, ...], seed: int, out: str,
    loss: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Measure several networks on the same data.

    Takes two or more models, or checkpoints of one, and writes a page with a column for each.

    \b
    Examples:
      splinescope compare plain.onnx normed.onnx --data x.npy --labels y.npy
      splinescope compare mynet:build --weights early=step-100.safetensors --weights late=step-9000.safetensors \\
        --data x.npy --labels y.npy
      splinescope compare plain=mynet:plain normed=mynet:normed --weights plain=p.pt --weights normed=n.pt --data x.npy
    """
    chosen = columns(models, weights)
    for model, file in chosen.values():
        check_model_name(model)
        _ = None if file is None else check_file(file)
    from ..reports import compare_models

    networks = {name: read_model(*source, trust=trust) for name, source in chosen.items()}
    x, y = read_data(data, labels, shape, *networks.values())
    found = compare_models(
        networks, x, y, out=out, loss=loss, seed=seed,
        include=listed(include) if include else None, exclude=listed(exclude),
    )  # fmt: skip
    tell_page(found, out, as_json)


def columns(models: tuple[str, ...], weights: tuple[str, ...]) -> dict[str, tuple[str, str | None]]:
    """Name of each column -> MODEL and its file of parameters, from what stands on the command line."""
    named = _named(models, "MODEL")
    if len(models) == 1 and weights:
        ((name, model),) = named.items()
        if name != model:
            raise InputError(f"after one MODEL columns are named by --weights NAME=FILE: write {model} alone.")
        return {name: (model, file) for name, file in _named(weights, "FILE").items()}
    files = _named(weights, "FILE")
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
