"""Piecewise-affine interpolants of smooth activations, their knots placed for equal error.

Between two knots a and b an interpolant is the chord of phi. Where phi is convex or concave, its error there is largest
where phi' equals the chord's slope, so that it is known exactly; inflections and kinks are always knots. Its size is
about h^2 |phi''| / 8: equal errors need spacings h ~ |phi''|^(-1/2), hence about eps^(-1/2) knots. Beyond the last
knots phi is within eps of its asymptotes and the interpolant is parallel to them.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..support.errors import SplinescopeError, UnsupportedModelError
from .ops import operation
from .ops.registry import Line

_GRID = 4001  # places at which curvature is tabulated
_HALVINGS = 20  # of an interval on the way to its largest error
_FAR = 1e9  # tails are looked for up to here
_MOST_KNOTS = 100_000  # of one curve: errors of about 1e-10, and no tiling of so many folds would end


@dataclass(frozen=True)
class Curve:
    """A smooth function of one number, elementwise on float64 tensors; the rest is as in `Tails`."""

    name: str
    run: Callable[[Tensor], Tensor] = field(repr=False)
    left: Line | None
    right: Line | None
    kinks: tuple[float, ...] = ()
    jump: float = 0.0

    def values(self, x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return self.run(torch.from_numpy(np.ascontiguousarray(x))).numpy()

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """phi'."""
        with torch.enable_grad():
            z = torch.from_numpy(np.array(x, np.float64)).requires_grad_()
            (found,) = torch.autograd.grad(self.run(z).sum(), z)
        return found.numpy()

    def curvatures(self, x: np.ndarray) -> np.ndarray:
        """phi'', by differences of phi': for the spacing of knots only."""
        h = 1e-5 * (1 + np.abs(x))
        return (self.slopes(x + h) - self.slopes(x - h)) / (2 * h)

    def tail(self, eps: float, *, right: bool = False) -> float:
        """Where phi has come within eps of its asymptote and only comes nearer, on its way to the left or right."""
        line, sign = (self.right, 1.0) if right else (self.left, -1.0)
        assert line is not None
        places = sign * np.concatenate([[0.0], np.geomspace(1e-3, _FAR, 1200)])
        gaps, rounding = np.abs(self.values(places) - line[0] * places - line[1]), 4e-16 * np.abs(places)
        leaves = np.append(gaps[1:] > gaps[:-1] + rounding[1:] + 1e-15, False)  # GELU meets both its asymptotes at 0
        last = np.flatnonzero((gaps > eps + rounding) | leaves)
        return float(places[min(last[-1] + 1, len(places) - 1)]) if len(last) else 0.0

    def breaks(self, low: float, high: float) -> np.ndarray:
        """low, high, and the inflections and kinks between them."""
        if self.left is None or self.right is None:
            inflections = self._inflections(low, high)
        else:
            inflections = self._all_inflections
        return np.unique([low, *(place for place in (*inflections, *self.kinks) if low < place < high), high])

    @cached_property
    def _all_inflections(self) -> tuple[float, ...]:
        return self._inflections(self.tail(1e-12), self.tail(1e-12, right=True))

    def _inflections(self, low: float, high: float) -> tuple[float, ...]:
        """The inflections between low and high."""
        from scipy.optimize import brentq  # a tenth of a second that networks of ReLUs do not need

        ends = [low, *(kink for kink in self.kinks if low < kink < high), high]
        found = []
        for a, b in itertools.pairwise(ends):
            x = np.sinh(np.linspace(np.arcsinh(a), np.arcsinh(b), _GRID)[1:-1])
            bent = self.curvatures(x)
            sure = np.abs(bent) > 1e-6 * np.abs(bent).max(initial=0.0)  # the rest is rounding of differences
            x, bent = x[sure], bent[sure]
            turn = np.flatnonzero(np.sign(bent[:-1]) != np.sign(bent[1:]))
            found += [brentq(lambda z: float(self.curvatures(np.array([z]))[0]), x[i], x[i + 1]) for i in turn]
        return tuple(found)

    def steepest(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Largest |phi'| on each interval: at an end, an inflection or a kink. Exact."""
        places = self.breaks(float(low.min()) - 1e-6, float(high.max()) + 1e-6)[1:-1]
        near = np.concatenate([places, places - 1e-9, places + 1e-9])  # both sides of a kink
        found = np.maximum(np.abs(self.slopes(low)), np.abs(self.slopes(high)))
        for place, size in zip(near, np.abs(self.slopes(near)), strict=True):
            found = np.where((low - 2e-9 <= place) & (place <= high + 2e-9), np.maximum(found, size), found)
        return found


@dataclass(frozen=True, eq=False)
class Interpolant:
    """A continuous piecewise-affine function near a curve.

    Attributes:
        knots, values: `[K]` where it bends, rising, and its values there, those of the curve.
        slopes: `[K + 1]` left of all knots, between them, right of all.
        error: Largest |phi - p| on `[low, high]` (exact, by the place where phi' is the chord's slope).
    """

    curve: Curve
    knots: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    error: float
    low: float
    high: float

    @property
    def gains(self) -> np.ndarray:
        """`[K]` change of slope at each knot."""
        return np.diff(self.slopes)

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        anchor = np.maximum(np.arange(len(self.knots) + 1) - 1, 0)
        return (torch.from_numpy(self.knots), torch.from_numpy(self.knots[anchor]),
                torch.from_numpy(self.values[anchor]), torch.from_numpy(self.slopes))  # fmt: skip

    def __call__(self, x: Tensor, pieces: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """The function; or elementwise its pieces from a first to a last alone, these two going on without end."""
        knots, anchors, values, slopes = self._tensors
        place = torch.bucketize(x.detach(), knots)
        if pieces is not None:
            place = place.clamp(*pieces)
        return values[place] + slopes[place] * (x - anchors[place])


@lru_cache(maxsize=128)
def interpolant(curve: Curve, eps: float, low: float = -np.inf, high: float = np.inf) -> Interpolant:
    """The interpolant of a curve with error at most eps on `[low, high]`, by as few knots as equal errors allow.

    Without an asymptote on a side, that side must be finite, and the interpolant goes on with the last slope there.
    """
    if (curve.left is None and not np.isfinite(low)) or (curve.right is None and not np.isfinite(high)):
        raise UnsupportedModelError(f"{curve.name} is unbounded: a finite range is needed to interpolate it.")
    share = max(eps - curve.jump, 0.5 * eps)
    left = low if curve.left is None else max(low, curve.tail(share))
    right = high if curve.right is None else min(high, curve.tail(share, right=True))
    if not left < right:  # nothing but a tail is seen
        left, right = min(left, right) - 1e-3, max(left, right) + 1e-3
    breaks = curve.breaks(left, right)
    pieces = [_spaced(curve, a, b, share) for a, b in itertools.pairwise(breaks)]
    knots = np.unique(np.concatenate(pieces))
    values = curve.values(knots)
    chords = np.diff(values) / np.diff(knots)
    ends = curve.slopes(knots[[0, -1]])
    error = float(_chord_errors(curve, knots, values).max(initial=0.0))
    tails = (curve.left if left > low else None, curve.right if right < high else None)
    for end, line in zip((0, -1), tails, strict=True):
        if line is not None:
            ends[end] = line[0]
            error = max(error, abs(values[end] - line[0] * knots[end] - line[1]))
    below, above = left if tails[0] is None else -np.inf, right if tails[1] is None else np.inf
    slopes = np.concatenate([ends[:1], chords, ends[1:]])
    return Interpolant(curve, knots, values, slopes, error + curve.jump, below, above)


def _spaced(curve: Curve, a: float, b: float, eps: float) -> np.ndarray:
    """Knots from a to b, where phi is convex or concave, with chord errors of at most eps."""
    x = np.sinh(np.linspace(np.arcsinh(a), np.arcsinh(b), _GRID))
    x[0], x[-1] = a, b
    middle = 0.5 * (x[1:] + x[:-1])
    weight = np.concatenate([[0.0], np.cumsum(np.sqrt(np.abs(curve.curvatures(middle))) * np.diff(x))])
    if weight[-1] <= 0:
        return np.array([a, b])
    count = max(1, int(np.ceil(weight[-1] / np.sqrt(8 * eps) * 0.98)))
    while count <= _MOST_KNOTS:
        knots = np.interp(np.linspace(0, weight[-1], count + 1), weight, x)
        knots[0], knots[-1] = a, b
        knots = np.unique(knots)
        worst = _chord_errors(curve, knots, curve.values(knots)).max(initial=0.0)
        if worst <= eps:
            return knots
        count = max(count + 1, int(count * min((worst / eps) ** 0.5, 2.0)))
    raise SplinescopeError(
        f"{curve.name} needs more than {_MOST_KNOTS:,} knots to be followed within {eps:.1e}, which this tolerance "
        "asks for. Ask for a larger tolerance or a smaller slice."
    )


def _chord_errors(curve: Curve, knots: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Largest |phi - chord| between knots, phi convex or concave there, and the share that halvings may miss."""
    a, b = knots[:-1].copy(), knots[1:].copy()
    chord = np.diff(values) / np.diff(knots)
    edge = 1e-12 * (b - a)
    rises = curve.slopes(b - edge) >= curve.slopes(a + edge)
    low, high = a.copy(), b.copy()
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        right = (curve.slopes(middle) < chord) == rises
        low, high = np.where(right, middle, low), np.where(right, high, middle)
    x = 0.5 * (low + high)
    return np.abs(curve.values(x) - values[:-1] - chord * (x - a)) * (1 + 4.0 ** (2 - _HALVINGS))


def curve_of(op: str, run: Callable[[Tensor], Tensor], arguments: Mapping[str, Any]) -> Curve | None:
    """The curve of an elementwise op called with these arguments; None if it is not known."""
    known = operation(op).tails
    if known is None:
        return None
    tails = known(arguments)
    return Curve(op, tails.run or run, tails.left, tails.right, tails.kinks, tails.jump)
