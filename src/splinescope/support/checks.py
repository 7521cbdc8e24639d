"""Argument checks shared by all parts: each states expected, received, possible."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import FileFormatError, InputError, MissingExtraError, SplinescopeError, did_you_mean

if TYPE_CHECKING:
    import torch
    from torch import nn


def as_float64_array(value: Any, name: str) -> np.ndarray:
    """`value` (tensor, array, nested lists) as a finite float64 numpy array."""
    import torch  # here, not above: help on the command line does without it

    refuse_collections(value, name)
    if value is None:
        raise InputError(f"{name} must be numbers (array, tensor or nested lists), got None.")
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy() if value.dtype != torch.bfloat16 else value.detach().float().cpu().numpy()
    got = type(value).__name__
    try:
        if np.iscomplexobj(value):
            got = "complex numbers"
            raise TypeError
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers (array, tensor or nested lists), got {got}.") from error
    check_finite(array, name)
    return array


def as_rows(value: Any, name: str) -> torch.Tensor:
    """`value` as a detached tensor `[N, ...]`: how every function that is given data reads it."""
    import torch

    refuse_collections(value, name)
    try:
        rows = torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        got = type(value).__name__ if hasattr(value, "__iter__") else repr(value)
        raise InputError(f"{name} must be a tensor or array of shape (N, ...), got {got}.") from error
    if rows.dim() == 0 or rows.is_complex():
        got = f"numbers of {rows.dtype}" if rows.is_complex() else f"the single number {rows.item():g}"
        raise InputError(f"{name} must be a tensor or array of shape (N, ...) of real numbers, got {got}.")
    return rows


def refuse_collections(value: Any, name: str) -> None:
    """Refuse data sets and loaders with how to collect them; torch and numpy would read some as numbers, wrongly."""
    if hasattr(value, "__getitem__") or hasattr(value, "__iter__"):
        from torch.utils.data import DataLoader, Dataset

        if isinstance(value, (Dataset, DataLoader)):
            raise InputError(
                f"{name} must be a tensor or array of shape (N, ...), got {type(value).__name__}; of a loader take "
                "x, y = map(torch.cat, zip(*loader)), of a Dataset first loader = DataLoader(dataset, batch_size=256)."
            )


def check_module(model: Any, name: str = "model", *, read: bool = True) -> nn.Module:
    """`model`, refused unless it is a torch module, with how to get one from what was given instead.

    `read` tells whether the function at hand also takes the result of `trace` or `load`.
    """
    from torch import nn

    if isinstance(model, nn.Module):
        return model
    accepted = "a torch.nn.Module or the result of trace or load" if read else "a torch.nn.Module"
    raise InputError(f"{name} must be {accepted}, got {type(model).__name__}{_how_to_get_a_module(model)}.")


def _how_to_get_a_module(given: Any) -> str:
    """What to do with parameters, a path, a class or a function that came in place of a module; else nothing."""
    import torch

    if isinstance(given, Mapping):
        tensors = [value for value in given.values() if isinstance(value, torch.Tensor)]
        inside = next((f"[{key!r}]" for key, value in given.items() if isinstance(value, Mapping)), "")
        if tensors or inside:
            return f": it holds parameters, not layers; build the module and call module.load_state_dict(given{inside})"
    if isinstance(given, (str, os.PathLike)):
        if Path(given).suffix.lower() in (".onnx", ".nnet"):
            return f": read the file first, ss.load({os.fspath(given)!r})"
        return (
            f": ss.load reads .onnx and .nnet files; for parameters build the module and call "
            f"module.load_state_dict(torch.load({os.fspath(given)!r}))"
        )
    if isinstance(given, type):
        return f": {given.__name__} is a class; give {given.__name__}()"
    return ": wrap the function in the forward of a torch.nn.Module" if callable(given) else ""


def check_finite(array: np.ndarray, name: str) -> None:
    """Refuse NaN and infinities, naming the first one."""
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InputError(f"{name} must be finite, got {array[where]} at index {where} ({int(bad.sum())} such values).")


def as_points(points: Any, dimension: int) -> np.ndarray:
    """Places in a slice's own coordinates as `[N, d]` float64; in 1-D also `[N]`."""
    array = as_float64_array(points, "points")
    if dimension == 1 and array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != dimension:
        raise InputError(f"points must have shape (N, {dimension}), got {array.shape}.")
    return array


def check_positive(value: float, name: str) -> float:
    """`value` as a float, refused unless it is a finite number > 0."""
    try:
        number = float(value) if not isinstance(value, (bool, str)) else np.nan
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number > 0):
        raise InputError(f"{name} must be a positive number, got {value!r}.")
    return number


def check_whole(value: Any, name: str, *, least: int = 1, most: int | None = None) -> int:
    """`value` as an int, refused unless it is a whole number of at least `least` (and at most `most`)."""
    try:
        ok = not isinstance(value, bool) and int(value) == value
    except (TypeError, ValueError, OverflowError):
        ok = False
    if not ok or value < least or (most is not None and value > most):
        possible = f">= {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name} must be a whole number {possible}, got {value!r}.")
    return int(value)


def check_index(value: Any, name: str, count: int) -> int:
    """`value` as an int in [0, count)."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < count:
        raise InputError(f"{name} must be in [0, {count}), got {value!r}.")
    return int(value)


def check_generator(generator: Any) -> torch.Generator | None:
    """`generator`, refused unless it is a `torch.Generator` or None."""
    import torch

    if not (generator is None or isinstance(generator, torch.Generator)):
        raise InputError(f"generator must be a torch.Generator, got {type(generator).__name__}.")
    return generator


def check_file(path: str | os.PathLike[str]) -> Path:
    """`path` as a Path, refused unless a file is there: what every reader does first."""
    try:
        file = Path(path)
    except TypeError as error:
        raise InputError(f"path must be a file name, got {type(path).__name__}.") from error
    if not file.is_file():
        raise InputError(f"path must be an existing file, got {str(file)!r}.")
    return file


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Where a file is read: whatever a damaged one makes its reader raise becomes a `FileFormatError`."""
    try:
        yield
    except (SplinescopeError, PermissionError):
        raise
    except Exception as error:  # readers of protobuf, zip and npy raise many unrelated types
        said = " ".join(str(error).split()) or "it is damaged"
        if isinstance(error, KeyError):  # says the key alone
            said = f"it has no {said}"
        kind = Path(path).suffix or "data"
        raise FileFormatError(f"{path} is not a readable {kind} file: {said}") from error


def check_choice(value: str, name: str, choices: tuple[str, ...]) -> str:
    """`value`, refused unless it is one of `choices`."""
    if not (isinstance(value, str) and value in choices):
        known = ", ".join(map(repr, choices))
        raise InputError(f"{name} must be one of {known}, got {value!r}{did_you_mean(value, choices)}")
    return value


def no_batch_axis(shape: Sequence[int], row: Sequence[int], name: str) -> str:
    """What to do, where one row was given for a batch of them; else nothing."""
    return f": the batch axis is missing, give {name}[None]" if tuple(shape) == tuple(row) else ""


def check_rows_of(x: torch.Tensor, shape: tuple[int, ...], name: str) -> torch.Tensor:
    """`x` as rows of `shape`: rows of as many numbers in another form take it; others are refused with the shape."""
    expected = tuple(shape)
    if x.dim() == 0 or x[:1].numel() != len(x[:1]) * int(np.prod(expected)):
        wanted = ", ".join(map(str, expected))
        raise InputError(
            f"{name} must have shape (N, {wanted}), or rows of as many numbers, got "
            f"{tuple(x.shape)}{no_batch_axis(x.shape, expected, name)}."
        )
    return x.reshape(len(x), *expected)


@contextmanager
def running_on(x: torch.Tensor, *, forward: bool = True) -> Iterator[None]:
    """Where a model first meets its input: what it raises on its own account as one sentence about both.

    `forward` tells whether the function at hand takes `forward=`.
    """
    try:
        yield
    except SplinescopeError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        said = str(error).strip().splitlines()
        hint = " (give forward= if it is called otherwise, as by m(inputs_embeds=x))" if forward else ""
        raise InputError(
            f"the model must run on x, here {x.dtype} rows of shape {tuple(x.shape[1:])}{hint}; "
            f"{type(error).__name__}{': ' + said[0] if said else ''}"
        ) from error


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say exactly how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise  # the package is there and broken: its own message is the useful one
        raise MissingExtraError(
            f'{module.split(".")[0]} is needed here and is not installed: pip install "splinescope[{extra}]"'
        ) from error
