"""A polytope `{t : heights + normals @ t >= 0}` in many dimensions: its true facets and its nearest points.

A ray from inside that meets one hyperplane before all others proves a facet. A halfspace is redundant if its row lies
in the cone of the facets' rows (Farkas): non-negative least squares finds either the combination or, as its residual, a
point in all those halfspaces but not in this one, and the ray to that point finds a new facet (Clarkson's scheme: only
facets found so far are ever asked), in a thirtieth of the time of a linear program. Euclidean nearest points are
found by non-negative least squares too, those in the maximum norm by HiGHS unless they are the foot on a hyperplane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import linprog

from ..support.errors import InputError, SplinescopeError
from ._kernels import REDUNDANT, ROUNDING, decide, nonnegative, shoot, typical

_RANK = 1e-10  # of the largest singular value
_NUMBERS = 1 << 19  # of a block of rays
_AT_ONCE = 1 << 17  # numbers in rows that are decided between two looks at the clock
_INSIDE = 1e-11  # of a height and of the point: a constraint that is violated by less holds
# the least that HiGHS takes
_PRECISE: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_NOWHERE = 1e-10  # residual of a set without points
_OUT_OF_TIME, _INFEASIBLE, _UNBOUNDED = 1, 2, 3  # of scipy's programs

Stop = Callable[[float], bool]
"""Told the share done; True ends the work."""


class UnresolvedError(InputError):
    """Walls that float64 cannot tell apart from where they are seen, or not in the time that is left."""


@dataclass(eq=False)
class Polytope:
    """Halfspaces with unit normals, one for each group of equal rows."""

    heights: np.ndarray  # [n] signed distances of the origin to the hyperplanes
    normals: np.ndarray  # [n, r] of length 1, inward
    center: np.ndarray  # [r] a point inside
    state: np.ndarray  # [n] 1: a facet, 0: redundant, -1: not asked yet
    points: np.ndarray  # [n, r] inner points of the facets found

    @classmethod
    def about(cls, heights: np.ndarray, normals: np.ndarray, center: np.ndarray) -> Polytope:
        """One of which no facet is known."""
        return cls(heights, normals, center, np.full(len(heights), -1, np.int8), np.empty(normals.shape))

    @property
    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """Normals and heights of the halfspaces that are not known to be redundant."""
        return self.normals[self.state != 0], self.heights[self.state != 0]

    def solve(self, stop: Stop = lambda share: False) -> bool:
        """Decide for all halfspaces whether they are facets; False if stopped before."""
        if not (self.state < 0).any():
            return True
        rows, _, span, _ = self._relations
        random = np.random.default_rng(0).standard_normal((max(64, len(rows)), len(span)))
        rays = np.concatenate([-rows[self.state < 0, :-1], random])
        together = max(1, _NUMBERS // len(rows))
        for start in range(0, len(rays), together):
            if stop(0.0):
                return False
            ways = rays[start : start + together] @ span
            shoot(self.normals, self._above, self.center, ways, self.state, self.points)
        return self._decide(np.flatnonzero(self.state < 0), stop)

    def is_facet(self, row: int) -> bool:
        """Whether one halfspace is a facet."""
        if self.state[row] < 0:
            self._decide(np.array([row]), lambda share: False)
        return bool(self.state[row] == 1)

    def mark(self, row: int, point: np.ndarray) -> None:
        """Note that a halfspace is a facet, with a point inside it."""
        if self.state[row] != 1:
            self.state[row], self.points[row] = 1, point

    @cached_property
    def _above(self) -> np.ndarray:
        """`[n]` distances of the center to the hyperplanes."""
        return self.heights + self.normals @ self.center

    @cached_property
    def _relations(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Rows for combinations `[n, s + 1]`, which of them take part in any, the span `[s, r]` they lie in, a unit.

        Rows in no linear relation with others are facets: each can be crossed while all others stay. They have no part
        in any combination, so that combinations are looked for in the span of the rest.
        """
        unit = float(np.median(self._above)) if self._above.min() > 0 else 0.0  # heights are then of normals' size
        scale = max(typical(self.heights), float(np.linalg.norm(self.center)))
        if not ROUNDING * scale < REDUNDANT * unit:
            raise UnresolvedError(
                f"float64 cannot tell the walls of a tile apart: they are some {scale:.1e} from x and {unit:.1e} from "
                "the tile's center. Take an x nearer to the folds."
            )
        axes = self.normals[np.count_nonzero(self.normals, axis=1) == 1]
        if len(axes) and (axes.max(0) > 0).all() and (axes.min(0) < 0).all():  # a box: each row is in some relation
            rows = np.column_stack([self.normals, self._above / unit])
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            return rows, np.ones(len(rows), bool), np.eye(self.normals.shape[1]), unit
        left, sizes, right = np.linalg.svd(self.normals, full_matrices=False)
        rank = int((sizes > _RANK * sizes[0]).sum())
        left, sizes, right = left[:, :rank], sizes[:rank], right[:rank]
        alone = (left**2).sum(1) > 1 - 1e-12
        away = -(left[alone] / sizes) @ right  # along -N^+ e_i, which is orthogonal to all other rows
        for row, direction in zip(np.flatnonzero(alone).tolist(), away, strict=True):
            self.mark(row, self.center - self._above[row] / (direction @ self.normals[row]) * direction)
        if alone.any() and not alone.all():
            _, sizes, right = np.linalg.svd(self.normals[~alone], full_matrices=False)
            right = right[sizes > _RANK * sizes[0]]
        # Directions in the span of the rest, with what it takes beyond it to stay parallel to the rows set aside.
        single = self.normals[alone]
        beyond = single - (single @ right.T) @ right
        span = right - (np.linalg.pinv(beyond) @ (single @ right.T)).T
        rows = np.hstack([self.normals @ span.T, self._above[:, None] / unit])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-300), ~alone, span, unit

    def _decide(self, asked: np.ndarray, stop: Stop) -> bool:
        relations = self._relations
        asked = asked[np.argsort(self._above[asked])]
        together = max(8, _AT_ONCE // relations[0].size)
        for start in range(0, len(asked), together):
            if stop(start / len(asked)):
                return False
            some = asked[start : start + together]
            if not decide(self.normals, self._above, self.center, *relations, some, self.state, self.points):
                raise SplinescopeError(f"non-negative least squares over {len(self.heights)} units did not converge.")
        return True


def program(
    cost: np.ndarray, upper: np.ndarray, limits: np.ndarray, *, positive: int = 0,
    face: tuple[np.ndarray, float] | None = None, seconds: float | None = None,
) -> tuple[np.ndarray, float] | None:  # fmt: skip
    """Where `cost @ v` is least with `upper @ v <= limits`, and that value; None if nowhere, or without bound.

    The last `positive` variables are at least 0; `face` is a row and the value it must have. Raises `UnresolvedError`
    after so many seconds.
    """
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * (len(cost) - positive) + [(0, None)] * positive
    row, value = (None, None) if face is None else (face[0][None], np.array([face[1]]))
    options: Any = _PRECISE if seconds is None else {**_PRECISE, "time_limit": seconds}
    for method in ("highs", "highs-ipm"):  # the simplex method loses its way in one of some thousands
        found = linprog(cost, A_ub=upper, b_ub=limits, A_eq=row, b_eq=value, bounds=bounds, method=method,
                        options=options)  # fmt: skip
        if found.status == _OUT_OF_TIME and seconds is not None:
            raise UnresolvedError("time_limit reached within a linear program.")
        if found.status in (_INFEASIBLE, _UNBOUNDED):
            return None
        if found.success and found.x is not None:
            return np.asarray(found.x), float(cost @ found.x)
    raise SplinescopeError(f"HiGHS did not solve a linear program of {len(limits)} rows: {found.message}")


def nearest(normals: np.ndarray, heights: np.ndarray) -> np.ndarray | None:
    """`[r]` the point of `{t : heights + normals @ t >= 0}` nearest to the origin; None if the set is empty.

    Few of the rows bind: those that the origin violates are asked first, then those that the answer violates.
    """
    point: np.ndarray | None = np.zeros(normals.shape[1])
    asked = np.zeros(len(heights), bool)
    while point is not None:
        below = ~asked & (_excess(normals, heights, point) < 0)
        if not below.any():
            return point
        asked |= below
        point = _least_distance(normals[asked], heights[asked])
    return None


def _least_distance(normals: np.ndarray, heights: np.ndarray) -> np.ndarray | None:
    """The same over all rows at once; some height is negative.

    Lawson and Hanson's least distance programming: with G t >= g the dual is `min ||[G g]^T w - e||, w >= 0`, and the
    residual is the point. The rows with positive weight are then solved once more as equations, to full precision.
    """
    scale = float(-heights.min())  # the distance is at least that: unit normals
    rows = np.hstack([normals, -heights[:, None] / scale])
    target = np.zeros(rows.shape[1])
    target[-1] = 1.0
    weights, rest, converged = nonnegative(rows, target, _NOWHERE)
    if not converged:
        raise SplinescopeError(f"non-negative least squares over {len(rows)} units did not converge.")
    if np.linalg.norm(rest) <= _NOWHERE:
        return None
    point = -scale * rest[:-1] / rest[-1]
    active = weights > 0
    exact = np.linalg.lstsq(normals[active], -heights[active], rcond=None)[0]
    is_better = _excess(normals, heights, exact).min() >= min(0.0, _excess(normals, heights, point).min())
    return exact if is_better else point


def _excess(normals: np.ndarray, heights: np.ndarray, point: np.ndarray) -> np.ndarray:
    """By how much each constraint holds at a point, rounding allowed for."""
    return heights + normals @ point + _INSIDE * (np.abs(heights) + np.linalg.norm(point))


def nearest_on_face(normals: np.ndarray, heights: np.ndarray, row: int) -> np.ndarray | None:
    """The point of the polytope nearest to the origin among those on one of its hyperplanes; None if there is none.

    Most often it is the foot on the hyperplane; else the same problem within the hyperplane, one dimension less.
    """
    normal, height = normals[row], heights[row]
    along = normals @ normal
    inner, heights_there = normals - along[:, None] * normal, heights - height * along
    sizes = np.linalg.norm(inner, axis=1)
    moves = sizes > 1e-12
    slack = _INSIDE * (np.abs(heights) + abs(height))
    heights_there[np.abs(heights_there) <= slack] = 0.0
    if (heights_there[~moves & (np.arange(len(heights)) != row)] < 0).any():
        return None  # a parallel hyperplane cuts it off
    found = nearest(inner[moves] / sizes[moves, None], heights_there[moves] / sizes[moves])
    return None if found is None else found - height * normal


def nearest_in_box(
    normals: np.ndarray, heights: np.ndarray, row: int | None = None, *, seconds: float | None = None
) -> tuple[np.ndarray, float] | None:
    """The point nearest to the origin in the maximum norm, and its distance; on one hyperplane if `row` is given."""
    lengths = np.abs(normals).sum(1)
    first = int(np.argmin(heights / lengths)) if row is None else row
    height = min(heights[first], 0.0) if row is None else heights[first]
    foot = -height / lengths[first] * np.sign(normals[first])
    if _excess(normals, heights, foot).min() >= 0:  # most often: no point is nearer, and all rows hold there
        return foot, float(abs(height) / lengths[first])
    size, unit = normals.shape[1], typical(heights)
    heights = heights / unit
    ones = np.ones((size, 1))
    bounds = np.vstack([np.hstack([np.eye(size), -ones]), np.hstack([-np.eye(size), -ones])])
    given = np.hstack([-normals, np.zeros((len(normals), 1))])
    face = None if row is None else (-given[row], -float(heights[row]))
    limits = np.concatenate([heights, np.zeros(2 * size)])
    found = program(np.eye(size + 1)[-1], np.vstack([given, bounds]), limits, positive=1, face=face, seconds=seconds)
    return None if found is None else (unit * found[0][:-1], unit * found[1])


def largest_ball(normals: np.ndarray, heights: np.ndarray) -> tuple[np.ndarray, float]:
    """Center and radius of a largest ball in `{t : heights + normals @ t >= 0}`; radius inf if none is."""
    size, unit = normals.shape[1], typical(heights)
    above = np.hstack([-normals, np.ones((len(normals), 1))])
    found = program(-np.eye(size + 1)[-1], above, heights / unit, positive=1)
    return (np.zeros(size), np.inf) if found is None else (unit * found[0][:-1], -unit * found[1])


def is_bounded(normals: np.ndarray, dimension: int) -> bool:
    """Whether a polytope with inner points and these normals is bounded: only 0 solves `normals @ d >= 0`.

    So it is if the normals span the space and zero is a positive combination of them; the program looks for the
    direction in which they grow most.
    """
    if len(normals) <= dimension or np.linalg.matrix_rank(normals) < dimension:
        return False
    total = normals.sum(0)
    found = program(-total, np.vstack([-normals, total]), np.append(np.zeros(len(normals)), 1.0))
    return found is not None and -found[1] < 1e-6
