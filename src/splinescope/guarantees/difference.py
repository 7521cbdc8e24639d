"""`difference`: the exact largest difference of two networks over a set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork
from ..network.program import Affine, Program
from ..network.rounding import cancelling_terms
from ..support.checks import check_positive
from ..support.display import Certainty, Result, in_words, table
from ..support.errors import InputError, LimitReached
from ..support.progress import Progress, check_progress
from ..tiling.cells.tiles import Tiles
from ..tiling.engine.advance import Keep
from ..tiling.engine.options import Options
from ..tiling.engine.output_bounds import output_range
from ..tiling.engine.plan import Plan
from ..tiling.engine.rows_plain import PlainRows
from ..tiling.measures.differentiate import blocks, outputs
from ..tiling.measures.maps import vertex_values
from ..tiling.networks import checked_network
from ..tiling.slice import Slice
from ..tiling.tessellate import tile
from .models import as_network, renamed
from .rounding import WIDEST, error_at, error_on, widest
from .sets import view_of

_ROUNDING = 1e-12  # of the terms that cancel: positions of vertices and all roundings on the way
_VERTICES = 1 << 16


@dataclass(frozen=True, eq=False, repr=False)
class Difference(Result):
    """The largest difference of two networks.

    Attributes:
        largest: `[C]` the largest `|f - g|` of each output on the set; with eps, where it is below that: eps, a bound.
        points: `[C, *input_shape]` an input where it is attained; NaN where only the bound is known.
        signed: `[C]` `f - g` there.
        eps: What was asked about; None if nothing was.
        below: Whether all differences are below eps; None without one, or where rounding decides.
        tolerance: How far rounding may have moved the numbers.
        proven: Whether that is a bound; it is an estimate for layers of more than 2,048 units without eps.
        tiles: Tiles of both networks together that were looked at.
    """

    largest: np.ndarray
    points: np.ndarray
    signed: np.ndarray
    eps: float | None
    below: bool | None
    tolerance: float
    proven: bool
    tiles: int
    certainty: Certainty = field(default="exact", kw_only=True)

    def __repr__(self) -> str:
        asked = "" if self.eps is None else f", below {self.eps:g}: {self.below}"
        return f"Difference({self.largest.max():.6g} at most{asked}, {self.certainty})"

    def summary(self) -> str:
        """The largest difference of each output."""
        rows = [("largest differences", in_words(self.largest)), ("tiles", f"{self.tiles:,}")]
        if self.eps is not None:
            words = {True: "yes", False: "no", None: "hangs on rounding"}[self.below]
            rows.append((f"all below {self.eps:g}", words))
        how = "at most" if self.proven else "about"
        return f"{self!r}\n{table(rows)}\n{self.assurance} Rounding: {how} {self.tolerance:.2g}."


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

    Args:
        f, g: Torch modules in eval mode, results of `trace` or `load`, or files; same inputs, same outputs. Compared
            before any ending (softmax).
        over: A `Slice`, or a pair (low, high) of corners of a box, of at most eight free inputs.
        eps: Ask only whether differences are below this: tiles on which bounds already say so are dropped before they
            are cut, and `largest` is exact where it is eps or more.
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
    first, second = as_network(f, over), as_network(g, over)
    a, b = first.program(), second.program()
    if a.input_shape != b.input_shape or a.output_shape != b.output_shape:
        raise InputError(
            f"f and g must have the same inputs and outputs, got {a.input_shape} to {a.output_shape} and "
            f"{b.input_shape} to {b.output_shape}."
        )
    if a.ending != b.ending:
        raise InputError(f"f and g must end alike: before {a.ending or 'nothing'} and before {b.ending or 'nothing'}.")
    view = view_of(over, a.input_shape)
    both = _difference(a, b)
    count = int(np.prod(a.output_shape))
    if not isinstance(view, Slice):
        signed = outputs(both, view[None])[0, :count]
        points = np.broadcast_to(view, (len(signed), *view.shape))
        errors = error_at(both, torch.from_numpy(view[None]))[1][0, :count]
        return _found(points, signed, eps, float(errors.max()), True, 1)
    proven = eps is not None or widest(both) <= WIDEST
    rows: Literal["auto", "plain"] = "plain" if proven else "auto"
    options = Options(max_tiles=max_tiles, time_limit=time_limit, progress=progress, rows=rows)
    checked_network(first, view)
    checked_network(second, view)
    if proven:
        tolerance = float(error_on(both, view, options.rtol)[:count].max())
    else:
        tolerance = _ROUNDING * cancelling_terms(both, torch.from_numpy(view.inputs(view.domain)))
    least = None if eps is None else eps - tolerance

    def keep(plan: Plan) -> Keep:
        assert least is not None
        return partial(_may_exceed, plan, both.output, count, least)

    tiling, stopped = tile(first, both, view, options, keep=None if eps is None else keep)
    if stopped is not None:
        raise LimitReached(f"{stopped}: the largest difference over the whole set is not known.", None)
    signed, where = np.zeros(count), np.zeros(count, np.int64)
    for block in blocks(len(tiling.vertices), _VERTICES):
        values = vertex_values(tiling, np.arange(block.start, block.stop))[:, :count]
        best = np.abs(values).argmax(0)
        at_best = values[best, np.arange(count)]
        better = np.abs(at_best) > np.abs(signed)
        signed[better], where[better] = at_best[better], block.start + best[better]
    points = view.inputs(tiling.vertices[where]) if tiling.count else np.full((count, *a.input_shape), np.nan)
    return _found(points, signed, eps, tolerance, proven, tiling.count)


def _found(
    points: np.ndarray, signed: np.ndarray, eps: float | None, tolerance: float, proven: bool, tiles: int
) -> Difference:
    largest = np.abs(signed)
    if eps is None:
        return Difference(largest, points, signed, None, None, tolerance, proven, tiles)
    top = float(largest.max(initial=0.0))
    below = None if abs(top - eps) <= tolerance else top < eps
    under = largest < eps  # dropped tiles may have had more, but less than eps
    points, signed = points.copy(), np.where(under, np.nan, signed)
    points[under] = np.nan
    certainty: Certainty = "bound" if under.any() else "exact"
    return Difference(
        np.where(under, eps, largest), points, signed, eps, below, tolerance, proven, tiles, certainty=certainty
    )


def _may_exceed(
    plan: Plan, output: str, count: int, eps: float, stage: int, rows: PlainRows, tiles: Tiles, points: np.ndarray
) -> np.ndarray | None:
    """`[K]` tiles on which some output may reach eps in size."""
    wanted = np.zeros(len(tiles), bool)
    for index in range(count):
        bounds = output_range(plan, stage, rows, tiles, output, index)
        if bounds is None:
            return None
        wanted |= (bounds[1] >= eps) | (bounds[0] <= -eps)
    return wanted


def _difference(f: Program, g: Program) -> Program:
    """`[f - g, f]` flattened, both on the same input; f sets the scale of what differs by rounding alone."""
    first, second = renamed(f, "f:", f.input), renamed(g, "g:", f.input)
    last = Affine("f - g, f", (first.output, second.output), _beside(-1.0), _beside(1.0))
    return Program(
        f.input, f.input_shape, last.output, (2 * int(np.prod(f.output_shape)),),
        (*first.steps, *second.steps, last), paths={**first.paths, **second.paths},
        ops={**first.ops, **second.ops}, identity=(*f.identity, "-", *g.identity),
    )  # fmt: skip


def _beside(sign: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda a, b: torch.cat([a.flatten(1) + sign * b.flatten(1), a.flatten(1)], 1)
