r"""Sign classes: directions `w` that see the batch with the same signs `sign(w . x_i)`.

The volume of a class is the probability that a uniformly random direction falls into it;
`gamma(X)` is the smallest volume. Only the span of the points matters, so points of rank 1, 2 and 3 are
exact whatever their dimension: arcs of a circle, or polygons on a sphere.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy import optimize, special, stats

from splinescope.support.checks import as_float64_array, check_choice, check_whole
from splinescope.support.display import Certainty, Result
from splinescope.support.errors import InputError

from ..arguments import numpy_generator

_TOLERANCE = 1e-12
"""Below this sine of an angle a point lies on a great circle: rounding of unit vectors is 1e-16, a cut adds little."""
_MOST_CLASSES = 20_000
"""That are listed one by one, each by a small quadratic program."""
_CONFIDENCE = 0.99
"""Of the upper end of a sampled gamma."""

Method = Literal["auto", "exact", "bounds", "monte_carlo"]


@dataclass(frozen=True, repr=False)
class SignClasses(Result):
    """The sign classes of a batch and the smallest of their volumes.

    Attributes:
        signs: `[C, n]` booleans, `w . x_i > 0`, one row for each class found.
        volumes: `[C]` exact volumes (`kind="exact"`), lower bounds (`"bounds"`) or estimates (`"monte_carlo"`).
        gamma: Smallest volume: exact, or the middle of what is known (geometric mean of the bounds; the
            estimate for the class that looked smallest). Put `lower`, not this, into a bound on the width.
        lower, upper: Bounds on gamma; equal when exact; rigorous for `"bounds"`; for `"monte_carlo"` the lower
            end is 0 (a class may have escaped) and the upper end holds with the stated confidence.
        kind: How they were found.
    """

    signs: np.ndarray
    volumes: np.ndarray
    gamma: float
    lower: float
    upper: float
    kind: Literal["exact", "bounds", "monte_carlo"]

    @property
    def certainty(self) -> Certainty:
        """By `kind`: "exact", "bound" or "estimate"."""
        return {"exact": "exact", "bounds": "bound", "monte_carlo": "estimate"}[self.kind]  # type: ignore[return-value]

    @property
    def count(self) -> int:
        """Number of classes found (all of them unless `kind` is "monte_carlo")."""
        return len(self.volumes)


def sign_classes(
    x: Any,
    *,
    method: Method = "auto",
    draws: int = 100_000,
    generator: torch.Generator | None = None,
) -> SignClasses:
    r"""The sign classes of a batch and gamma, the volume of the smallest.

    $$ \gamma(X) = \min_{s}\; P\big(\mathrm{sign}(w \cdot x_i) = s_i \;\forall i\big), \qquad
       w \text{ uniform on the sphere, } s \text{ over the signs that occur} $$

    Args:
        x: `[n, D]`, none zero. Collinear points are allowed here (they share a great circle).
        method: "exact" (rank up to 3); "bounds": all classes are listed, each is bounded below by the cap
            inscribed in it, and gamma above by one over their number and by the smallest class of any two or
            three of the points; "monte_carlo": half of the draws pick the rarest class, the other half measure
            it (Clopper-Pearson, 99%). "auto" takes the first that is possible (bounds for up to 20,000 classes).
        draws: Random directions for "monte_carlo".
        generator: Source of the draws (a fixed seed if None).

    Returns:
        A `SignClasses`.

    Cost: exact O(n log n) in rank 2, O(n^3) in rank 3; bounds: one small quadratic program for each class and
    point; Monte Carlo O(draws n D).

    Example:
        >>> turn = 2 * np.pi * np.arange(5) / 5
        >>> classes = sign_classes(np.stack([np.cos(turn), np.sin(turn)], axis=1))
        >>> classes.count, round(classes.gamma, 12)
        (10, 0.1)

    Reference: "Batch Normalization Decomposed", section III, before Theorem 3.
    """
    x = _unit_points(x)
    check_choice(method, "method", ("auto", "exact", "bounds", "monte_carlo"))
    reduced = _in_their_span(x)
    rank = reduced.shape[1]
    if method == "exact" and rank > 3:
        raise InputError(f"exact volumes need points of rank at most 3, got rank {rank}; take bounds or monte_carlo.")
    if method == "exact" or (method == "auto" and rank <= 3):
        cells = {1: _line, 2: _circle, 3: _sphere}[rank](reduced)
        signs, volumes = np.array(list(cells)), np.array(list(cells.values()))
        gamma = float(volumes.min())
        return SignClasses(signs, volumes, gamma, gamma, gamma, "exact")
    expected = 2 * sum(math.comb(len(x) - 1, i) for i in range(rank))
    if method == "bounds" and expected > _MOST_CLASSES:
        raise InputError(f"there may be {expected} classes, more than {_MOST_CLASSES:,} to list; take monte_carlo.")
    if method == "bounds" or (method == "auto" and expected <= _MOST_CLASSES):
        return _bounds(reduced)
    return _monte_carlo(reduced, check_whole(draws, "draws", least=2) // 2, numpy_generator(generator))


def _unit_points(x: Any) -> np.ndarray:
    x = as_float64_array(x, "x")
    if x.ndim != 2 or x.size == 0:
        raise InputError(f"x must have shape (n, D), got {x.shape}.")
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    if (norms == 0).any():
        raise InputError(f"x must not be zero, point {int(norms.argmin())} is.")
    return x / norms


def _in_their_span(x: np.ndarray) -> np.ndarray:
    """Coordinates `[n, rank]` of the points in an orthonormal basis of their span."""
    _, s, basis = np.linalg.svd(x, full_matrices=False)
    coordinates = x @ basis[s > _TOLERANCE * s[0]].T
    return coordinates / np.linalg.norm(coordinates, axis=1, keepdims=True)


Cells = dict[tuple[bool, ...], float]


def _line(x: np.ndarray) -> Cells:
    return {tuple(x[:, 0] > 0): 0.5, tuple(x[:, 0] < 0): 0.5}


def _circle(x: np.ndarray) -> Cells:
    """Arcs between the 2n directions orthogonal to a point."""
    angles = np.arctan2(x[:, 1], x[:, 0])
    walls = np.sort(np.concatenate([angles + np.pi / 2, angles - np.pi / 2]) % (2 * np.pi))
    arcs = np.diff(walls, append=walls[0] + 2 * np.pi)
    keep = arcs > _TOLERANCE
    middles = (walls + arcs / 2)[keep]
    signs = np.stack([np.cos(middles), np.sin(middles)], axis=1) @ x.T > 0
    return dict(zip(map(tuple, signs.tolist()), (arcs[keep] / (2 * np.pi)).tolist(), strict=True))


def _sphere(x: np.ndarray) -> Cells:
    """Octants cut by one great circle after the other; parts of one class are added up at the end."""
    polygons: list[tuple[np.ndarray, tuple[bool, ...]]]
    polygons = [(np.diag(corner), ()) for corner in itertools.product((1.0, -1.0), repeat=3)]
    for normal in x:
        polygons = [
            (part, (*code, side))
            for polygon, code in polygons
            for side in (True, False)
            if len(part := _half(polygon, normal if side else -normal)) >= 3
        ]
    cells: Cells = {}
    for polygon, code in polygons:
        cells[code] = cells.get(code, 0.0) + _area(polygon) / (4 * np.pi)
    return {code: volume for code, volume in cells.items() if volume > _TOLERANCE}


def _half(polygon: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """The part of a convex spherical polygon `[V, 3]` on the positive side of a great circle."""
    height = polygon @ normal
    height[np.abs(height) < _TOLERANCE] = 0.0
    if not (height > 0).any():
        return np.zeros((0, 3))
    kept = []
    for p, q, hp, hq in zip(polygon, np.roll(polygon, -1, axis=0), height, np.roll(height, -1), strict=True):
        if hp >= 0:
            kept.append(p)
        if hp * hq < 0:
            crossing = (hq * p - hp * q) / (hq - hp)
            kept.append(crossing / np.linalg.norm(crossing))
    return np.array(kept)


def _area(polygon: np.ndarray) -> float:
    """Area of a convex spherical polygon: a fan of triangles, each by Van Oosterom and Strackee's formula."""
    a, b, c = polygon[0], polygon[1:-1], polygon[2:]
    triple = np.abs(np.cross(b, c) @ a)
    return float(np.sum(2 * np.arctan2(triple, 1 + b @ a + c @ a + np.sum(b * c, axis=1))))


def _bounds(x: np.ndarray) -> SignClasses:
    """List the classes point by point; each is a cone, and the cap inscribed in it bounds its volume below."""
    classes: list[list[bool]] = [[]]
    for i in range(len(x)):
        classes = [
            [*code, side]
            for code in classes
            for side in (True, False)
            if _margin(x[: i + 1], [*code, side]) > _TOLERANCE
        ]
    signs = np.array(classes)
    margins = np.array([_margin(x, code) for code in classes])
    volumes = _cap_volume(np.arcsin(np.minimum(margins, 1.0)), x.shape[1])
    lower = float(volumes.min())
    upper = min(1 / len(classes), _smallest_of_two_or_three(x))
    return SignClasses(signs, volumes, math.sqrt(lower * upper), lower, upper, "bounds")


def _smallest_of_two_or_three(x: np.ndarray) -> float:
    r"""Smallest class of any two or three of the points: every class of all of them lies in one of those.

    With `a_ij = arcsin(x_i . x_j)`, signs `s` have volume `1/4 + s_i s_j a_ij / 2 pi` for two points and
    `1/8 + (s_i s_j a_ij + s_i s_k a_ik + s_j s_k a_jk) / 4 pi` for three. Volumes below the tolerance are those of
    signs that do not occur (points on a line or in a plane).
    """
    a = np.arcsin(np.clip(x @ x.T, -1, 1))
    i, j = np.triu_indices(len(x), 1)
    first, second, third = np.array(list(itertools.combinations(range(len(x)), 3))).reshape(-1, 3).T
    sides = np.stack([a[first, second], a[first, third], a[second, third]])
    patterns = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    volumes = np.concatenate([0.25 - np.abs(a[i, j]) / (2 * np.pi), (0.125 + patterns @ sides / (4 * np.pi)).ravel()])
    return float(volumes[volumes > _TOLERANCE].min(initial=0.5)) + 1e-15  # the differences above round by less


def _margin(x: np.ndarray, code: list[bool]) -> float:
    """Largest `min_i s_i w . x_i` over unit `w`: the distance from the origin to the hull of the `s_i x_i`."""
    a = np.where(code, 1.0, -1.0)[:, None] * x
    weights, _ = optimize.nnls(np.vstack([a.T, np.ones(len(a))]), np.append(np.zeros(x.shape[1]), 1.0))
    return float(np.linalg.norm(weights @ a) / weights.sum())


def _cap_volume(angle: np.ndarray, dimension: int) -> np.ndarray:
    """Share of the sphere in `dimension` dimensions within `angle` (at most 90 degrees) of a point."""
    return 0.5 * special.betainc((dimension - 1) / 2, 0.5, np.sin(angle) ** 2)


def _monte_carlo(x: np.ndarray, half: int, generator: np.random.Generator) -> SignClasses:
    """The rarest class among `half` draws, measured by as many others."""
    seen = generator.standard_normal((half, x.shape[1])) @ x.T > 0
    signs, counts = np.unique(seen, axis=0, return_counts=True)
    rarest = signs[counts.argmin()]
    fresh = generator.standard_normal((half, x.shape[1])) @ x.T > 0
    hits = int(np.count_nonzero((fresh == rarest).all(axis=1)))
    upper = float(stats.beta.ppf(_CONFIDENCE, hits + 1, half - hits)) if hits < half else 1.0
    return SignClasses(signs, counts / half, hits / half, 0.0, upper, "monte_carlo")
