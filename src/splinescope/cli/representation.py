"""`splinescope representation`: a batch through the depth of a model."""

from __future__ import annotations

import json

import click

from ..support.errors import InputError
from ._outputs import echo_text, write_figure, written_file, written_picture
from .inputs import data_file, model_argument, pick_option, read_array, read_model, shape_option, weights_option


@click.command("representation")
@model_argument
@click.option(
    "--data",
    type=data_file,
    required=True,
    help="Batch of inputs: .npy, .npz (or FILE.npz:name), .csv or .pt, one per row.",
)
@weights_option
@pick_option
@shape_option
@click.option(
    "--rows", type=click.IntRange(min=0), default=256, show_default=True, help="Use at most this many rows (0: all)."
)
@click.option("--train-mode", is_flag=True, help="Run in train mode: batch norm uses the batch's own statistics.")
@click.option("--json", "as_json", is_flag=True, help="Numbers as JSON instead of a table.")
@click.option("--out", type=written_file, help="Write to this file instead of stdout.")
@click.option(
    "--plot",
    type=written_picture,
    help="Also draw ranks, angles and the last layer: .png, .svg or .pdf.",
)
def command(
    model: str,
    data: str,
    weights: str | None,
    shape: tuple[int, ...] | None,
    rows: int,
    train_mode: bool,
    as_json: bool,
    out: str | None,
    plot: str | None,
) -> None:
    """Follow the geometry of a batch layer by layer.

    Rank, angles, lengths, sparsity and the odd point. MODEL is an .onnx or .nnet file, or package.module:factory.

    \b
    Example:
      splinescope representation mypackage.nets:make --weights net.safetensors --data digits.npy --plot depth.png
    """
    import torch
    from torch import nn

    from ..representation import representation_geometry

    network = read_model(model, weights)
    batch = torch.from_numpy(read_array(data, shape or getattr(network, "input_shape", None)))
    batch = batch[:rows] if rows > 0 else batch
    if isinstance(network, nn.Module):
        if train_mode:
            network.train()
    elif train_mode:
        raise InputError("--train-mode goes with package.module:factory; files have no train mode.")
    geometry = representation_geometry(network, batch)
    records = {"method": geometry.method, "layers": geometry.records()}
    text = json.dumps(records, indent=1) if as_json else geometry.summary()
    echo_text(text, out)
    if plot is not None:
        write_figure(geometry.plot, plot, dpi=150)
