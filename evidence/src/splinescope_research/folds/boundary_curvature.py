"""How much a decision boundary bends: the turn of its normal along it, for hard and soft networks alike."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.complexity.attacks import Scores
from splinescope.complexity.robustness import class_scores
from splinescope.network.readable import unwrap
from splinescope.smooth.capture import Forward, undisturbed
from splinescope.support.checks import as_rows, check_positive, check_whole
from splinescope.support.display import Result
from splinescope.support.errors import InputError
from splinescope.support.evaluating import evaluating

_BISECTIONS, _SECANTS, _NEWTON = 14, 12, 6
_TRIES = 20  # pairs of points drawn per pair wanted, as both may lie in one class


class NoBoundary(InputError):
    """No place on the boundary between these points was found."""


@dataclass(frozen=True, eq=False, repr=False)
class BoundaryCurvature(Result):
    """How much a decision boundary bends near the data. P places on it.

    Attributes:
        turns: `[P]` turn of the normal per unit of distance, mean over tangents, at each place.
        points: `[P, *input shape]` the places.
        reach: The distance over which turns are measured.
        lost: Share of steps along the boundary that did not find it again; they are left out.
    """

    turns: np.ndarray
    points: np.ndarray
    reach: float
    lost: float
    certainty = "estimate"

    @property
    def mean(self) -> float:
        """Mean turn, in radians per unit of distance: 1 / R on a sphere of radius R, 0 on a plane."""
        return float(self.turns.mean())

    @property
    def error(self) -> float:
        """Standard error of the mean over places."""
        return float(self.turns.std(ddof=1) / np.sqrt(len(self.turns)))


def boundary_curvature(
    model: nn.Module, x: Any, *, places: int = 64, tangents: int = 4, reach: float | None = None,
    forward: Forward | None = None, generator: torch.Generator | None = None,
) -> BoundaryCurvature:  # fmt: skip
    """How much the decision boundary between data points bends, in radians per unit of distance.

    Between two points of different classes the boundary is met at a place p, where the scores of two classes a and c
    are equal: there it is the zero set of g = f_a - f_c with normal n = grad g / ||grad g||. A step of length `reach`
    along a random tangent and back to g = 0 leads to p', and the turn is

        angle(n(p), n(p')) / reach.

    As the reach goes to 0 this is the length of the shape operator's image of the tangent where g is smooth, and for a
    piecewise-affine network, whose boundary is flat but for its bends, their angles per length: one measure for both.

    Args:
        model: Gives scores `[N, C]`, or one score (classes by its sign). It is left as it is; a float64 copy is used.
        x: `[N, *input shape]` points of at least two classes, as the model sees them.
        places: Places on the boundary to look at.
        tangents: Random tangents at each.
        reach: Distance; 5% of the median distance between the points of a pair if None.
        forward: How to call the model.
        generator: Source of pairs and tangents; a fresh one with seed 0 if None.

    Returns:
        An estimate from samples. Places are where segments between data cross, so they are not uniform on the boundary;
        bends sharper than a right angle are counted too low, as the way back ends in their corner.

    Cost: 30 passes forward over the places, and 7 forward and backward over `places * tangents` steps.

    Example:
        >>> import torch, splinescope_research
        >>> net = torch.nn.Linear(3, 2, bias=False)  # whose boundary goes through the middle
        >>> round(splinescope_research.boundary_curvature(net, torch.randn(50, 3)).mean, 6)
        0.0
    """
    places, tangents = check_whole(places, "places", least=2), check_whole(tangents, "tangents")
    exact = copy.deepcopy(unwrap(model)).double()
    generator = generator or torch.Generator().manual_seed(0)
    points = as_rows(x, "x").double()
    with evaluating(exact), undisturbed(exact):
        scores = _Scores(class_scores(exact, forward), points[:1])
        a, b = _pairs(scores, points, places, generator)
        away = (b - a).flatten(1).norm(dim=1)
        step = check_positive(reach, "reach") if reach is not None else 0.05 * float(away.median())
        place, gap = _crossings(scores, a, b)
        gradient = _with_gradient(gap, place)[1]
        here, unit = (v.repeat_interleave(tangents, 0) for v in (place, _unit(gradient)))
        tangent = torch.randn(here.shape, generator=generator, dtype=torch.float64)
        tangent = _unit(tangent - _dot(tangent, unit) * unit)
        other, found = _back(gap.repeated(tangents), here + step * tangent, step)
        found &= (_dot(unit, unit) > 0).flatten()  # no normal where scores tie on a region
        turned = _angles(unit, other) / step
    turns = torch.where(found, turned, torch.nan).reshape(len(place), tangents).nanmean(1)
    kept = turns.isfinite()
    if int(kept.sum()) < 2:
        raise NoBoundary(f"the boundary was lost on all steps of length {step:.3g} along it: give a smaller reach.")
    return BoundaryCurvature(turns[kept].numpy(), place[kept].numpy(), step, 1 - float(found.double().mean()))


class _Scores:
    """A model's scores, some `rows` at a time so that its activations stay small."""

    def __init__(self, model: Scores, row: Tensor) -> None:
        self._model, self.rows = model, rows_at_once(model, row)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.cat([self._model(part) for part in x.split(self.rows)])


@dataclass(frozen=True)
class _Gap:
    """Row by row the difference of two classes' scores."""

    scores: _Scores
    first: Tensor
    second: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        values = self.scores(x)
        return values.gather(1, self.first[:, None])[:, 0] - values.gather(1, self.second[:, None])[:, 0]

    def repeated(self, times: int) -> _Gap:
        return _Gap(self.scores, self.first.repeat_interleave(times), self.second.repeat_interleave(times))


def _pairs(scores: _Scores, x: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points of different classes, in pairs; the same draws for every model of the same points."""
    classes = scores(x).argmax(1)
    if int(classes.unique().numel()) < 2:
        raise NoBoundary("x must have points that the model puts into at least two classes, got one class only.")
    drawn = torch.randint(len(x), (_TRIES * count, 2), generator=generator)
    drawn = drawn[classes[drawn[:, 0]] != classes[drawn[:, 1]]][:count]
    if len(drawn) < 2:
        raise NoBoundary("x must have points in at least two classes; nearly all are in one as the model sees them.")
    return x[drawn[:, 0]], x[drawn[:, 1]]


def _crossings(scores: _Scores, a: Tensor, b: Tensor) -> tuple[Tensor, _Gap]:
    """On each segment a place where the class of a ends: by bisection, then by secants on the two scores."""
    first = scores(a).argmax(1)
    low, high = torch.zeros(len(a), dtype=a.dtype), torch.ones(len(a), dtype=a.dtype)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        same = scores(_between(a, b, middle)).argmax(1) == first
        low, high = torch.where(same, middle, low), torch.where(same, high, middle)
    gap = _Gap(scores, first, scores(_between(a, b, high)).argmax(1))
    return _between(a, b, _root(lambda t: gap(_between(a, b, t)), low, high)), gap


def _back(gap: _Gap, start: Tensor, step: float) -> tuple[Tensor, Tensor]:
    """From points beside the boundary back to it by Newton steps; (normals there, which of them lie on it)."""
    x = start
    for _ in range(_NEWTON):
        value, gradient = _with_gradient(gap, x)
        x = x - _wide(value, x) * gradient / _dot(gradient, gradient).clamp_min(1e-300)
    value, gradient = _with_gradient(gap, x)
    slope, moved = gradient.flatten(1).norm(dim=1), (x - start).flatten(1).norm(dim=1)
    return _unit(gradient), (value.abs() <= 1e-6 * step * slope) & (slope > 0) & (moved <= 4 * step)


def _root(f: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> Tensor:
    """Zeros of functions that change sign between `low` and `high`, row by row, by secants that bracket (Illinois)."""
    at_low, at_high = f(low), f(high)
    best = torch.where(at_low.abs() < at_high.abs(), low, high)
    least, side = torch.minimum(at_low.abs(), at_high.abs()), torch.zeros_like(low)
    for _ in range(_SECANTS):
        slope = at_high - at_low
        middle = torch.where(slope != 0, (low * at_high - high * at_low) / slope, (low + high) / 2)
        value = f(middle)
        nearer = value.abs() < least
        best, least = torch.where(nearer, middle, best), torch.where(nearer, value.abs(), least)
        now = torch.where(value.sign() == at_low.sign(), -1.0, 1.0)  # the end that the middle replaces
        again = now == side  # the other end stays for the second time: halve its weight
        at_low, low, at_high, high = (
            torch.where(now < 0, value, torch.where(again, at_low / 2, at_low)),
            torch.where(now < 0, middle, low),
            torch.where(now > 0, value, torch.where(again, at_high / 2, at_high)),
            torch.where(now > 0, middle, high),
        )
        side = now
    return best


def _with_gradient(gap: _Gap, x: Tensor) -> tuple[Tensor, Tensor]:
    """`[N]` values and their gradients, of the shape of x."""
    values, gradients = [], []
    for some, first, second in zip(*(t.split(gap.scores.rows) for t in (x, gap.first, gap.second)), strict=True):
        with torch.enable_grad():
            moved = some.detach().requires_grad_(True)
            part = _Gap(gap.scores, first, second)(moved)
            (gradient,) = torch.autograd.grad(part.sum(), moved)
        values.append(part.detach())
        gradients.append(gradient)
    return torch.cat(values), torch.cat(gradients)


def _angles(u: Tensor, v: Tensor) -> Tensor:
    """`[N]` angles of unit vectors, right for small ones too."""
    return 2 * torch.atan2((u - v).flatten(1).norm(dim=1), (u + v).flatten(1).norm(dim=1))


def _between(a: Tensor, b: Tensor, t: Tensor) -> Tensor:
    return a + _wide(t, a) * (b - a)


def _wide(t: Tensor, like: Tensor) -> Tensor:
    return t.reshape(-1, *(1,) * (like.dim() - 1))


def _dot(u: Tensor, v: Tensor) -> Tensor:
    return _wide((u * v).flatten(1).sum(1), u)


def _unit(v: Tensor) -> Tensor:
    return v / _wide(v.flatten(1).norm(dim=1).clamp_min(1e-300), v)


_MEMORY = 64 << 20  # bytes


def rows_at_once(scores: Scores, row: Tensor) -> int:
    """How many rows `[1, *shape]`, up to 1024, can be differentiated together within 64 MB that autograd keeps.

    What a second row adds is counted: weights are kept once.
    """
    one, two = (_bytes_kept(scores, row.expand(count, *row.shape[1:])) for count in (1, 2))
    return max(1, min(1024, _MEMORY // max(1, two - one)))


def _bytes_kept(scores: Scores, x: Tensor) -> int:
    """Bytes of all memory that autograd keeps to differentiate the scores."""
    kept: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        values = scores(x.detach().clone().requires_grad_(True))
    del values  # what it keeps lives until here, so that no address is met twice
    return sum(kept.values())
