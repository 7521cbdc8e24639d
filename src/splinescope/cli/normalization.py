"""`splinescope normalization`: a lint for a network's folds on its data."""

from __future__ import annotations

import json

import click

from ._outputs import echo_text, written_file
from .inputs import data_file, model_argument, pick_option, read_array, read_model, shape_option, weights_option


@click.command("normalization")
@model_argument
@click.option(
    "--data", type=data_file, required=True, help="Inputs: .npy, .npz (or FILE.npz:name), .csv or .pt, one per row."
)
@weights_option
@pick_option
@shape_option
@click.option("--batch-size", type=click.IntRange(min=1), help="Batch size used in training, to judge its noise.")
@click.option("--json", "as_json", is_flag=True, help="Numbers as JSON instead of tables.")
@click.option("--out", type=written_file, help="Write to this file instead of stdout.")
def command(
    model: str,
    data: str,
    weights: str | None,
    shape: tuple[int, ...] | None,
    batch_size: int | None,
    as_json: bool,
    out: str | None,
) -> None:
    """Find dead units, stale statistics and misplaced folds.

    Also finds unbalanced layers and batches that are too small. MODEL is an .onnx or .nnet file, or
    package.module:factory.

    \b
    Example:
      splinescope normalization mypackage.nets:make --weights net.safetensors --data digits.npy --batch-size 32
    """
    import torch

    from ..normalization import normalization_report

    network = read_model(model, weights)
    rows = torch.from_numpy(read_array(data, shape or getattr(network, "input_shape", None)))
    report = normalization_report(network, rows if batch_size is None else list(rows.split(batch_size)))
    text = json.dumps(report.records(), indent=1) if as_json else report.summary()
    echo_text(text, out)
