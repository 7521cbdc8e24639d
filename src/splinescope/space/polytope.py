"""A polytope `{t : heights + normals @ t >= 0}` in many dimensions: its true facets, balls, nearest points.

Which halfspaces are facets is found from both sides. A ray from inside that meets one hyperplane before all others
proves a facet. A halfspace is redundant if its row lies in the cone of the facets' rows (Farkas): non-negative least
squares (`scipy.optimize.nnls`) finds either the combination or, as its residual, a point that lies in all those
halfspaces but not in this one, and the ray to that point finds a new facet (Clarkson's scheme: only facets found so far
are ever asked). Such a problem takes a thirtieth of the time of the linear programme that answers the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .projection import combination

_FIRST = 1e-9  # a ray proves a facet if the next hyperplane is farther by this factor
_REDUNDANT = 1e-9  # a row nearer to the cone of the others is in it
_RANK = 1e-10  # of the largest singular value
_NUMBERS = 1 << 22  # of a block of rays

Stop = Callable[[float], bool]
"""Told the share done; True ends the work."""


@dataclass(eq=False)
class Polytope:
    """Halfspaces with unit normals, one for each group of equal rows.

    Attributes:
        heights: `[n]` signed distances of the origin to the hyperplanes.
        normals: `[n, r]` of length 1, inward.
        center: `[r]` a point inside.
    """

    heights: np.ndarray
    normals: np.ndarray
    center: np.ndarray
    state: np.ndarray = field(init=False)
    """`[n]` 1: a facet, 0: redundant, -1: not asked yet."""
    points: dict[int, np.ndarray] = field(default_factory=dict)
    """Inner points of the facets found."""

    def __post_init__(self) -> None:
        self.state = np.full(len(self.heights), -1, np.int8)
        self._above = self.heights + self.normals @ self.center
        self._mixed: np.ndarray | None = None

    def solve(self, stop: Stop = lambda share: False) -> bool:
        """Decide for all halfspaces whether they are facets; False if stopped before."""
        if not (self.state < 0).any():
            return True
        self._prepare()
        self._shoot()
        return self._clarkson(np.flatnonzero(self.state < 0), stop)

    def is_facet(self, row: int) -> bool:
        """Whether one halfspace is a facet."""
        if self.state[row] < 0:
            self._clarkson(np.array([row]), lambda share: False)
        return bool(self.state[row] == 1)

    def first_hit(self, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of rays from the center along `[m, r]`: which hyperplane is first (-1: none), how far, whether alone."""
        found, how_far, alone = [], [], []
        together = max(1, _NUMBERS // max(1, len(self.heights)))
        for start in range(0, len(directions), together):
            speed = -(directions[start : start + together] @ self.normals.T)
            with np.errstate(divide="ignore", invalid="ignore"):
                times = np.where(speed > 1e-14, self._above / speed, np.inf)
            first = times.argmin(1)
            least = times[np.arange(len(times)), first]
            times[np.arange(len(times)), first] = np.inf
            found.append(np.where(np.isfinite(least), first, -1))
            how_far.append(least)
            alone.append(times.min(1, initial=np.inf) > (1 + _FIRST) * least)
        return np.concatenate(found), np.concatenate(how_far), np.concatenate(alone)

    def mark(self, row: int, point: np.ndarray) -> None:
        """Note that a halfspace is a facet, with a point inside it."""
        self.state[row] = 1
        self.points.setdefault(row, point)

    def _rays(self, directions: np.ndarray) -> np.ndarray:
        """Mark the facets that rays meet alone; which each met first (-1 where none, or several at once)."""
        first, times, alone = self.first_hit(directions)
        met = np.where(alone, first, -1)
        for row in np.unique(met[met >= 0]):
            ray = int(np.flatnonzero(met == row)[0])
            self.mark(int(row), self.center + times[ray] * directions[ray])
        return met

    def _prepare(self) -> None:
        """Mark rows in no linear relation with others: each can be crossed while all others stay.

        They have no part in any combination of rows, so that combinations are looked for in the span of the rest.
        """
        if self._mixed is not None:
            return
        left, sizes, right = np.linalg.svd(self.normals, full_matrices=False)
        rank = int((sizes > _RANK * sizes[0]).sum())
        left, sizes, right = left[:, :rank], sizes[:rank], right[:rank]
        alone = (left**2).sum(1) > 1 - 1e-12
        away = -(left[alone] / sizes) @ right  # along -N^+ e_i, which is orthogonal to all other rows
        for row, direction in zip(np.flatnonzero(alone).tolist(), away, strict=True):
            self.mark(row, self.center - self._above[row] / (direction @ self.normals[row]) * direction)
        self._mixed = ~alone
        if alone.any() and not alone.all():
            _, sizes, right = np.linalg.svd(self.normals[~alone], full_matrices=False)
            right = right[sizes > _RANK * sizes[0]]
        # Directions in the span of the rest, with what it takes beyond it to stay parallel to the rows set aside.
        single = self.normals[alone]
        beyond = single - (single @ right.T) @ right
        self._span = right - (np.linalg.pinv(beyond) @ (single @ right.T)).T
        scale = float(np.median(self._above))  # heights are then of the size of normals
        rows = np.hstack([self.normals @ self._span.T, self._above[:, None] / max(scale, 1e-300)])
        self._rows = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-300)

    def _shoot(self) -> None:
        """Rays towards every hyperplane that is left, and on random ways."""
        toward = -self._rows[self.state < 0, :-1]
        random = np.random.default_rng(0).standard_normal((max(64, len(self.heights)), len(self._span)))
        self._rays(np.concatenate([toward, random]) @ self._span)

    def _clarkson(self, rows: np.ndarray, stop: Stop) -> bool:
        self._prepare()
        rows = rows[np.argsort(self._above[rows])]
        for done, row in enumerate(rows.tolist()):
            if stop(done / len(rows)):
                return False
            while self.state[row] < 0:
                witness = _outside(self._rows[(self.state == 1) & self._mixed], self._rows[row])
                if witness is None:
                    self.state[row] = 0
                    break
                known = int((self.state == 1).sum())
                self._rays((witness[:-1] @ self._span)[None] / np.linalg.norm(witness))
                if int((self.state == 1).sum()) == known:  # within rounding it only touches the others
                    self.state[row] = 0
        return True


def _outside(facets: np.ndarray, row: np.ndarray) -> np.ndarray | None:
    """A vector (direction, weight) that violates `row` and no facet; None if the row is a combination of facets."""
    up = np.zeros((1, len(row)))
    up[0, -1] = 1.0
    cone = np.concatenate([facets, up])
    weights, distance = combination(cone, row)
    return None if distance <= _REDUNDANT else weights @ cone - row
