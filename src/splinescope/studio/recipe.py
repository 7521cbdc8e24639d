"""`Recipe`: everything that the playground's switches say, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from ..normalization.initialize import METHODS
from ..support.checks import as_float64_array, check_choice, check_whole
from ..support.errors import InputError

DATA = ("moons", "circles", "star", "spirals", "xor", "blobs", "own")
SMOOTH = ("gelu", "silu", "tanh", "softplus", "sigmoid")
"""Activations that are tiled within the recipe's tolerance."""
ACTIVATIONS = ("relu", "leaky", "abs", *SMOOTH)
NORMS = ("none", "batch", "layer", "group", "rms", "weight")
INITS = ("default", "he", "zero bias", *METHODS)
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw")
STATISTICS = ("data", "batch")
CHOICES = {"data": DATA, "activation": ACTIVATIONS, "norm": NORMS, "init": INITS, "optimizer": OPTIMIZERS,
           "statistics": STATISTICS}  # fmt: skip
WHOLE = {"count": (4, 1000), "depth": (1, 6), "width": (1, 64), "batch": (2, 1000), "seed": (0, 2**31 - 1)}
REAL = {"noise": (0.0, 0.5), "rate": (1e-5, 10.0), "decay": (0.0, 1.0), "tolerance": (1e-3, 1.0)}
MOST_POINTS = 2000


@dataclass(frozen=True)
class Recipe:
    """A data set in the plane, a network, and how it is trained.

    Attributes:
        data: Which set; "own" takes `points`, `[n, 3]` numbers x, y, class.
        tolerance: How far the tiled network may be from one with a smooth activation, in any output.
        skip: Each hidden layer but the first is added to its input.
        statistics: Whose mean and variance batch norm uses in the picture: of all data, or of a random batch.
    """

    data: str = "moons"
    count: int = 120
    noise: float = 0.1
    points: tuple[tuple[float, float, float], ...] = field(default=())
    depth: int = 3
    width: int = 12
    activation: str = "relu"
    tolerance: float = 0.3
    norm: str = "none"
    init: str = "default"
    skip: bool = False
    optimizer: str = "adam"
    rate: float = 0.01
    batch: int = 32
    decay: float = 0.0
    statistics: str = "data"
    seed: int = 0

    @classmethod
    def read(cls, given: Any) -> Recipe:
        """From what a page sent: every value is checked, unknown names are refused."""
        if not isinstance(given, Mapping):
            raise InputError(f"a recipe must be an object, got {type(given).__name__}.")
        if unknown := sorted(set(given) - {f.name for f in fields(cls)}):
            raise InputError(f"a recipe has no {', '.join(map(repr, unknown))}.")
        checked: dict[str, Any] = {}
        for name, value in given.items():
            if name in CHOICES:
                checked[name] = check_choice(str(value), name, CHOICES[name])
            elif name in WHOLE:
                low, high = WHOLE[name]
                checked[name] = check_whole(value, name, least=low, most=high)
            elif name in REAL:
                checked[name] = check_real(value, name, *REAL[name])
            elif name == "points":
                checked[name] = _points(value)
            else:
                checked[name] = bool(value)
        return cls(**checked)


def limits() -> dict[str, Any]:
    """What the page needs to draw its switches: choices, ranges, defaults."""
    return {"choices": CHOICES, "ranges": {**WHOLE, **REAL}, "defaults": asdict(Recipe()), "smooth": SMOOTH}


def check_real(value: Any, name: str, low: float = -1e300, high: float = 1e300) -> float:
    """`value`, refused unless it is a number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise InputError(f"{name} must be a number from {low:g} to {high:g}, got {str(value)[:40]!r}.")
    return float(value)


def _points(value: Any) -> tuple[tuple[float, float, float], ...]:
    if isinstance(value, (list, tuple)) and not len(value):
        return ()
    array = as_float64_array(value, "points")
    if array.ndim != 2 or array.shape[1] != 3 or len(array) > MOST_POINTS:
        raise InputError(f"points must be at most {MOST_POINTS} rows x, y, class; got shape {array.shape}.")
    classes = array[:, 2]
    if (classes != np.round(classes)).any() or classes.min() < 0 or classes.max() > 9:
        raise InputError("classes of points must be whole numbers from 0 to 9.")
    if np.abs(array[:, :2]).max() > 100:
        raise InputError("coordinates of points must be within 100 of the origin.")
    return tuple(map(tuple, array.tolist()))
