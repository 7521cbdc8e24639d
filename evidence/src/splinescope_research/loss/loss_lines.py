"""Lines of one layer's parameters, data point by data point: where each point's outputs bend, and their quadratics.

All points go through the network together, as rows (t, point): at a fold, rows are added where a unit changes sign
between two neighbors of one point; its values are weighted means of its neighbors', since all are affine between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from splinescope.network.program import Affine, Fold, Tournament, live_after
from splinescope.support.derivatives import along

from .parameter_network import Mover

_BREAK_RTOL = 1e-12  # breaks closer than this share of the span are one
_ZERO_RTOL = 1e-14  # of the largest pre-activation of a fold: below it a sign is rounding

Pieces = tuple[np.ndarray, np.ndarray]
"""`[K + 1]` break points, and `[K, 4]` center, value, gradient, Hessian of the quadratic on each piece."""


def interval_of(breaks: np.ndarray, t: np.ndarray) -> np.ndarray:
    """`[M]` the interval between breaks `[K + 1]` that holds each number of t `[M]`; -1 outside, the end is inside."""
    found = np.searchsorted(breaks, t, side="right") - 1
    found[t == breaks[-1]] = len(breaks) - 2
    return np.where((found < 0) | (found > len(breaks) - 2), -1, found)


def distinct(points: np.ndarray, span: float) -> np.ndarray:
    """The points in order, those that only rounding tells apart as one; both ends are kept."""
    points = np.unique(points)
    kept = points[np.diff(points, prepend=-np.inf) > _BREAK_RTOL * span]
    kept[-1] = points[-1]
    return kept


def point_pieces(mover: Mover, x: Tensor, y: Tensor, low: float, high: float) -> Pieces:
    """The summed squared error of some points `[n, ...]` on [low, high], piece by piece."""
    count = len(x)
    ends = torch.tensor([low, high], dtype=torch.float64).repeat(count)
    with torch.no_grad():
        t, owner, _ = _through(mover, x, ends, torch.arange(count).repeat_interleave(2), refine=True)
        same = owner[1:] == owner[:-1]
        centers, at = (0.5 * (t[1:] + t[:-1]))[same], owner[:-1][same]
        outputs, slopes = along(lambda s: _through(mover, x, s, at)[2], centers, torch.ones_like(centers))
        residual, slope = (outputs - y[at]).flatten(1), slopes.flatten(1)
        terms = (centers, residual.square().sum(1), 2 * (residual * slope).sum(1), 2 * slope.square().sum(1))
    breaks, quadratics = t.numpy(), torch.stack(terms, 1).numpy()
    first = np.flatnonzero(np.diff(owner.numpy(), prepend=-1, append=count))
    parts = [(breaks[a:b], quadratics[a - i : b - i - 1]) for i, (a, b) in enumerate(pairwise(first))]
    return summed(parts, high - low)


def summed(parts: Sequence[Pieces], span: float) -> Pieces:
    """The sum of piecewise quadratics on one interval; breaks that only rounding tells apart become one."""
    breaks = distinct(np.concatenate([b for b, _ in parts]), span)
    centers = 0.5 * (breaks[1:] + breaks[:-1])
    total = np.zeros((len(centers), 4))
    total[:, 0] = centers
    for own_breaks, quadratics in parts:
        own = quadratics[np.clip(np.searchsorted(own_breaks, centers) - 1, 0, len(quadratics) - 1)]
        d = centers - own[:, 0]
        total[:, 1] += own[:, 1] + d * (own[:, 2] + 0.5 * d * own[:, 3])
        total[:, 2] += own[:, 2] + d * own[:, 3]
        total[:, 3] += own[:, 3]
    return breaks, total


def _through(mover: Mover, x: Tensor, t: Tensor, owner: Tensor, refine: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Rows (t, point) through the network: their t, their points and the outputs; with rows added at breaks."""
    steps, final = mover.base.steps, mover.base.output
    span = float(t[1] - t[0])
    fixed: dict[str, Tensor] = {mover.base.input: x}
    rows: dict[str, Tensor] = {}

    def inputs_of(step: Affine | Fold) -> list[Tensor]:
        return [rows[name] if name in rows else fixed[name][owner] for name in step.inputs]

    for i, (step, needed) in enumerate(zip(steps, live_after(steps, {final}), strict=True)):
        if isinstance(step, Tournament):
            continue
        if step.output in mover.using:
            origin, slopes = mover.at_data(i, mover.fixed_inputs(step, fixed))
            rows[step.output] = origin[owner] + t.reshape(-1, *[1] * (origin.dim() - 1)) * slopes[0][owner]
        elif any(name in rows for name in step.inputs):
            if refine and isinstance(step, Fold):
                t, owner, mix = _added(step.cuts(*inputs_of(step)), t, owner, span)
                rows = {name: mix(value) for name, value in rows.items() if name in needed or name in step.inputs}
            rows[step.output] = step.run(*inputs_of(step))
        else:
            fixed[step.output] = step.run(*(fixed[name] for name in step.inputs))
    mover.check_reaches(rows)
    return t, owner, rows[final]


def _added(cuts: Tensor, t: Tensor, owner: Tensor, span: float) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """Rows with those added at which a unit `[R, U]` is zero, and a function that fills in any value of them."""
    side = torch.where(cuts.abs() <= _ZERO_RTOL * cuts.abs().amax(), 0.0, cuts.sign())
    crosses = (side[1:] * side[:-1] < 0) & (owner[1:] == owner[:-1])[:, None]
    row, unit = crosses.nonzero(as_tuple=True)
    share = cuts[row, unit] / (cuts[row, unit] - cuts[row + 1, unit])
    place = t[row] + share * (t[row + 1] - t[row])
    old = torch.arange(len(t))
    before, weight = torch.cat([old, row]), torch.cat([torch.zeros_like(t), share])
    order = torch.from_numpy(np.lexsort((weight.numpy(), before.numpy())))
    all_t, all_owner, is_new = torch.cat([t, place])[order], owner[before[order]], order >= len(t)
    close = (all_t[1:] - all_t[:-1] <= _BREAK_RTOL * span) & (all_owner[1:] == all_owner[:-1])
    drop = torch.zeros_like(is_new)
    drop[1:] |= close & is_new[1:]
    drop[:-1] |= close & is_new[:-1] & ~is_new[1:]
    order = order[~drop]
    a, w = before[order], weight[order]
    b = (a + 1).clamp(max=len(t) - 1)

    def mix(value: Tensor) -> Tensor:
        s = w.reshape(-1, *[1] * (value.dim() - 1))
        return torch.where(s == 0, value[a], (1 - s) * value[a] + s * value[b])

    return all_t[~drop], all_owner[~drop], mix
