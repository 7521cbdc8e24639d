"""`output_range`: the exact least and largest value of every output on a set of inputs, and where."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from ..network import SplineNetwork
from ..support.checks import as_float64_array
from ..support.display import Certainty, Result
from ..support.errors import InputError, LimitReached
from ..support.progress import Progress, check_progress, telling
from .decide import checked_limits, least_values
from .forms import with_forms
from .models import as_network, checked_program
from .property import Clause
from .sets import view_of


@dataclass(frozen=True, eq=False, repr=False)
class OutputRange(Result):
    """Least and largest value of linear forms of the outputs on a set.

    Attributes:
        low, high: `[F]` the extremes.
        low_at, high_at: `[F, *input shape]` inputs that attain them.
        rounding: `[F]` a proven bound of the rounding of either.
        tiles: How many tiles were looked at.
    """

    low: np.ndarray
    high: np.ndarray
    low_at: np.ndarray
    high_at: np.ndarray
    rounding: np.ndarray
    tiles: int

    certainty: Certainty = "exact"


def output_range(
    model: nn.Module | SplineNetwork | str | os.PathLike[str],
    over: Any,
    *,
    forms: Any = None,
    max_tiles: int | None = None,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
) -> OutputRange:
    """The exact minimum and maximum of each output on a set, with the inputs that attain them.

    Exact up to `OutputRange.rounding`, which is proven. All extremes are found in one search.

    Args:
        model: A torch module, the result of `trace` or `load`, or the path of an ONNX file.
            Before any ending (softmax).
        over: A `Slice`, a pair (low, high) of the corners of a box, or the result of `guarantees.polytope`.
        forms: `[F, C]` linear forms of the flattened outputs to take instead of the outputs themselves.
        max_tiles, time_limit, progress: As in `tessellate`; a limit raises `LimitReached` without a result.

    Raises:
        LimitReached: A limit ended the search.
        InputError: The set is empty or has more than eight free dimensions.

    Cost: a search as for the margin of `verify`, which keeps the tiles that any extreme may lie in.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> found = ss.output_range(net, (-1.0, 1.0))
        >>> bool((found.low <= found.high).all())
        True
    """
    check_progress(progress)
    clock = checked_limits(max_tiles, time_limit)
    network = as_network(model, over)
    program = checked_program(network)
    outputs = int(np.prod(program.output_shape))
    rows = np.eye(outputs) if forms is None else np.atleast_2d(as_float64_array(forms, "forms"))
    if rows.shape[1] != outputs or not len(rows):
        raise InputError(f"forms must have shape (F, {outputs}), got {rows.shape}.")
    view = view_of(over, tuple(program.input_shape))
    size = int(np.prod(program.input_shape))
    n = len(rows)
    clauses = [Clause(row[None], np.zeros((1, size)), np.zeros(1), np.zeros(1, bool)) for row in (*rows, *-rows)]
    with telling(progress, "ranges") as report:
        found = least_values(with_forms(program, clauses), view, clock, max_tiles, each=True, report=report)
    if found.stopped is not None:
        raise LimitReached(f"{found.stopped}: the ranges over the whole set are not known.", None)
    low, high = found.values[:n], -found.values[n:]
    errors = np.maximum(found.errors[:n], found.errors[n:])
    return OutputRange(low, high, found.where[:n], found.where[n:], errors, found.tiles)
