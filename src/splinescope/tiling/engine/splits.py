"""A convex domain split by planes in two directions: seams, with the same corners in all parts that meet there.

Parts are compact: the units that cross a part are what its basis rows cost, and a strip is crossed by nearly as many as
the whole domain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .. import kernels
from ..cells.hull import hull
from ..cells.solids import Solids, bits_of
from ..cells.tiles import OUTSIDE, Tiles

_TILT = 0.0718281828  # seams are not parallel to an axis: folds often are


@dataclass(frozen=True)
class Part:
    """A convex part of a domain.

    Attributes:
        corners: `[n, d]`; in two dimensions counter-clockwise.
        labels: What made its walls (OUTSIDE, or the mark of a seam): per corner, or per facet from three dimensions on.
        on: `[n, facets]` whether a corner lies on a facet; None below three dimensions.
    """

    corners: np.ndarray
    labels: np.ndarray
    on: np.ndarray | None = None

    def tiles(self) -> Tiles:
        """The part as one tile of its corners."""
        n = len(self.corners)
        offsets, corners = np.array([0, n], np.int64), np.arange(n, dtype=np.int32)
        if self.on is None:
            return Tiles(offsets, corners, self.labels.copy())
        facets = np.array([0, len(self.labels)], np.int64)
        return Solids(offsets, corners, self.labels.copy(), bits_of(self.on), facets)


def split(domain: np.ndarray, count: int, seam: int) -> list[Part]:
    """A domain in so many parts or a few more (of a domain that is no box, perhaps fewer), the largest first.

    Straight seams through the whole domain, across its two longest extents. Parts differ in size: who takes the last
    one keeps the others waiting. On a line, from its start to its end.
    """
    d = domain.shape[1]
    on = hull(domain).on if d > 2 else None
    parts = [Part(domain, np.full(len(domain) if on is None else on.shape[1], OUTSIDE, np.int32), on)]
    directions = np.argsort(-np.ptp(domain, axis=0), kind="stable")[:2]
    each = math.ceil(count ** (1.0 / len(directions)) - 1e-9)
    ends = np.cumsum(np.linspace(1.7, 0.3, each)) / each
    for number, axis in enumerate(directions):
        normal = np.full(d, _TILT * (-1) ** number if d > 1 else 0.0)
        normal[axis] = 1.0
        along = _heights(domain, normal)
        for i in range(1, each):
            share = ends[i - 1] + 0.05 * np.sin(i) / each  # not a simple fraction: symmetric networks have folds there
            offset = along.min() + share * np.ptp(along)
            parts = [half for part in parts for half in _halves(part, normal, offset, seam)]
    return parts if d == 1 else sorted(parts, key=lambda part: -part.tiles().size(part.corners))  # lines stay in order


def _heights(corners: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """`corners @ normal`, whose last bits depend on no other corner: parts must agree on those that they share."""
    heights: np.ndarray = (corners * normal).sum(1)
    return heights


def _halves(part: Part, normal: np.ndarray, offset: float, seam: int) -> list[Part]:
    """The parts below and above a seam, with the same corners on it; the part itself if it lies on one side."""
    side = _heights(part.corners, normal) - offset
    if (side <= 0).all() or (side >= 0).all():
        return [part]
    if part.on is not None:
        return _solid_halves(part, part.on, side, seam)
    if part.corners.shape[1] == 1:
        middle = np.array([offset])
        return [
            Part(np.stack([part.corners[0], middle]), np.array([part.labels[0], seam], np.int32)),
            Part(np.stack([middle, part.corners[1]]), np.array([seam, part.labels[1]], np.int32)),
        ]
    below: list[tuple[np.ndarray, int]] = []
    above: list[tuple[np.ndarray, int]] = []
    n = len(side)
    for i in range(n):
        j = (i + 1) % n
        (below if side[i] < 0 else above).append((part.corners[i], int(part.labels[i])))
        if (side[i] < 0) != (side[j] < 0):
            point = _crossing(part.corners, side, int(i), int(j))
            leaving, entering = (below, above) if side[i] < 0 else (above, below)
            leaving.append((point, seam))  # the wall along the seam follows
            entering.append((point, int(part.labels[i])))
    return [
        Part(np.stack([p for p, _ in half]), np.array([label for _, label in half], np.int32))
        for half in (below, above)
    ]


def _solid_halves(part: Part, on: np.ndarray, side: np.ndarray, seam: int) -> list[Part]:
    """`_halves` from three dimensions on: corners are joined as in `kernels.cut_polytopes`."""
    d = part.corners.shape[1]
    points, rows = [], []
    for i in np.flatnonzero(side < 0):
        for j in np.flatnonzero(side >= 0):
            shared = on[i] & on[j]
            if shared.sum() >= d - 1 and on[:, shared].all(1).sum() == 2:
                points.append(_crossing(part.corners, side, int(i), int(j)))
                rows.append(shared)
    halves = []
    for mine in (side < 0, side >= 0):
        corners = np.concatenate([part.corners[mine], np.stack(points)])
        table = np.concatenate([on[mine], np.stack(rows)])
        at_seam = np.arange(len(corners)) >= mine.sum()
        facets = table.sum(0) >= d
        labels = np.append(part.labels[facets], np.int32(seam)).astype(np.int32)
        halves.append(Part(corners, labels, np.column_stack([table[:, facets], at_seam])))
    return halves


def _crossing(corners: np.ndarray, side: np.ndarray, i: int, j: int) -> np.ndarray:
    """Where the edge between two corners meets the seam; the same bits from both its sides."""
    if tuple(corners[i]) > tuple(corners[j]):
        i, j = j, i
    s = side[i] / (side[i] - side[j])
    point: np.ndarray = corners[i] + s * (corners[j] - corners[i])
    return point


def names_of(corners: np.ndarray) -> np.ndarray:
    """A name for each corner that depends on where it is alone."""
    bits = np.ascontiguousarray(corners).view(np.uint64)
    names = []
    for row in bits.tolist():
        name = row[0] | 1
        for number in row[1:] if len(row) > 1 else row:
            name = kernels.mix_in_python(name, number, len(row))
        names.append(name)
    return np.array(names, np.uint64)
