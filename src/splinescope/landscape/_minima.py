"""Exact minima of convex quadratics on intervals and polygons, all pieces at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..support.display import Result
from ..tiling.cells.lists import reduced

if TYPE_CHECKING:
    from .sections import LossSection


@dataclass(frozen=True, eq=False, repr=False)
class Minima(Result):
    """The exact minimum of the loss on each piece.

    Attributes:
        values: `[K]`.
        points: `[K, d]` where it is attained (one of them, if a valley is flat).
        inside: `[K]` whether it is a stationary point inside the piece, not on its boundary.
    """

    values: np.ndarray
    points: np.ndarray
    inside: np.ndarray
    certainty = "exact"


def interval_minima(section: LossSection) -> Minima:
    """Minimum of a convex quadratic on each interval: its stationary point, clipped."""
    left, right = section.breaks[:-1], section.breaks[1:]
    m, g, h = section.centers[:, 0], section.gradients[:, 0], section.hessians[:, 0, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        stationary = np.where(h > 0, m - g / h, m)  # where the outputs do not move there is no slope either
    t = np.clip(stationary, left, right)[:, None]
    values = section.on_piece(np.arange(section.count), t)
    return Minima(values, t, (t[:, 0] > left) & (t[:, 0] < right))


def polygon_minima(section: LossSection) -> Minima:
    """Minimum of a convex quadratic on each polygon: at its stationary point if that is inside, else on an edge."""
    offsets, piece = section.tiles.offsets, section.tiles.owners()
    a, b = section.vertices[section.tiles.edges()].swapaxes(0, 1)
    edge = b - a
    d = a - section.centers[piece]
    bend = np.einsum("ei,eij,ej->e", edge, section.hessians[piece], edge)
    slope = (edge * (section.gradients[piece] + np.einsum("eij,ej->ei", section.hessians[piece], d))).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        s = np.clip(np.where(bend > 0, -slope / bend, np.where(slope < 0, 1.0, 0.0)), 0.0, 1.0)
    on_edge = a + s[:, None] * edge
    edge_values = section.on_piece(piece, on_edge)
    order = np.lexsort((edge_values, piece))
    best = order[offsets[:-1]]
    points, values = on_edge[best].copy(), edge_values[best].copy()
    regular = np.isfinite(section.condition_numbers)
    stationary = section.centers.copy()
    stationary[regular] -= np.linalg.solve(section.hessians[regular], section.gradients[regular][:, :, None])[:, :, 0]
    side = edge[:, 0] * (stationary[piece, 1] - a[:, 1]) - edge[:, 1] * (stationary[piece, 0] - a[:, 0])
    inside = regular & (reduced(np.minimum, side, offsets) > 0)
    points[inside] = stationary[inside]
    values[inside] = section.on_piece(np.arange(section.count), points)[inside]
    return Minima(values, points, inside)
