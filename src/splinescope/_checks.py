"""Argument checks shared by all parts: each states expected, received, possible."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import torch

from ._errors import InputError, MissingExtraError


def as_float64_array(value: Any, name: str) -> np.ndarray:
    """`value` (tensor, array, nested lists) as a finite float64 numpy array."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy() if value.dtype != torch.bfloat16 else value.detach().float().cpu().numpy()
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must be numbers (array, tensor or nested lists), got {type(value).__name__}."
        ) from error
    check_finite(array, name)
    return array


def check_finite(array: np.ndarray, name: str) -> None:
    """Refuse NaN and infinities, naming the first one."""
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InputError(f"{name} must be finite, got {array[where]} at index {where} ({int(bad.sum())} such values).")


def check_positive(value: float, name: str) -> float:
    """`value` as a float, refused unless it is a finite number > 0."""
    number = float(value)
    if not (np.isfinite(number) and number > 0):
        raise InputError(f"{name} must be a positive number, got {value!r}.")
    return number


def check_count(value: int, name: str) -> int:
    """`value` as an int, refused unless it is a whole number >= 1."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} must be a whole number >= 1, got {value!r}.")
    return int(value)


def check_choice(value: str, name: str, choices: tuple[str, ...]) -> str:
    """`value`, refused unless it is one of `choices`."""
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return value


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
