"""`difference`: the exact largest difference of two networks over a set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from ..network import SplineNetwork
from ..network.program import Affine, Program
from ..support.checks import check_positive
from ..support.display import Certainty, Result
from ..support.errors import InputError, LimitReached
from ..support.progress import Progress, check_progress, telling
from .decide import checked_limits, least_values
from .forms import with_forms
from .models import as_network, checked_program, renamed
from .property import Clause
from .sets import view_of


@dataclass(frozen=True, eq=False, repr=False)
class Difference(Result):
    """The largest difference of two networks.

    Attributes:
        largest: `[C]` the largest `|f - g|` of each output on the set; with eps, where it is below that: eps, a bound.
        points: `[C, *input_shape]` an input where it is attained; NaN where only the bound is known.
        signed: `[C]` `f - g` there.
        eps: What was asked about; None if nothing was.
        below: Whether all differences are below eps; None without one, or where rounding decides.
        tolerance: A proven bound of how far rounding may have moved the numbers.
        tiles: Tiles of both networks together that were looked at.
    """

    largest: np.ndarray
    points: np.ndarray
    signed: np.ndarray
    eps: float | None
    below: bool | None
    tolerance: float
    tiles: int
    certainty: Certainty = field(default="exact", kw_only=True)

    def _shown(self) -> list[tuple[str, Any]]:
        words = {True: "yes", False: "no", None: "hangs on rounding"}[self.below]
        asked = [] if self.eps is None else [(f"all below {self.eps:g}", words)]
        return [("largest", self.largest), *asked, ("tolerance", self.tolerance), ("tiles", self.tiles)]


def difference(
    f: nn.Module | SplineNetwork,
    g: nn.Module | SplineNetwork,
    over: Any,
    eps: float | None = None,
    *,
    max_tiles: int | None = None,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
) -> Difference:
    """The exact largest `|f - g|` of each output over a set, or a proof that all are below eps.

    Both networks become one, whose tiles are pieces on which f and g are affine: the largest difference is at a corner.
    Tiles on which bounds exclude more than was found already are dropped before they are cut.

    Args:
        f, g: Torch modules in eval mode, results of `trace` or `load`, or files; same inputs, same outputs. Compared
            before any ending (softmax).
        over: A `Slice`, or a pair (low, high) of corners of a box, of at most eight free inputs.
        eps: Ask only whether differences are below this, which is faster: `largest` is exact where it is eps or more.
        max_tiles, time_limit, progress: As in `tessellate`.

    Raises:
        LimitReached: There are more tiles than that; nothing is known then.

    Cost: a tiling of both networks together; where their folds nearly coincide, several times the tiles of one.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> half = torch.nn.Sequential(*(l.half().float() for l in torch.nn.Sequential(*net)))
        >>> bool(ss.guarantees.difference(net, half, (-1.0, 1.0)).largest.max() < 1e-2)
        True
    """
    check_progress(progress)
    if eps is not None:
        eps = check_positive(eps, "eps")
    clock = checked_limits(max_tiles, time_limit)
    a, b = (checked_program(as_network(model, over)) for model in (f, g))
    if a.input_shape != b.input_shape or a.output_shape != b.output_shape:
        raise InputError(
            f"f and g must have the same inputs and outputs, got {a.input_shape} to {a.output_shape} and "
            f"{b.input_shape} to {b.output_shape}."
        )
    if a.ending != b.ending:
        raise InputError(f"f and g must end alike: before {a.ending or 'nothing'} and before {b.ending or 'nothing'}.")
    count = int(np.prod(a.output_shape))
    signs = np.concatenate([np.eye(count), -np.eye(count)])
    size = int(np.prod(a.input_shape))
    clauses = [Clause(-row[None], np.zeros((1, size)), np.zeros(1), np.zeros(1, bool)) for row in signs]
    with telling(progress, "differences") as report:
        found = least_values(
            with_forms(_difference(a, b), clauses), view_of(over, a.input_shape), clock, max_tiles,
            bar=np.inf if eps is None else -eps, each=True, report=report,
        )  # fmt: skip
    if found.stopped is not None:
        raise LimitReached(f"{found.stopped}: the largest difference over the whole set is not known.", None)
    most = -found.values.reshape(2, count)  # of f - g and of g - f
    way = most.argmax(0)
    largest, points = most.max(0), found.where.reshape(2, count, *a.input_shape)[way, np.arange(count)]
    signed, tolerance = np.where(way == 0, largest, -largest), float(found.errors.max())
    if eps is None:
        return Difference(largest, points, signed, None, None, tolerance, found.tiles)
    top = float(largest.max())
    below = None if abs(top - eps) <= tolerance else top < eps
    under = largest < eps  # dropped tiles may have had more, but less than eps
    largest, signed, points = np.where(under, eps, largest), np.where(under, np.nan, signed), points.copy()
    points[under] = np.nan
    certainty: Certainty = "bound" if under.any() else "exact"
    return Difference(largest, points, signed, eps, below, tolerance, found.tiles, certainty=certainty)


def _difference(f: Program, g: Program) -> Program:
    """`f - g` of the same input, flattened."""
    first, second = renamed(f, "f:", f.input), renamed(g, "g:", f.input)
    last = Affine(
        "f - g", (first.output, second.output), lambda a, b: a.flatten(1) - b.flatten(1),
        lambda a, b: a.flatten(1) + b.flatten(1),
    )  # fmt: skip
    return Program(
        f.input, f.input_shape, last.output, (int(np.prod(f.output_shape)),), (*first.steps, *second.steps, last),
        paths={**first.paths, **second.paths}, ops={**first.ops, **second.ops},
        identity=(*f.identity, "-", *g.identity),
    )  # fmt: skip
