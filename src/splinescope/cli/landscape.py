"""`splinescope landscape`: the loss around a network's parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..support.checks import check_rows_of
from ..support.drawing import drawing
from ..support.errors import InputError
from ._outputs import echo_result, facts, json_option, plot_option, write, write_figure, written_file
from .inputs import MODEL_HELP, data_file, loss_name, model_arguments, read_array, read_labels, read_model

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..network import SplineNetwork


@click.command("landscape", epilog=f"MODEL is {MODEL_HELP}.")
@model_arguments
@click.option("--data", type=data_file, required=True,
              help="Inputs, one per row: .npy, .npz (FILE.npz:name), .csv or .pt; or a .npz with both, arrays "
                   '"x" and "y".')  # fmt: skip
@click.option("--labels", type=data_file,
              help="Class numbers, or one row of outputs each, in a file of the same kinds.")  # fmt: skip
@click.option("--loss", type=loss_name, default="squared", show_default=True,
              help="squared, mse, cross_entropy, bce or logistic; squared and mse compare class numbers with one-hot "
                   "rows.")  # fmt: skip
@click.option("--layer", help="Module path or parameter that moves, e.g. 2 or layer1.0.conv1; all by default.")
@click.option("--dimensions", type=click.IntRange(1, 2), default=2, show_default=True, help="Directions: 1 or 2.")
@click.option("--span", default=1.0, show_default=True, help="The grid reaches from -span to span.")
@click.option("--points", default=41, show_default=True, help="Grid points per axis.")
@click.option("--seed", default=0, show_default=True, help="Seed of the directions.")
@plot_option
@click.option("--html", type=written_file, help="Write a page to turn the 2-D surface.")
@json_option
def landscape_command(
    model: str, weights: str | None, data: str, labels: str | None, loss: str, layer: str | None,
    dimensions: int, span: float, points: int, seed: int, plot: str | None, html: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Sample the loss around MODEL's parameters.

    \b
    Examples:
      splinescope landscape my_models:net --weights net.safetensors --data train.npz --loss cross_entropy \\
          --plot surface.png --html surface.html
      splinescope landscape net.onnx --data x.npy --labels y.npy --loss cross_entropy --json
      splinescope landscape my_models:net --data train.npz --layer 2 --dimensions 1 --plot line.png
    """
    import torch

    from .. import landscape

    if html is not None and dimensions == 1:
        raise InputError("--html shows 2-D surfaces; leave out --dimensions 1, or use --plot.")
    network = read_model(model, weights)
    x, y = _fitting(*_load_data(data, labels), loss, network)
    generator = torch.Generator().manual_seed(seed)
    moves = landscape.random_directions(network, dimensions, layer=layer, generator=generator)
    result = landscape.loss_surface(network, x, y, moves, span=span, resolution=points, loss=loss)
    summary: dict[str, Any] = {"points": len(x), "loss": loss, "dimensions": dimensions}
    if points % 2:
        summary["center"] = float(result.losses[(points // 2,) * dimensions])
    summary |= {"least": float(result.losses.min()), "largest": float(result.losses.max()),
                "nonconvex_share": result.nonconvex_fraction, "certainty": result.certainty}  # fmt: skip
    write_figure(plot, lambda: result.plot(log=bool((result.losses > 0).all())))
    write(html, lambda page: drawing("landscape.write_surface_page")(result, page, title=model))
    finite = {k: None if isinstance(v, float) and v - v != 0 else v for k, v in summary.items()}  # for JSON
    echo_result(finite, as_json, facts((name.replace("_", " "), value) for name, value in summary.items()))


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
    if (shape := getattr(model, "input_shape", None)) is not None:
        x = check_rows_of(x, shape, "x")
    x, outputs = fitting_inputs(module, x.to(dtype) if x.is_floating_point() else x, dtype)
    if not outputs and not y.is_floating_point():
        raise InputError("--data: class numbers need a network of several outputs; give y as numbers.")
    return x, fitting_targets(loss, y, outputs, dtype)
