"""`output_range`: the exact least and largest value of every output on a set of inputs, and where."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from ..network import SplineNetwork
from ..support.checks import as_float64_array, check_positive, check_whole
from ..support.display import Certainty, Result
from ..support.errors import InputError, LimitReached
from ..support.progress import Progress, check_progress, telling
from ..tiling.engine.time_limit import Clock
from .decide import Decided, exact_least
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

    Exact up to `OutputRange.rounding`, which is proven. Each extreme is searched for on its own.

    Args:
        model: A torch module, the result of `trace` or `load`, or the path of an ONNX file.
            Before any ending (softmax).
        over: A `Slice`, a pair (low, high) of the corners of a box, or the result of `guarantees.polytope`.
        forms: `[F, C]` linear forms of the flattened outputs to take instead of the outputs themselves.
        max_tiles, time_limit, progress: As in `tessellate`; a limit raises `LimitReached` without a result.

    Raises:
        LimitReached: A limit ended the search.
        InputError: The set is empty or has more than eight free dimensions.

    Cost: two searches per form, each as the margin of `verify`.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> found = ss.output_range(net, (-1.0, 1.0))
        >>> bool((found.low <= found.high).all())
        True
    """
    check_progress(progress)
    if max_tiles is not None:
        check_whole(max_tiles, "max_tiles")
    clock = Clock(None if time_limit is None else check_positive(time_limit, "time_limit"))
    network = as_network(model, over)
    program = checked_program(network)
    outputs = int(np.prod(program.output_shape))
    rows = np.eye(outputs) if forms is None else np.atleast_2d(as_float64_array(forms, "forms"))
    if rows.shape[1] != outputs or not len(rows):
        raise InputError(f"forms must have shape (F, {outputs}), got {rows.shape}.")
    view = view_of(over, tuple(program.input_shape))
    size = int(np.prod(program.input_shape))
    signed = np.concatenate([rows, -rows])
    found: list[Decided] = []
    tiles = 0
    with telling(progress, "ranges") as report:
        for i, row in enumerate(signed):

            def told(share: float, now: str, done: int = i) -> None:
                report((done + share) / len(signed), now)

            clause = Clause(row[None], np.zeros((1, size)), np.zeros(1), np.zeros(1, bool))
            left = None if max_tiles is None else max(max_tiles - tiles, 1)
            found.append(exact_least(with_forms(program, [clause]), view, clock, left, report=told))
            tiles += found[-1].tiles
            if found[-1].stopped is not None:
                raise LimitReached(f"{found[-1].stopped}: {i} of {len(signed)} extremes were found.", None)
    least, errors = (np.array([getattr(one, name) for one in found]) for name in ("lowest", "rounding"))
    places, n = np.stack([one.where for one in found if one.where is not None]), len(rows)
    return OutputRange(least[:n], -least[n:], places[:n], places[n:], np.maximum(errors[:n], errors[n:]), tiles)
