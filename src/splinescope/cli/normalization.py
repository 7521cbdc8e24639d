"""`splinescope normalization`: a lint for a network's folds on its data."""

from __future__ import annotations

import json

import click

from ._outputs import echo_text, written_file
from .inputs import MODEL_HELP, data_option, model_arguments, read_model, read_rows, shape_option


@click.command("normalization", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@data_option
@shape_option
@click.option("--batch-size", type=click.IntRange(min=1), help="Batch size used in training, to judge its noise.")
@click.option("--json", "as_json", is_flag=True, help="Numbers as JSON instead of tables.")
@click.option("--out", type=written_file, help="Write to this file instead of stdout.")
def command(
    model: str, weights: str | None, trust: bool, data: str, shape: tuple[int, ...] | None, batch_size: int | None,
    as_json: bool, out: str | None,
) -> None:  # fmt: skip
    """Find dead units, stale statistics and misplaced folds.

    Also finds unbalanced layers and batches that are too small.

    \b
    Example:
      splinescope normalization mypackage.nets:make --weights net.safetensors --data digits.npy --batch-size 32
    """
    from ..normalization import normalization_report

    network = read_model(model, weights, trust=trust)
    rows = read_rows(data, shape, network)
    report = normalization_report(network, rows if batch_size is None else list(rows.split(batch_size)))
    echo_text(json.dumps(report.records(), indent=1) if as_json else report.summary(), out)
