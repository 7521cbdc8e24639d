"""A polytope `{t : heights + normals @ t >= 0}` in many dimensions: its true facets.

Which halfspaces are facets is found from both sides. A ray from inside that meets one hyperplane before all others
proves a facet. A halfspace is redundant if its row lies in the cone of the facets' rows (Farkas): non-negative least
squares finds either the combination or, as its residual, a point that lies in all those halfspaces but not in this
one, and the ray to that point finds a new facet (Clarkson's scheme: only facets found so far are ever asked). Such a
problem takes a thirtieth of the time of the linear programme that answers the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..support.errors import InputError, SplinescopeError
from ._kernels import REDUNDANT, ROUNDING, decide, shoot

_RANK = 1e-10  # of the largest singular value
_NUMBERS = 1 << 22  # of a block of rays
_AT_ONCE = 1 << 17  # numbers in rows that are decided between two looks at the clock

Stop = Callable[[float], bool]
"""Told the share done; True ends the work."""


@dataclass(eq=False)
class Polytope:
    """Halfspaces with unit normals, one for each group of equal rows.

    Attributes:
        heights: `[n]` signed distances of the origin to the hyperplanes.
        normals: `[n, r]` of length 1, inward.
        center: `[r]` a point inside.
        state: `[n]` 1: a facet, 0: redundant, -1: not asked yet.
        points: `[n, r]` inner points of the facets found.
    """

    heights: np.ndarray
    normals: np.ndarray
    center: np.ndarray
    state: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int8))
    points: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if len(self.state) != len(self.heights):  # not known yet
            self.state = np.full(len(self.heights), -1, np.int8)
            self.points = np.empty(self.normals.shape)

    def solve(self, stop: Stop = lambda share: False) -> bool:
        """Decide for all halfspaces whether they are facets; False if stopped before."""
        if not (self.state < 0).any():
            return True
        rows, _, span = self._relations
        random = np.random.default_rng(0).standard_normal((max(64, len(rows)), len(span)))
        rays = np.concatenate([-rows[self.state < 0, :-1], random])
        together = max(1, _NUMBERS // len(rows))
        for start in range(0, len(rays), together):
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
    def _relations(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows for combinations `[n, s + 1]`, which of them take part in any, and the span `[s, r]` that they lie in.

        Rows in no linear relation with others are facets: each can be crossed while all others stay. They have no part
        in any combination, so that combinations are looked for in the span of the rest.
        """
        unit = max(float(np.median(self._above)), 1e-300)  # heights are then of the size of normals
        scale = float(np.median(np.abs(self.heights)))
        if not ROUNDING * scale <= REDUNDANT * unit:
            raise InputError(
                f"x is too far away for float64 to tell this tile's walls: they are some {scale:.1e} from x and "
                f"{unit:.1e} from the tile's center. Take an x nearer to the folds."
            )
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
        return rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-300), ~alone, span

    def _decide(self, asked: np.ndarray, stop: Stop) -> bool:
        rows, mixed, span = self._relations
        asked = asked[np.argsort(self._above[asked])]
        together = max(8, _AT_ONCE // rows.size)
        for start in range(0, len(asked), together):
            if stop(start / len(asked)):
                return False
            some = asked[start : start + together]
            if not decide(self.normals, self._above, self.center, rows, mixed, span, some, self.state, self.points):
                raise SplinescopeError(f"non-negative least squares over {len(rows)} units did not converge.")
        return True
