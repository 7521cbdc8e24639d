"""`splinescope representation`: a batch through the depth of a model."""

from __future__ import annotations

import json

import click

from ..support.errors import InputError
from ._outputs import echo_text, write_figure, written_file, written_picture
from .inputs import MODEL_HELP, data_option, model_arguments, read_model, read_rows, shape_option


@click.command("representation", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@data_option
@shape_option
@click.option(
    "--rows", type=click.IntRange(min=0), default=256, show_default=True, help="Use at most this many rows (0: all)."
)
@click.option("--train-mode", is_flag=True, help="Run in train mode: batch norm uses the batch's own statistics.")
@click.option("--json", "as_json", is_flag=True, help="Numbers as JSON instead of a table.")
@click.option("--out", type=written_file, help="Write to this file instead of stdout.")
@click.option("--plot", type=written_picture, help="Also draw ranks, angles and the last layer: .png, .svg or .pdf.")
def command(
    model: str, weights: str | None, trust: bool, data: str, shape: tuple[int, ...] | None, rows: int,
    train_mode: bool, as_json: bool, out: str | None, plot: str | None,
) -> None:  # fmt: skip
    """Follow the geometry of a batch layer by layer.

    Rank, angles, lengths, sparsity and the odd point.

    \b
    Example:
      splinescope representation mypackage.nets:make --weights net.safetensors --data digits.npy --plot depth.png
    """
    from torch import nn

    from ..representation import representation_geometry

    network = read_model(model, weights, trust=trust)
    if train_mode:
        if not isinstance(network, nn.Module):
            raise InputError("--train-mode goes with package.module:factory; files have no train mode.")
        network.train()
    batch = read_rows(data, shape, network)[: rows or None]
    geometry = representation_geometry(network, batch)
    records = {"method": geometry.method, "layers": geometry.records()}
    echo_text(json.dumps(records, indent=1) if as_json else geometry.summary(), out)
    if plot is not None:
        write_figure(geometry.plot, plot, dpi=150)
