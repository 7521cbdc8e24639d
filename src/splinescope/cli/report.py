"""`splinescope report`: one page about a network and its data."""

from __future__ import annotations

import click

from ._outputs import check_outputs, echo_json, note
from .inputs import MODEL_HELP, block_options, listed, model_arguments, read_array, read_labels, read_model


@click.command("report", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@block_options
@click.option("--seed", default=0, show_default=True, help="Seed of everything random.")
@click.option("--out", type=click.Path(dir_okay=False), default="report.html", show_default=True,
              help="The page; the numbers go beside it as .json.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON instead of sentences.")
def command(
    model: str, weights: str | None, trust: bool, data: str, labels: str | None, shape: tuple[int, ...] | None,
    include: str | None, exclude: str | None, seed: int, out: str, as_json: bool,
) -> None:  # fmt: skip
    """Measure MODEL on data with everything that applies, and write one page about it.

    \b
    Examples:
      splinescope report net.onnx --data x.npy --labels y.npy --out net.html
      splinescope report mynet:build --weights w.safetensors --data x.npy --exclude curvature,surface
    """
    import torch

    from ..reports import report

    check_outputs(out)
    network = read_model(model, weights, trust=trust)
    points = torch.from_numpy(read_array(data, shape or getattr(network, "input_shape", None))).float()
    targets = None if labels is None else read_labels(labels)
    found = report(
        network, points, targets, out=out, seed=seed, title=f"Report on {model}",
        include=listed(include), exclude=listed(exclude) or (),
    )  # fmt: skip
    note(f"wrote {out} and its numbers as .json")
    if as_json:
        echo_json(found.records())
    else:
        click.echo(found.summary())
