"""`splinescope report`: one page about a network and its data."""

from __future__ import annotations

import click

from ._outputs import tell_page
from .inputs import MODEL_HELP, listed, model_arguments, page_options, read_data, read_model


@click.command("report", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@page_options("report.html", "sentences")
def command(
    model: str, weights: str | None, trust: bool, data: str, labels: str | None, shape: tuple[int, ...] | None,
    include: tuple[str, ...], exclude: tuple[str, ...], seed: int, out: str, loss: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Measure everything about MODEL and write one page.

    \b
    Examples:
      splinescope report net.onnx --data x.npy --labels y.npy --out net.html
      splinescope report mynet:build --weights w.safetensors --data x.npy --exclude curvature,surface
    """
    from ..reports import report

    network = read_model(model, weights, trust=trust)
    x, y = read_data(data, labels, shape, network)
    found = report(
        network, x, y, out=out, loss=loss, seed=seed, title=f"Report on {model}",
        include=listed(include) if include else None, exclude=listed(exclude),
    )  # fmt: skip
    tell_page(found, out, as_json)
