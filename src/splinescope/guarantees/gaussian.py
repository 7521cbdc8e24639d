"""A Gaussian on a slice's coordinates, conditioned on its domain: exact moments on lines, points elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.checks import as_float64_array
from ..support.errors import InputError
from ..tiling.cells.tiles import Tiles
from ..tiling.slice import Slice
from .sets import outline

REPLICATES = 16  # independent scramblings, from which errors are told


@dataclass(frozen=True)
class Gaussian:
    """Independent Gaussian coordinates of a slice."""

    mean: np.ndarray  # [d]
    std: np.ndarray  # [d]

    @classmethod
    def made(cls, law: Any, view: Slice) -> Gaussian:
        """From a pair (mean, std), numbers or one per coordinate."""
        ends = [as_float64_array(value, name) for value, name in zip(law, ("mean", "std"), strict=True)]
        if any(end.ndim and end.shape != (view.dimension,) for end in ends):
            raise InputError(
                f"law=(mean, std) takes numbers or {view.dimension} of them each, one per coordinate of the set, got "
                f"shapes {ends[0].shape} and {ends[1].shape}."
            )
        mean, std = (np.broadcast_to(end, (view.dimension,)) for end in ends)
        if not (std > 0).all():
            raise InputError(f"the standard deviations of law must be positive, got {std.tolist()}.")
        return cls(mean, std)

    def intervals(self, ends: np.ndarray) -> np.ndarray:
        """`[n, 3]`: of intervals `[n, 2]` of a line, the integrals of 1, u and u^2, with u = (t - mean) / std.

        With densities p and distribution function P: P(b) - P(a), p(a) - p(b), and the first plus a p(a) - b p(b).
        """
        from scipy.special import ndtr

        a, b = ((ends - self.mean) / self.std).T
        left = b <= 0  # differences of small numbers in either tail
        mass = np.where(left, ndtr(b) - ndtr(a), ndtr(-a) - ndtr(-b))
        pa, pb = (np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi) for u in (a, b))
        return np.stack([mass, pa - pb, mass + a * pa - b * pb], 1)

    def masses(self, tiles: Tiles, points: np.ndarray) -> np.ndarray:
        """`[n]` probabilities of intervals."""
        return self.intervals(points[tiles.corners, 0].reshape(-1, 2))[:, 0]

    def draw(self, view: Slice, count: int, seed: int) -> list[np.ndarray]:
        """Per replicate, points `[n, d]` of the domain: Sobol' points through the inverse distribution function."""
        from scipy.special import ndtr, ndtri
        from scipy.stats import qmc

        low, high = ((end - self.mean) / self.std for end in (view.domain.min(0), view.domain.max(0)))
        flip = low > 0  # the upper tail as the lower one, where differences keep their digits
        low, high = np.where(flip, -high, low), np.where(flip, -low, high)
        start, mass = ndtr(low), ndtr(high) - ndtr(low)
        if not (mass > 1e-280).all():
            raise InputError("the set must have some of the law's mass: it lies too many deviations from the mean.")
        normals, offsets = outline(view)
        slack = 1e-12 * (np.abs(offsets) + 1.0)
        drawn = []
        for r in range(REPLICATES):
            share = qmc.Sobol(view.dimension, rng=np.random.default_rng((seed, r))).random(max(2, count // REPLICATES))
            u = np.clip(ndtri(start + share * mass), low, high)
            points = self.mean + self.std * np.where(flip, -u, u)
            drawn.append(points[(points @ normals.T <= offsets + slack).all(1)])
        if min(map(len, drawn)) < 8:
            raise InputError(
                f"the set must have more of the law's mass: of {count} points about it too few lie inside; raise count."
            )
        return drawn
