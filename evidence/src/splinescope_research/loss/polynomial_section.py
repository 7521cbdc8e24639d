"""Sections along a line that moves several layers together: the squared error in polynomial pieces.

With m moved layers on the way, a value is on a piece a polynomial of degree m in t, known by the network's values at
m + 1 Chebyshev points; the squared error is one of degree 2 m. A fold breaks at the roots of its polynomials.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from splinescope.landscape.directions import Direction
from splinescope.landscape.inputs import Model, batches
from splinescope.network.program import Fold
from splinescope.support.checks import as_points
from splinescope.support.display import Result
from splinescope.support.errors import InputError
from splinescope.support.losses import squared
from splinescope.support.progress import Progress, stepping

from ..drawings import plot_loss_section
from .loss_lines import distinct, interval_of
from .parameter_network import Mover, prepared

_BLOCK_NUMBERS = 4 << 20  # numbers of one block of intervals (32 MB)
_TRUST = 1e-6  # a larger mismatch between polynomial and network means the network is not polynomial in t


@dataclass(frozen=True, eq=False, repr=False)
class PolynomialSection(Result):
    """The squared error on a line through parameter space, in polynomial pieces.

    Attributes:
        breaks: `[K + 1]` ends and break points, ascending.
        coefficients: `[K, degree + 1]` Chebyshev coefficients of the loss on each piece mapped to [-1, 1].
        degree: 2 m, with m the number of moved layers on the longest way to the output.
        residual: Largest relative difference of a piece and the network's own loss at a point that was not used to make
            the piece, over all pieces: the certificate of this section.
        points: Number of data points the loss is a mean over.
    """

    breaks: np.ndarray
    coefficients: np.ndarray
    degree: int
    residual: float
    points: int
    certainty = "exact"
    plot = plot_loss_section

    def _shown(self) -> list[tuple[str, Any]]:
        return [("pieces", self.count), ("degree", self.degree), ("from", float(self.breaks[0])),
                ("to", float(self.breaks[-1])), ("residual", self.residual), ("points", self.points)]  # fmt: skip

    @property
    def count(self) -> int:
        """Number of pieces K."""
        return len(self.breaks) - 1

    def __call__(self, points: Any) -> np.ndarray:
        """`[M]` the loss at coordinates `points` `[M]`; an error for points outside."""
        t = as_points(points, 1)[:, 0]
        piece = interval_of(self.breaks, t)
        if (piece < 0).any():
            raise InputError(f"points must lie in the section's domain, got {t[np.argmax(piece < 0)]}.")
        return evaluate(self.coefficients[piece], self.breaks[piece], self.breaks[piece + 1], t)

    @cached_property
    def minimum(self) -> tuple[float, np.ndarray]:
        """The least loss on the whole section and where it is, `[1]`: from roots of derivatives and the ends."""
        found = []
        for c, left, right in zip(self.coefficients, self.breaks[:-1], self.breaks[1:], strict=True):
            s = np.concatenate([[-1.0, 1.0], real_roots(chebyshev.chebder(c))])
            at = chebyshev.chebval(s, c)
            found.append((float(at.min()), to_interval(s[np.argmin(at)], left, right)))
        value, where = min(found)
        return value, np.array([where])


def polynomial_section(
    model: Model,
    x: Any,
    y: Any,
    direction: Direction,
    *,
    span: float | tuple[float, float] = 1.0,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
) -> PolynomialSection:
    """The squared error in polynomial pieces along a line that moves any number of layers.

    With `theta(t) = theta0 + t d`, `L(t) = 1/N sum_n |f(x_n; theta(t)) - y_n|^2` is a polynomial of degree 2 m between
    break points, m the number of moved layers on the longest way to the output. Break points are roots of polynomials,
    found to rounding; a double root (a fold touched, not crossed) may be listed or not: it makes no difference. Each
    piece is compared with the network at one more point: see `residual`.

    Args:
        model: A piecewise-affine module in eval mode (or the result of `trace`).
        x: `[N, *input shape]` inputs.
        y: `[N, *output shape]` targets.
        direction: Parameter path -> its change.
        span: The section is `[-span, span]`, or `[low, high]` for a pair.
        batch_size: Data points handled together; memory grows with it, not with N.
        progress: As in `tessellate`.

    Cost: about `m + 1` forward passes of a batch per break point and fold.

    Example:
        >>> import torch, splinescope_research
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        >>> move = {name: torch.randn_like(p) for name, p in net.named_parameters()}
        >>> splinescope_research.polynomial_section(net, torch.randn(5, 2), torch.randn(5, 1), move).degree
        4
    """
    mover, inputs, targets, low, high, size = prepared(model, x, y, [direction], span, batch_size)
    degrees = mover.degrees()
    mover.check_reaches([name for name, degree in degrees.items() if degree > 0])
    degree = 2 * degrees[mover.base.output]
    parts, residuals = [], []
    for batch, wanted in stepping(list(batches(inputs, targets, size)), progress, "loss section"):
        breaks = _breaks(mover, degrees, batch, low, high)
        nodes = to_interval(_nodes(degree)[None], breaks[:-1, None], breaks[1:, None])
        coefficients = _interpolate(_losses(mover, nodes.reshape(-1), batch, wanted).reshape(nodes.shape))
        parts.append((breaks, coefficients))
        residuals.append(_mismatch(mover, batch, wanted, breaks, coefficients))
    residual = float(np.max(residuals))
    if not residual <= _TRUST:
        raise InputError(
            f"the network must be piecewise polynomial in the moved parameters; the pieces miss it by {residual:.2g} "
            "(a parametrized weight such as weight_norm?): move the parameters of plain layers."
        )
    breaks, coefficients = _sum(parts, degree, high - low)
    return PolynomialSection(breaks, coefficients / len(inputs), degree, residual, len(inputs))


def evaluate(coefficients: np.ndarray, left: np.ndarray, right: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Row i of Chebyshev coefficients on [left_i, right_i], at t_i."""
    s = (2.0 * t - left - right) / (right - left)
    return np.asarray(chebyshev.chebval(s, coefficients.T, tensor=False))


def to_interval(s: Any, left: Any, right: Any) -> Any:
    """Points of [-1, 1] in [left, right]."""
    return 0.5 * (left + right) + 0.5 * (right - left) * s


def real_roots(c: np.ndarray) -> np.ndarray:
    """Roots inside (-1, 1) of a Chebyshev series, each improved by a Newton step."""
    c = chebyshev.chebtrim(c, 1e-14 * float(np.abs(c).max()))
    if len(c) < 2:
        return np.empty(0)
    roots = np.atleast_1d(chebyshev.chebroots(c))
    s = roots[np.abs(roots.imag) < 1e-7].real
    slope = chebyshev.chebval(s, chebyshev.chebder(c))
    step = np.divide(chebyshev.chebval(s, c), slope, out=np.zeros_like(s), where=slope != 0)
    s = np.where(np.abs(step) < 1e-6, s - step, s)
    return s[np.abs(s) < 1.0]


def _nodes(degree: int) -> np.ndarray:
    """degree + 1 Chebyshev points of the first kind."""
    return np.asarray(chebyshev.chebpts1(degree + 1))


def _interpolate(values: np.ndarray) -> np.ndarray:
    """Chebyshev coefficients `[..., m + 1]` from values at the `m + 1` nodes (last axis)."""
    m = values.shape[-1]
    matrix = chebyshev.chebvander(_nodes(m - 1), m - 1)
    weights = np.full(m, 2.0 / m)
    weights[0] = 1.0 / m
    return (values @ matrix) * weights


def _breaks(mover: Mover, degrees: dict[str, int], x: Tensor, low: float, high: float) -> np.ndarray:
    """Ends and break points of a batch of data: fold after fold, the roots of its pre-activations on each interval."""
    breaks = np.array([low, high])
    for number, fold in enumerate(mover.base.folds):
        m = max(degrees.get(name, 0) for name in fold.inputs)
        if m == 0:
            continue
        found = [breaks]
        together = max(1, _BLOCK_NUMBERS // (fold.site.units * len(x) * (m + 1)))
        for first in range(0, len(breaks) - 1, together):
            ends = breaks[first : first + together + 1]
            left, right = ends[:-1], ends[1:]
            nodes = to_interval(_nodes(m)[None], left[:, None], right[:, None])
            cuts = _cuts(mover, nodes.reshape(-1), x, number).reshape(*nodes.shape, -1)
            c = _interpolate(cuts.transpose(0, 2, 1))
            may_cross = np.abs(c[..., 0]) <= np.abs(c[..., 1:]).sum(-1)  # |T_j| <= 1: otherwise there is no root
            for k, unit in zip(*np.nonzero(may_cross), strict=True):
                if c[k, unit].any():
                    found.append(to_interval(real_roots(c[k, unit]), left[k], right[k]))
        breaks = distinct(np.concatenate(found), high - low)
    return breaks


def _cuts(mover: Mover, t: np.ndarray, x: Tensor, number: int) -> np.ndarray:
    """Pre-activations `[B, n U]` of the fold with this number, at parameters t `[B]`."""
    with torch.no_grad():
        steps = mover.values_at(torch.from_numpy(t), x)
        folds = ((step, inputs) for step, inputs, _ in steps if isinstance(step, Fold))
        fold, inputs = next(islice(folds, number, None))
        return fold.cuts(*inputs).reshape(len(t), -1).numpy()


def _losses(mover: Mover, t: np.ndarray, x: Tensor, y: Tensor) -> np.ndarray:
    """`[B]` summed squared error of a batch at parameters t `[B]`."""
    widest = max([site.cuts for site in mover.network.sites], default=1)
    together = max(1, _BLOCK_NUMBERS // (widest * len(x)))
    result = []
    with torch.no_grad():
        for start in range(0, len(t), together):
            part = torch.from_numpy(t[start : start + together])
            _, _, output = deque(mover.values_at(part, x), maxlen=1)[0]
            error = output.reshape(len(part), *y.shape) - y
            result.append(error.square().flatten(1).sum(1).numpy())
    return np.concatenate(result)


def _mismatch(mover: Mover, x: Tensor, y: Tensor, breaks: np.ndarray, coefficients: np.ndarray) -> float:
    """Largest relative difference of pieces and network at 0.3 of each piece (never a node)."""
    t = to_interval(-0.4, breaks[:-1], breaks[1:])
    have = evaluate(coefficients, breaks[:-1], breaks[1:], t)
    want = _losses(mover, t, x, y)
    for k in {0, len(t) // 2, len(t) - 1}:  # the network lowered anew at these parameters, affine in them or not
        with torch.no_grad():
            want[k] = float(squared(mover.program_at(t[k : k + 1]).forward(x), y))
    scale = np.maximum(np.abs(want), 1e-3 * np.abs(coefficients).sum(1))
    return float(np.max(np.abs(have - want) / np.where(scale > 0, scale, 1.0)))


def _sum(parts: list[tuple[np.ndarray, np.ndarray]], degree: int, span: float) -> tuple[np.ndarray, np.ndarray]:
    """Add the pieces of the batches on their common break points."""
    breaks = distinct(np.concatenate([b for b, _ in parts]), span)
    middle = 0.5 * (breaks[1:] + breaks[:-1])
    nodes = to_interval(_nodes(degree)[None], breaks[:-1, None], breaks[1:, None])
    values = np.zeros_like(nodes)
    for own, coefficients in parts:
        piece = np.searchsorted(own, middle) - 1
        for j in range(nodes.shape[1]):
            values[:, j] += evaluate(coefficients[piece], own[piece], own[piece + 1], nodes[:, j])
    return breaks, _interpolate(values)
