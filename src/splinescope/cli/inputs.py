"""What verbs take from the command line: models, arrays and slices, read without running anything but the factory."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..support.arrays import read_array, reader_of, split_name
from ..support.checks import check_file
from ..support.errors import InputError
from ..support.files import current_folder_first
from ._outputs import Checked, options

if TYPE_CHECKING:
    import torch

    from ..network import SplineNetwork
    from ..tiling import Slice

MODEL_HELP = "an .onnx or .nnet file, or package.module:factory (with --weights for trained ones)"
_FILES = (".onnx", ".nnet")


def _numbers(number: type[int] | type[float], least: float = -math.inf) -> Checked:
    """Numbers separated by commas: "1,28,28" as (1, 28, 28)."""

    def check(given: str, option: str) -> tuple[float, ...]:
        try:
            numbers = tuple(number(part) for part in given.split(","))
        except ValueError:
            kind = "whole numbers" if number is int else "numbers"
            raise InputError(f"{option} must be {kind} separated by commas, e.g. 2,3; got {given!r}.") from None
        if min(numbers) < least:
            raise InputError(f"{option} must be {least:g} or more, got {given!r}.")
        return numbers

    return Checked("NUMBERS", check)


def _check_radius(given: str, option: str) -> float | str:
    try:
        return "auto" if given == "auto" else float(given)
    except ValueError:
        raise InputError(f"{option} must be a number or auto, got {given!r}.") from None


def check_data_file(path: str) -> str:
    """`path`, refused unless a file of numbers is there."""
    file, _ = split_name(path)
    reader_of(file)
    check_file(file)
    return path


def _check_loss(name: str) -> str:
    from ..support.losses import named_loss

    named_loss(name, functions=False)
    return name


def check_model_name(model: str) -> str:
    """`model`, refused unless it is a file that exists or a factory in a module that can be found."""
    if Path(model).suffix in _FILES:
        check_file(model)
        return model
    module, colon, _ = model.partition(":")
    if not colon:
        raise InputError(f"MODEL must be {MODEL_HELP}; got {model!r}.")
    top = module.partition(".")[0]
    with current_folder_first():
        importlib.invalidate_caches()
        if not top or (top not in sys.modules and importlib.util.find_spec(top) is None):
            raise InputError(f"MODEL {model!r} was not found: No module named {top!r}.")
    return model


model_name = Checked("MODEL", lambda model, _option: check_model_name(model))
data_file = Checked("FILE", lambda path, _option: check_data_file(path))
loss_name = Checked("LOSS", lambda name, _option: _check_loss(name))
numbers, whole_numbers, shape_numbers = _numbers(float), _numbers(int), _numbers(int, 1)
_OUTPUT = "splinescope.output"


def _keep_pick(context: click.Context, _param: click.Parameter, value: str | None) -> None:
    index = value is not None and value.removeprefix("-").isdigit()
    context.meta[_OUTPUT] = int(value) if value is not None and index else value


def _picked() -> int | str | None:
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_OUTPUT)


pick_option = click.option(
    "--pick", metavar="OUTPUT", expose_value=False, callback=_keep_pick,
    help="Which of several outputs: its index or its name. Without it, an error lists them.",
)  # fmt: skip
"""Read by `read_model` from click's context, so that verbs need not hand it on."""
model_arguments = options(
    click.argument("model", type=model_name, metavar="MODEL"),
    click.option("--weights", type=click.Path(exists=True, dir_okay=False),
                 help="State dict for the factory's model: .safetensors, or .pt/.pth (read with weights_only=True)."),
    pick_option,
)  # fmt: skip
"""For every verb that takes a network; `read_model` takes their values."""
shape_option = click.option(
    "--shape", type=shape_numbers, help="Shape of one input, e.g. 1,28,28, to give flat rows their form."
)
data_option = click.option(
    "--data", type=data_file, required=True, help="Inputs, one per row: .npy, .npz (FILE.npz:name), .csv or .pt."
)
radius_option = click.option(
    "--radius", type=Checked("NUMBER|auto", _check_radius), default="auto", show_default=True,
    help="Size of the neighborhood; auto: half the data's spacing.",
)  # fmt: skip
slice_options = options(
    click.option("--slice", "kind", type=click.Choice(["through", "segment", "box", "axes"]), default="axes",
                 show_default=True,
                 help="through: the plane through 3 points (4: the space); segment: the line between 2; box: random "
                      "directions around 1; axes: along coordinate axes."),
    click.option("--points", type=data_file, help="Points, one per row: .npy, .npz (FILE.npz:name), .csv or .pt."),
    click.option("--rows", type=whole_numbers,
                 help="Which rows of --points, e.g. 3,14,15; the first ones by default (three of them for through)."),
    shape_option,
    click.option("--pad", default=0.0, show_default=True, help="through, segment: margin as a fraction of the size."),
    click.option("--outline", type=click.Choice(["square", "triangle", "box", "simplex"]), default="square",
                 show_default=True, help="through: a box around the points (square), or what they span (triangle)."),
    click.option("--half-width", default=1.0, show_default=True, help="box: half the side."),
    click.option("--directions", default=2, show_default=True, help="box: how many random directions."),
    click.option("--seed", default=0, show_default=True, help="box: seed of the random directions."),
    click.option("--axes", type=whole_numbers, default="0,1", show_default=True,
                 help="axes: one or more indices into the flat input."),
    click.option("--low", type=numbers, default="-1", show_default=True,
                 help="axes: lower ends, one number or one per axis."),
    click.option("--high", type=numbers, default="1", show_default=True, help="axes: upper ends."),
)  # fmt: skip
"""For every verb that needs a slice; `make_slice` takes their values."""


def read_model(
    model: str, weights: str | None = None, pick: int | str | None = None
) -> torch.nn.Module | SplineNetwork:
    """The model named on the command line: a file, or the return value of a factory, in evaluation mode."""
    check_model_name(model)
    pick = _picked() if pick is None else pick
    if Path(model).suffix in _FILES:
        from ..network import load

        if weights is not None:
            raise InputError(f"--weights goes with package.module:factory; {model} carries its own.")
        return load(model, output=pick)
    from ..network.outputs import Picked
    from ..train.checkpoints import made_by

    made = made_by(model, weights)
    return made if pick is None else Picked(made, pick).eval()


def read_rows(data: str, shape: tuple[int, ...] | None, *networks: Any) -> torch.Tensor:
    """Inputs in float64; flat rows get the given shape, or what a network knows."""
    import torch

    known = next((net.input_shape for net in networks if getattr(net, "input_shape", None) is not None), None)
    return torch.from_numpy(read_array(data, shape or known))


def read_labels(path: str) -> torch.Tensor:
    """Class numbers, if the file holds one whole number for each row, or targets."""
    import torch

    values = read_array(path)
    flat = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    whole = flat.ndim == 1 and bool((flat == flat.round()).all())
    return torch.from_numpy(flat).long() if whole else torch.from_numpy(values).float()


def in_python(model: str, weights: str | None, data: str, labels: str | None, shape: tuple[int, ...] | None) -> str:
    """The lines that read in Python what was named on the command line: `model`, `x` and `y`."""
    lines = [
        "import splinescope as ss",
        "from splinescope.cli.inputs import read_labels, read_model, read_rows",
        f"model = read_model({model!r}, {weights!r}, {_picked()!r})",
        f"x = read_rows({data!r}, {shape!r}, model).float()",
        f"y = {None if labels is None else f'read_labels({labels!r})'}",
    ]
    return "\n".join(lines)


def make_slice(
    model: torch.nn.Module | SplineNetwork, *, kind: str, points: str | None, rows: tuple[int, ...] | None,
    shape: tuple[int, ...] | None, pad: float, outline: Any, half_width: float, directions: int, seed: int,
    axes: tuple[int, ...], low: tuple[float, ...], high: tuple[float, ...],
) -> Slice:  # fmt: skip
    """The slice that the options describe; inputs have the shape given, or the one the model tells."""
    import torch

    from ..tiling import Slice

    shape = shape or getattr(model, "input_shape", None)
    needed = {"through": 3, "segment": 2}.get(kind, 1)
    if kind == "through" and rows is not None:
        needed = len(rows)  # any number of points spans a slice; Slice.through says how many
    chosen = _chosen_points(points, rows or tuple(range(needed)), needed, shape, optional=kind == "axes")
    if kind == "through":
        return Slice.through(*chosen, pad=pad, shape=outline)
    if kind == "segment":
        return Slice.segment(*chosen, pad=pad)
    if kind == "box":
        return Slice.box(chosen[0], directions, half_width, generator=torch.Generator().manual_seed(seed))
    return Slice.axes(chosen[0], axes, *(per_axis(*end, len(axes)) for end in ((low, "--low"), (high, "--high"))))


def _chosen_points(
    path: str | None, rows: tuple[int, ...], needed: int, shape: tuple[int, ...] | None, *, optional: bool
) -> np.ndarray:
    """`[needed, *shape]` rows of a file; the origin if no file is needed."""
    if path is None:
        if not optional:
            raise InputError("this slice needs --points FILE; --slice axes does without.")
        if shape is None:
            raise InputError("--slice axes needs --shape (or --points) for a model built by a function.")
        return np.zeros((1, *shape))
    points = read_array(path, shape)
    if points.ndim < 2:
        raise InputError(f"--points must hold one point per row, shape (N, ...), got {points.shape}.")
    if len(rows) != needed or not all(0 <= i < len(points) for i in rows):
        raise InputError(f"--rows must be in [0, {len(points)}), {needed} of them for this slice; got {list(rows)}.")
    return points[list(rows)]


def per_axis(ends: tuple[float, ...], option: str, count: int) -> list[float]:
    """One number per axis, from one for all or one each."""
    if len(ends) not in (1, count):
        raise InputError(f"{option} must be one number or one per axis ({count}), got {len(ends)}.")
    return list(ends) * (count if len(ends) == 1 else 1)
