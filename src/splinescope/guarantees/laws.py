"""What inputs are drawn from: uniformly from a slice, or by a Gaussian conditioned on it, with moments of its tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.checks import as_float64_array
from ..support.errors import InputError
from ..tiling.cells.lists import CornerLists, reduced
from ..tiling.measures.tile_shapes import UNIT, second_moments, shape_rounding
from ..tiling.slice import Slice
from ..tiling.tiling import Tiling
from .sets import outline

REPLICATES = 16  # independent scramblings, from which errors are told


@dataclass(frozen=True)
class Moments:
    """Of a law on every tile: mass, center and covariance, each with a bound of its rounding."""

    masses: np.ndarray  # [K]
    masses_off: np.ndarray
    centers: np.ndarray  # [K, d]
    centers_off: np.ndarray
    spreads: Callable[[slice], tuple[np.ndarray, np.ndarray]]  # of some tiles, [n, d, d] each: covariances and bounds
    whole: float  # mass of the set


def masses(tiles: CornerLists, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Volumes `[n]` of tiles, bounds of their rounding, and what a share of each may have per share, at most."""
    volumes, off = tiles.sizes(points), shape_rounding(tiles, points)[0]
    return volumes, off, volumes + off


def moments(tiling: Tiling) -> Moments:
    """Of the uniform law.

    A covariance is a sum over simplices as the centroid is, of terms that are at most the box's sides multiplied: it is
    off by the share of volume in doubt times these, for the second moment once and for the centroid squared twice.
    """
    at = tiling.vertices[tiling.tiles.corners]
    width = reduced(np.maximum, at, tiling.tiles.offsets) - reduced(np.minimum, at, tiling.tiles.offsets)
    off, moved = shape_rounding(tiling.tiles, tiling.vertices)

    def spreads(part: slice) -> tuple[np.ndarray, np.ndarray]:
        doubt = 2 * moved[part, :, None] * width[part, None, :]
        return second_moments(tiling, part), doubt + doubt.transpose(0, 2, 1)

    return Moments(tiling.areas, off, tiling.centroids(), moved, spreads, tiling.view.size)


@dataclass(frozen=True)
class Gaussian:
    """Independent Gaussian coordinates of a slice."""

    mean: np.ndarray  # [d]
    std: np.ndarray  # [d]

    @classmethod
    def from_pair(cls, law: Any, view: Slice) -> Gaussian:
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

    def intervals(self, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`[n, 3]`: of intervals `[n, 2]` of a line, the integrals of 1, u and u^2, with u = (t - mean) / std.

        With densities p and distribution function P: P(b) - P(a), p(a) - p(b), and the first plus a p(a) - b p(b).
        Then bounds of their rounding: P and p are taken to be good to 4 (16 + u^2) units (they are to half of that),
        P above 1/2 to 64, which covers the rounding of u.
        """
        from scipy.special import ndtr

        u = (ends - self.mean) / self.std
        a, b = u.T
        ways = np.where((b <= 0)[:, None], u, -u)  # differences of small numbers in either tail
        tails = ndtr(ways)
        mass = np.abs(tails[:, 1] - tails[:, 0])
        density = _density(u)
        off = 4 * (16 + u * u) * UNIT
        first = 4 * (16 + np.minimum(ways, 0.0) ** 2) * UNIT * tails + off * np.abs(u) * density
        slack = [first, off * density, first + off * np.abs(u) * density]
        found = np.stack([mass, density[:, 0] - density[:, 1], mass + a * density[:, 0] - b * density[:, 1]], 1)
        return found, np.stack([s.sum(1) + 1e-300 for s in slack], 1)

    def masses(self, tiles: CornerLists, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Probabilities `[n]` of intervals, bounds of their rounding, and the most that a share may have per share."""
        ends = points[tiles.corners, 0].reshape(-1, 2)
        found, off = self.intervals(ends)
        u = (ends - self.mean) / self.std
        return found[:, 0], off[:, 0], 1.01 * self.densest(ends) * np.abs(u[:, 1] - u[:, 0])

    def densest(self, ends: np.ndarray) -> np.ndarray:
        """`[n]` the largest density of u on intervals."""
        return _density(np.clip(0.0, *np.sort((ends - self.mean) / self.std).T))

    def moments(self, tiling: Tiling) -> Moments:
        """On a line."""
        ends = tiling.vertices[tiling.tiles.corners, 0].reshape(-1, 2)
        found, off = self.intervals(ends)
        mass, first, second = found.T
        some = np.where(mass > 0, mass, 1.0)
        shift, square = first / some, second / some
        spread = np.clip(square - shift**2, 0.0, None)
        # where the mass itself is in doubt, a mean is still between the ends, and a variance below their distance's
        sure = np.maximum(mass - off[:, 0], 1e-300)
        u = (ends - self.mean) / self.std
        far = 1.01 * np.abs(u - shift[:, None]).max(1)
        moved = np.minimum((off[:, 1] + np.abs(shift) * off[:, 0]) / sure, far) + 8 * UNIT * np.abs(shift)
        loose = (off[:, 2] + square * off[:, 0]) / sure + moved * (2 * np.abs(shift) + moved)
        loose = np.minimum(loose, spread + 4 * far**2) + 8 * UNIT * (square + shift**2)
        centers = self.mean + self.std * shift[:, None]
        centers_off = self.std * moved[:, None] + 4 * UNIT * (np.abs(self.mean) + np.abs(centers))
        scale = float(self.std[0]) ** 2
        spreads, spreads_off = (scale * s[:, None, None] for s in (spread, loose + 4 * UNIT * spread))
        whole = float(self.intervals(tiling.view.domain.reshape(1, 2))[0][0, 0])
        return Moments(mass, off[:, 0], centers, centers_off, lambda part: (spreads[part], spreads_off[part]), whole)

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


def _density(u: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi))
