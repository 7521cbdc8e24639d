"""`splinescope complexity`, `normalization` and `representation`: what a network does with its data."""

from typing import Any

import click

from ._outputs import echo_result, json_option, plot_option, write_figure
from .inputs import MODEL_HELP, data_option, model_arguments, radius_option, read_model, read_rows, shape_option


@click.command("complexity", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@data_option
@radius_option
@click.option("--method", type=click.Choice(["frame", "distance"]), default="frame", show_default=True,
              help="frame: signs at the vertices x +- r v; distance: |z| / |grad z| <= r.")  # fmt: skip
@click.option("--directions", type=int, help="frame: number of directions; 25, or the input size if less.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random directions.")
@shape_option
@json_option
def complexity_command(
    model: str, weights: str | None, data: str, radius: Any, method: Any, directions: int | None, seed: int,
    shape: tuple[int, ...] | None, as_json: bool,
) -> None:  # fmt: skip
    """Count the folds of MODEL that pass near each data point.

    \b
    Examples:
      splinescope complexity net.onnx --data x.npy
      splinescope complexity mynet:build --weights w.safetensors --data x.npy --radius 0.05 --method distance --json
    """
    import torch

    from ..complexity import local_complexity

    network = read_model(model, weights)
    points = read_rows(data, shape, network)
    generator = torch.Generator().manual_seed(seed)
    found = local_complexity(network, points, radius=radius, method=method, directions=directions, generator=generator)
    totals = found.total.double()
    means = found.counts.double().mean(0).tolist()
    result: dict[str, Any] = {
        "points": len(points),
        "mean folds": float(totals.mean()),
        "least folds": int(totals.min()),
        "most folds": int(totals.max()),
        "neurons": sum(site.neurons for site in found.sites),
        "radius": found.radius,
        "share of neurons": float(found.share.mean()),
        "neighborhood": found.region,
        "what": found.what,
        **{f"mean folds, {name}": mean for name, mean in zip(found.names, means, strict=True)},
    }
    echo_result(result, as_json)


@click.command("normalization", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@data_option
@shape_option
@click.option("--batch-size", type=click.IntRange(min=1), help="Batch size used in training, to judge its noise.")
@json_option
def normalization_command(
    model: str, weights: str | None, data: str, shape: tuple[int, ...] | None, batch_size: int | None, as_json: bool
) -> None:
    """Find dead units, stale statistics and misplaced folds.

    Also finds unbalanced layers and batches that are too small.

    \b
    Example:
      splinescope normalization mypackage.nets:make --weights net.safetensors --data digits.npy --batch-size 32
    """
    from ..normalization import normalization_report

    network = read_model(model, weights)
    rows = read_rows(data, shape, network)
    report = normalization_report(network, rows if batch_size is None else list(rows.split(batch_size)))
    echo_result(report.records(), as_json, report.summary())


@click.command("representation", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@data_option
@shape_option
@click.option("--rows", type=click.IntRange(min=1), default=256, show_default=True, help="Use at most this many rows.")
@plot_option
@json_option
def representation_command(
    model: str, weights: str | None, data: str, shape: tuple[int, ...] | None, rows: int, plot: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Follow the geometry of a batch layer by layer.

    Rank, angles, lengths, sparsity and the odd point.

    \b
    Example:
      splinescope representation mypackage.nets:make --weights net.safetensors --data digits.npy --plot depth.png
    """
    from ..representation import representation_geometry

    network = read_model(model, weights)
    geometry = representation_geometry(network, read_rows(data, shape, network)[:rows])
    echo_result({"method": geometry.method, "layers": geometry.records()}, as_json, geometry.summary())
    write_figure(plot, geometry.plot, dpi=150)
