"""The options that lay a slice, for every verb that needs one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
import numpy as np

from ..support.errors import InputError
from .inputs import data_file, read_array, shape_option

if TYPE_CHECKING:
    from torch import nn

    from ..network import SplineNetwork
    from ..tiling import Slice

_F = TypeVar("_F", bound=Callable[..., Any])

_OPTIONS = [
    click.option("--slice", "kind", type=click.Choice(["through", "segment", "box", "axes"]), default="axes",
                 show_default=True,
                 help="through: the plane of 3 points, the space of 4...; segment: the line of 2; box: random "
                      "directions about 1; axes: along coordinate axes."),
    click.option("--points", type=data_file, help="Points, one per row: .npy, .npz (FILE.npz:name), .csv or .pt."),
    click.option("--rows", help="Which rows of --points, e.g. 3,14,15; the first ones by default "
                                "(three of them for through)."),
    shape_option,
    click.option("--pad", default=0.0, show_default=True, help="through, segment: margin as a fraction of the size."),
    click.option("--outline", type=click.Choice(["square", "triangle", "box", "simplex"]), default="square",
                 show_default=True, help="through: a box about the points (a square), or what they span (a triangle)."),
    click.option("--half-width", default=1.0, show_default=True, help="box: half the side."),
    click.option("--directions", default=2, show_default=True, help="box: how many random directions."),
    click.option("--seed", default=0, show_default=True, help="box: seed of the random directions."),
    click.option("--axes", default="0,1", show_default=True, help="axes: one or more indices into the flat input."),
    click.option("--low", default="-1", show_default=True, help="axes: lower ends, one number or one per axis."),
    click.option("--high", default="1", show_default=True, help="axes: upper ends."),
]  # fmt: skip


def slice_options(command: _F) -> _F:
    """Add the options of a slice; `make_slice` takes their values."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def make_slice(
    model: nn.Module | SplineNetwork, *, kind: str, points: str | None, rows: str | None,
    shape: tuple[int, ...] | None, pad: float, outline: Any, half_width: float, directions: int, seed: int,
    axes: str, low: str, high: str,
) -> Slice:  # fmt: skip
    """The slice that the options describe; inputs have the shape given, or the one the model tells."""
    import torch

    from ..tiling import Slice

    shape = shape or getattr(model, "input_shape", None)
    needed = {"through": 3, "segment": 2}.get(kind, 1)
    if kind == "through" and rows is not None:
        needed = len(_whole_numbers(rows, "--rows"))  # any number of points spans a slice; Slice.through says how many
    chosen = _chosen_points(points, rows, needed, shape, optional=kind == "axes")
    if kind == "through":
        return Slice.through(*chosen, pad=pad, shape=outline)
    if kind == "segment":
        return Slice.segment(*chosen, pad=pad)
    if kind == "box":
        return Slice.box(chosen[0], directions, half_width, generator=torch.Generator().manual_seed(seed))
    numbers = _whole_numbers(axes, "--axes")
    ends = [numbers_per_axis(text, name, len(numbers)) for text, name in ((low, "--low"), (high, "--high"))]
    return Slice.axes(chosen[0], numbers, *ends)


def _chosen_points(
    path: str | None, rows: str | None, needed: int, shape: tuple[int, ...] | None, *, optional: bool
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
    numbers = list(range(needed)) if rows is None else _whole_numbers(rows, "--rows")
    if len(numbers) != needed:
        raise InputError(f"--rows must be {needed} row numbers for this slice, got {len(numbers)}.")
    if not all(0 <= i < len(points) for i in numbers):
        raise InputError(f"--rows must be in [0, {len(points)}), the rows of {path}; got {numbers}.")
    return points[numbers]


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} must be numbers separated by commas, e.g. 0,1; got {text!r}.") from None


def _whole_numbers(text: str, option: str) -> list[int]:
    numbers = _numbers(text, option)
    if not all(number.is_integer() for number in numbers):
        raise InputError(f"{option} must be whole numbers separated by commas, e.g. 0,1; got {text!r}.")
    return [int(number) for number in numbers]


def numbers_per_axis(text: str, option: str, count: int) -> list[float]:
    """One number per axis, from one for all or one each."""
    numbers = _numbers(text, option)
    if len(numbers) not in (1, count):
        raise InputError(f"{option} must be one number or one per axis ({count}), got {len(numbers)}.")
    return numbers * (count if len(numbers) == 1 else 1)
