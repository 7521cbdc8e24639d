"""Models, weights, points and slices as the commands name them. Nothing here runs code from a file unasked."""

from __future__ import annotations

import importlib
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import numpy as np

from .._errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from ..network import SplineNetwork
    from ..tiling import Slice

MODEL_HELP = """MODEL is an ONNX or .nnet file; or package.module:factory, a function without arguments that returns
a torch module (with --weights, its parameters); or a torch.export .pt2 archive with --trust."""

_F = TypeVar("_F", bound=Callable[..., Any])


def model_arguments(command: _F) -> _F:
    """MODEL, --weights and --trust, for every verb that takes a network."""
    command = click.option(
        "--trust", is_flag=True, help="Allow a .pt2 archive: loading one can run code, so only from people you trust."
    )(command)
    command = click.option(
        "--weights", type=click.Path(exists=True, dir_okay=False),
        help="Parameters for package.module:factory: a .safetensors file, or a state dict in .pt/.pth.",
    )(command)  # fmt: skip
    return click.argument("model")(command)


def slice_options(command: _F) -> _F:
    """The options that lay a slice, for every verb that needs one."""
    for option in reversed(_SLICE_OPTIONS):
        command = option(command)
    return command


_SLICE_OPTIONS = [
    click.option("--slice", "kind", type=click.Choice(["through", "segment", "box", "axes"]), required=True,
                 help="through: the plane of 3 points; segment: the line of 2; box: a random plane about 1; "
                      "axes: along coordinate axes."),
    click.option("--points", type=click.Path(exists=True, dir_okay=False),
                 help="Points, one per row: .npy, .npz, .csv or .pt."),
    click.option("--rows", help="Which rows of --points, e.g. 3,14,15; the first ones by default."),
    click.option("--input-shape", help="Shape of one input, e.g. 1,28,28, where file and model do not tell it."),
    click.option("--pad", default=0.0, show_default=True, help="through, segment: margin as a fraction of the size."),
    click.option("--shape", type=click.Choice(["square", "triangle"]), default="square", show_default=True,
                 help="through: what is tiled of the plane."),
    click.option("--half-width", default=1.0, show_default=True, help="box: half the side."),
    click.option("--seed", default=0, show_default=True, help="box: seed of the random plane."),
    click.option("--axes", default="0,1", show_default=True, help="axes: one or two indices into the flat input."),
    click.option("--low", default="-1", show_default=True, help="axes: lower ends, one number or one per axis."),
    click.option("--high", default="1", show_default=True, help="axes: upper ends."),
]  # fmt: skip


def load_model(text: str, *, weights: str | None = None, trust: bool = False) -> nn.Module | SplineNetwork:
    """The network that a MODEL argument names, in eval mode."""
    path = Path(text)
    suffix = path.suffix.lower()
    if suffix in {".onnx", ".nnet", ".pt2"}:
        if weights is not None:
            raise InputError(f"--weights goes with package.module:factory; {path.name} has its own.")
        if not path.is_file():
            raise InputError(f"MODEL {text}: no such file.")
        if suffix == ".pt2":
            return _load_archive(path, trust)
        from ..network import load

        return load(path)
    if ":" in text and not path.exists():
        return _build(text, weights)
    raise InputError(f"MODEL must be a .onnx, .nnet or .pt2 file, or package.module:factory; got {text!r}.")


def _load_archive(path: Path, trust: bool) -> nn.Module:
    if not trust:
        raise InputError(f"{path.name}: loading a .pt2 archive can run code; add --trust if you trust its author.")
    import torch

    try:
        return torch.export.load(path).module()
    except (RuntimeError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{path.name} is not a readable .pt2 archive: {_first_line(error)}") from error


def _build(text: str, weights: str | None) -> nn.Module:
    """Import `package.module`, call `factory`, load the weights."""
    from torch import nn

    name, _, factory = text.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules beside the user, as with `python -m`
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"MODEL {text}: cannot import {name}: {error}") from error
    build = getattr(module, factory, None)
    if not callable(build):
        raise InputError(f"MODEL {text}: {name} has no function {factory!r}.")
    model = build()
    if not isinstance(model, nn.Module):
        raise InputError(f"MODEL {text}: {factory} must return a torch.nn.Module, got {type(model).__name__}.")
    if weights is not None:
        try:
            model.load_state_dict(load_weights(weights))
        except RuntimeError as error:
            raise InputError(f"--weights {weights} does not fit {text}: {' '.join(str(error).split())}") from error
    return model.eval()


def load_weights(path: str) -> dict[str, Any]:
    """A state dict from .safetensors, or from a torch file with weights_only=True: no code is run."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if Path(path).suffix.lower() == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, RuntimeError, EOFError, ValueError, _unpickling_error()) as error:
        raise InputError(
            f"--weights {path} is not a safetensors file or plain state dict: {_first_line(error)}"
        ) from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict):
        raise InputError(f"--weights {path} must hold a state dict, got {type(state).__name__}.")
    return state


def load_points(path: str) -> np.ndarray:
    """`[N, ...]` points from .npy, .npz (its one array, or the one named "points" or "x"), .csv or .pt."""
    suffix = Path(path).suffix.lower()
    try:
        if suffix == ".npy":
            points = np.load(path, allow_pickle=False)
        elif suffix == ".npz":
            points = _one_array(path)
        elif suffix == ".csv":
            points = np.loadtxt(path, delimiter=",", ndmin=2)
        elif suffix in {".pt", ".pth"}:
            points = _tensor(path)
        else:
            raise InputError(f"--points must be a .npy, .npz, .csv or .pt file, got {Path(path).name!r}.")
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--points {path} cannot be read: {_first_line(error)}") from error
    if points.ndim < 2:
        raise InputError(f"--points must hold one point per row, shape (N, ...), got {points.shape}.")
    return points


def _one_array(path: str) -> np.ndarray:
    with np.load(path, allow_pickle=False) as file:
        names = [name for name in ("points", "x") if name in file.files] or file.files
        if len(names) != 1:
            raise InputError(f'--points {path} must hold one array, or one named "points"; got {", ".join(names)}.')
        return np.asarray(file[names[0]])


def _tensor(path: str) -> np.ndarray:
    import torch

    try:
        value = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, _unpickling_error()) as error:
        raise InputError(f"--points {path} must hold a tensor: {_first_line(error)}") from error
    if not isinstance(value, torch.Tensor):
        raise InputError(f"--points {path} must hold a tensor, got {type(value).__name__}.")
    return value.double().numpy()


def make_slice(
    model: nn.Module | SplineNetwork, *, kind: str, points: str | None, rows: str | None, input_shape: str | None,
    pad: float, shape: Any, half_width: float, seed: int, axes: str, low: str, high: str,
) -> Slice:  # fmt: skip
    """The slice that the options of `slice_options` describe."""
    import torch

    from ..tiling import Slice

    wanted = _shape(model, input_shape)
    needed = {"through": 3, "segment": 2}.get(kind, 1)
    chosen = _chosen_points(points, rows, needed, wanted, optional=kind == "axes")
    if kind == "through":
        return Slice.through(*chosen, pad=pad, shape=shape)
    if kind == "segment":
        return Slice.segment(*chosen, pad=pad)
    if kind == "box":
        return Slice.box(chosen[0], half_width=half_width, generator=torch.Generator().manual_seed(seed))
    numbers = [int(i) for i in _numbers(axes, "--axes")]
    return Slice.axes(chosen[0], numbers, *(_per_axis(text, name, len(numbers)) for text, name in
                                           ((low, "--low"), (high, "--high"))))  # fmt: skip


def _chosen_points(
    path: str | None, rows: str | None, needed: int, wanted: tuple[int, ...] | None, optional: bool
) -> np.ndarray:
    if path is None:
        if not optional:
            raise InputError("this slice needs --points FILE; --slice axes does without.")
        if wanted is None:
            raise InputError("--slice axes needs --input-shape (or --points) for a model built by a function.")
        return np.zeros((1, *wanted))
    points = load_points(path)
    numbers = list(range(needed)) if rows is None else [int(i) for i in _numbers(rows, "--rows")]
    if len(numbers) != needed:
        raise InputError(f"--rows must be {needed} row numbers for this slice, got {len(numbers)}.")
    if not all(-len(points) <= i < len(points) for i in numbers):
        raise InputError(f"--rows must be in [0, {len(points)}), the rows of {Path(path).name}; got {numbers}.")
    points = points[numbers]
    if wanted is None or points.shape[1:] == wanted:
        return points
    if np.prod(points.shape[1:]) != np.prod(wanted):
        raise InputError(f"--points must be inputs of shape {wanted}, got {points.shape[1:]}.")
    return points.reshape(needed, *wanted)


def _shape(model: nn.Module | SplineNetwork, text: str | None) -> tuple[int, ...] | None:
    if text is not None:
        return tuple(int(n) for n in _numbers(text, "--input-shape"))
    known = getattr(model, "input_shape", None)
    return None if known is None else tuple(known)


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} must be numbers separated by commas, e.g. 0,1; got {text!r}.") from None


def _per_axis(text: str, option: str, count: int) -> list[float]:
    numbers = _numbers(text, option)
    if len(numbers) not in (1, count):
        raise InputError(f"{option} must be one number or one per axis ({count}), got {len(numbers)}.")
    return numbers * (count if len(numbers) == 1 else 1)


def _unpickling_error() -> type[Exception]:
    from pickle import UnpicklingError

    return UnpicklingError


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
