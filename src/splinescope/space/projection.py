"""Nearest points of a polytope in many dimensions: Euclidean by non-negative least squares, maximum norm by HiGHS."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from ..support.errors import SplinescopeError
from ._kernels import nonnegative

_INSIDE = 1e-11  # of the largest height: a constraint that is violated by less holds
_NOWHERE = 1e-10  # residual of a set without points


def programme(cost: np.ndarray, upper: np.ndarray, limits: np.ndarray, *, positive: int = 0,
              face: tuple[np.ndarray, float] | None = None) -> tuple[np.ndarray, float] | None:  # fmt: skip
    """Where `cost @ v` is least with `upper @ v <= limits`, and that value; None if nowhere, or without bound.

    The last `positive` variables are at least 0; `face` is a row and the value it must have.
    """
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * (len(cost) - positive) + [(0, None)] * positive
    row, value = (None, None) if face is None else (face[0][None], np.array([face[1]]))
    found = linprog(cost, A_ub=upper, b_ub=limits, A_eq=row, b_eq=value, bounds=bounds, method="highs")
    return (np.asarray(found.x), float(cost @ found.x)) if found.success and found.x is not None else None


def nearest(normals: np.ndarray, heights: np.ndarray) -> np.ndarray | None:
    """`[r]` the point of `{t : heights + normals @ t >= 0}` nearest to the origin; None if the set is empty.

    Few of the rows bind: those that the origin violates are asked first, then those that the answer violates.
    """
    size = float(np.abs(heights).max(initial=0.0))
    point: np.ndarray | None = np.zeros(normals.shape[1])
    asked = np.zeros(len(heights), bool)
    while point is not None:
        below = ~asked & (heights + normals @ point < -_INSIDE * size)
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
    size = float(np.abs(heights).max(initial=0.0))
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
    better = heights + normals @ exact
    return exact if better.min() >= min(-_INSIDE * size, (heights + normals @ point).min()) else point


def nearest_on_face(normals: np.ndarray, heights: np.ndarray, row: int) -> np.ndarray | None:
    """The point of the polytope nearest to the origin among those on one of its hyperplanes; None if there is none.

    Most often it is the foot on the hyperplane; else the same problem within the hyperplane, one dimension less.
    """
    normal, height = normals[row], heights[row]
    along = normals @ normal
    inner, heights_there = normals - along[:, None] * normal, heights - height * along
    sizes = np.linalg.norm(inner, axis=1)
    moves = sizes > 1e-12
    if (heights_there[~moves & (np.arange(len(heights)) != row)] < -_INSIDE * max(1.0, abs(height))).any():
        return None  # a parallel hyperplane cuts it off
    found = nearest(inner[moves] / sizes[moves, None], heights_there[moves] / sizes[moves])
    return None if found is None else found - height * normal


def nearest_in_box(normals: np.ndarray, heights: np.ndarray, row: int | None = None) -> tuple[np.ndarray, float] | None:
    """The point nearest to the origin in the maximum norm, and its distance; on one hyperplane if `row` is given."""
    size = normals.shape[1]
    ones = np.ones((size, 1))
    bounds = np.vstack([np.hstack([np.eye(size), -ones]), np.hstack([-np.eye(size), -ones])])
    given = np.hstack([-normals, np.zeros((len(normals), 1))])
    face = None if row is None else (-given[row], -float(heights[row]))
    limits = np.concatenate([heights, np.zeros(2 * size)])
    found = programme(np.eye(size + 1)[-1], np.vstack([given, bounds]), limits, positive=1, face=face)
    return None if found is None else (found[0][:-1], found[1])


def largest_ball(normals: np.ndarray, heights: np.ndarray) -> tuple[np.ndarray, float]:
    """Center and radius of a largest ball in `{t : heights + normals @ t >= 0}`; radius inf if none is."""
    size = normals.shape[1]
    found = programme(-np.eye(size + 1)[-1], np.hstack([-normals, np.ones((len(normals), 1))]), heights, positive=1)
    return (np.zeros(size), np.inf) if found is None else (found[0][:-1], -found[1])


def is_bounded(normals: np.ndarray, dimension: int) -> bool:
    """Whether a polytope with inner points and these normals is bounded: only 0 solves `normals @ d >= 0`.

    So it is if the normals span the space and zero is a positive combination of them; the programme looks for the
    direction in which they grow most.
    """
    if len(normals) <= dimension or np.linalg.matrix_rank(normals) < dimension:
        return False
    total = normals.sum(0)
    found = programme(-total, np.vstack([-normals, total]), np.append(np.zeros(len(normals)), 1.0))
    return found is not None and -found[1] < 1e-6
