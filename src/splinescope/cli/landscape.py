"""`splinescope landscape`: the loss around a network's parameters."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..support.checks import check_rows_of
from ..support.errors import InputError
from ._outputs import echo_facts, echo_json, note, write_figure, written_file, written_picture
from .inputs import MODEL_HELP, data_file, loss_name, model_arguments, read_array, read_labels, read_model

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..network import SplineNetwork


@click.command("landscape", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@click.option(
    "--data",
    type=data_file,
    required=True,
    help='Inputs, one per row: .npy, .npz (FILE.npz:name), .csv or .pt; or a .npz with both, arrays "x" and "y".',
)
@click.option(
    "--labels", type=data_file, help="Class numbers, or one row of outputs each, in a file of the same kinds."
)
@click.option(
    "--loss",
    type=loss_name,
    default="squared",
    show_default=True,
    help="squared, mse, cross_entropy, bce or logistic; squared and mse compare class numbers with one-hot rows.",
)
@click.option("--layer", help="Module path or parameter that moves, e.g. 2 or layer1.0.conv1; all by default.")
@click.option("--exact", is_flag=True, help="Exact pieces of the squared error along random directions of --layer.")
@click.option("--certified", is_flag=True, help="Squared error with a proven error on every grid cell; any layers.")
@click.option("--dimensions", type=click.IntRange(1, 2), default=2, show_default=True, help="Directions: 1 or 2.")
@click.option("--span", default=1.0, show_default=True, help="The section reaches from -span to span.")
@click.option("--points", default=41, show_default=True, help="Grid points, or certified cells, per axis.")
@click.option(
    "--batch-norm",
    type=click.Choice(["fixed", "reestimate"]),
    default="fixed",
    show_default=True,
    help="Running statistics: as they are, or taken anew at each grid point.",
)
@click.option("--curvature", is_flag=True, help="Also the spectrum of the curvature matrix at the parameters.")
@click.option("--seed", default=0, show_default=True, help="Seed of directions and estimates.")
@click.option("--max-tiles", type=int, default=200_000, show_default=True,
              help="--exact in 2-D: stop with an error beyond this many pieces.")  # fmt: skip
@click.option("--plot", type=written_picture, help="Write a picture: .png, .svg or .pdf.")
@click.option("--html", type=written_file, help="Write a page to turn the sampled 2-D surface.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
def command(
    model: str, weights: str | None, trust: bool, data: str, labels: str | None, loss: str, layer: str | None,
    exact: bool, certified: bool, dimensions: int, span: float, points: int, batch_norm: str, curvature: bool,
    seed: int, max_tiles: int, plot: str | None, html: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Measure the loss around MODEL's parameters.

    Gives a sampled or certified surface, or with --exact the pieces of the loss.

    \b
    Examples:
      splinescope landscape my_models:net --weights net.safetensors --data train.npz --loss cross_entropy \\
          --plot surface.png --html surface.html
      splinescope landscape net.onnx --data x.npy --labels y.npy --loss cross_entropy --curvature
      splinescope landscape my_models:net --data train.npz --exact --layer 2 --dimensions 1 --plot line.png
      splinescope landscape my_models:net --data train.npz --certified --span 0.2 --points 16 --html surface.html
      splinescope landscape my_models:net --data train.npz --layer 2 --curvature --json | jq .curvature
    """
    import torch

    from .. import landscape

    if html is not None and (exact or dimensions == 1):
        raise InputError("--html shows sampled 2-D surfaces; leave out --exact and --dimensions 1, or use --plot.")
    if exact and certified:
        raise InputError("--exact and --certified exclude each other: leave one out.")
    if (exact or certified) and loss != "squared":
        raise InputError("--exact and --certified need --loss squared: only the squared error has quadratic pieces.")
    if (exact or certified) and batch_norm != "fixed":
        raise InputError("--batch-norm reestimate goes with sampled surfaces: leave out --exact and --certified.")
    network = read_model(model, weights, trust=trust)
    x, y = _fitting(*_load_data(data, labels), loss, network)
    generator = torch.Generator().manual_seed(seed)
    moves = landscape.random_directions(network, dimensions, layer=layer, generator=generator)
    summary: dict[str, Any] = {"points": len(x), "loss": loss, "dimensions": dimensions, "exact": exact,
                               "certified": certified}  # fmt: skip
    result: Any
    if exact:
        if layer is None and dimensions == 2:
            raise InputError(
                "--exact in 2-D needs --layer: when all layers move the pieces are not quadratic; use --certified."
            )
        if layer is None:
            result = landscape.polynomial_section(network, x, y, moves[0], span=span)
        else:
            result = landscape.loss_section(network, x, y, moves, span=span, max_tiles=max_tiles)
        value, where = result.minimum
        summary |= {"pieces": result.count, "degree": result.degree, "minimum": value, "at": where.tolist()}
    else:
        if certified:
            result = landscape.certified_surface(network, x, y, moves, span=span, cells=points)
            summary |= {"largest_error": float(result.errors.max()), "proven_least": float(result.lower.min())}
        else:
            result = landscape.loss_surface(
                network, x, y, moves, span=span, resolution=points, loss=loss, batch_norm=batch_norm,  # type: ignore[arg-type]
            )  # fmt: skip
        if points % 2:
            summary["center"] = float(result.losses[(points // 2,) * dimensions])
        summary |= {"least": float(result.losses.min()), "largest": float(result.losses.max()),
                    "nonconvex_share": result.nonconvex_fraction}  # fmt: skip
    if curvature:
        matrix = landscape.curvature(network, x, y, loss=loss, layer=layer)
        summary["curvature"] = asdict(landscape.spectrum_summary(matrix, generator=generator))
    summary["certainty"] = result.certainty
    _pictures(result, exact, plot, html, title=model)
    if as_json:
        echo_json(_finite(summary))
    else:
        echo_facts(_flat(summary))


def _load_data(path: str, labels: str | None) -> tuple[Tensor, Tensor]:
    """Inputs and targets: from two files, or from one that holds both."""
    import torch

    if labels is not None:
        return torch.from_numpy(read_array(path)), read_labels(labels)
    if Path(path).suffix.lower() != ".npz":
        raise InputError(
            f'a loss needs targets: give --labels FILE beside --data {Path(path).name}, or a .npz with "x" and "y".'
        )
    return torch.from_numpy(read_array(f"{path}:x")), read_labels(f"{path}:y")


def _fitting(x: Tensor, y: Tensor, loss: str, model: nn.Module | SplineNetwork) -> tuple[Tensor, Tensor]:
    """The data as the network takes them; class numbers as rows of outputs where the loss compares these."""
    from ..landscape.inputs import check_model, fitting_inputs, precision_of
    from ..support.losses import fitting_targets

    module = check_model(model)
    dtype = precision_of(module)
    if len(x) == 0:
        return x, y
    if (shape := getattr(model, "input_shape", None)) is not None:
        x = check_rows_of(x, shape, "x")
    x, outputs = fitting_inputs(module, x.to(dtype) if x.is_floating_point() else x, dtype)
    if not outputs and not y.is_floating_point():
        raise InputError("--data: class numbers need a network of several outputs; give y as numbers.")
    return x, fitting_targets(loss, y, outputs, dtype)


def _pictures(result: Any, exact: bool, plot: str | None, html: str | None, title: str) -> None:
    if plot is not None:
        options = {} if exact else {"log": bool((result.losses > 0).all())}
        write_figure(lambda: result.plot(**options), plot)
    if html is not None:
        from ..plot.landscape import write_surface_page

        write_surface_page(result, html, title=title)
        note(f"wrote {html}")


def _finite(value: Any) -> Any:
    """The same with None for what JSON has no number for."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(summary: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in summary.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{name} ")
        else:
            rows.append((prefix + name.replace("_", " "), value))
    return rows
