"""A plane through a 3-D tiling: the 2-D tiling on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import as_float64_array
from .._errors import InputError
from ._tiles import OUTSIDE
from .cells import Cells
from .maps import vertex_values
from .slice import Slice
from .surfaces import need_space, shared_vertices, trace, without_repeats

if TYPE_CHECKING:
    from .tiling import Tiling


def section(tiling: Tiling, normal: Any, through: Any = None) -> Tiling:
    """See `Tiling.section`."""
    need_space(tiling, "sections")
    normal = as_float64_array(normal, "normal")
    domain = tiling.view.domain
    through = domain.mean(0) if through is None else as_float64_array(through, "through")
    if normal.shape != (3,) or through.shape != (3,):
        raise InputError(f"normal and through must have shape (3,), got {normal.shape} and {through.shape}.")
    length = np.linalg.norm(normal)
    if not 1e-100 < length < 1e100:
        raise InputError(f"normal must be a direction, got length {length:.3g}.")
    normal = normal / length
    basis = _plane_basis(normal)
    heights = (tiling.vertices - through) @ normal
    tolerance = 1e-12 * float(np.ptp(domain, axis=0).max())
    outputs = None if tiling.values is None else vertex_values(tiling, np.arange(len(tiling.vertices)))
    values = np.stack([np.zeros(len(heights)), heights], 1)
    extra = np.zeros((len(heights), 0)) if outputs is None else outputs
    points, offsets, tiles, _ = trace(tiling, values, tolerance, extra)
    rows, corners = shared_vertices(points)
    offsets, corners, kept = without_repeats(offsets, corners)
    if not len(kept):
        raise InputError("the plane must meet the inside of the slice's domain; it does not.")
    used, ids = np.unique(corners, return_inverse=True)
    corners, rows, tiles = ids.reshape(-1).astype(np.int32), rows[used], tiles[kept]
    flat = (rows[:, :3] - through) @ basis.T
    labels = _labels(tiling, offsets, corners, tiles)
    view = Slice(
        tiling.view.inputs(through[None])[0],
        np.tensordot(basis, tiling.view.basis, 1),
        _outline(flat, offsets, corners, labels),
    )
    return replace(
        tiling, view=view, vertices=flat, tiles=Cells(offsets, corners),
        values=None if outputs is None else np.ascontiguousarray(rows[:, 5:]), corner_labels=labels,
    )  # fmt: skip


def _plane_basis(normal: np.ndarray) -> np.ndarray:
    """Two orthonormal rows that make a right-handed frame with the normal."""
    first = np.eye(3)[int(np.abs(normal).argmin())]
    first = first - (first @ normal) * normal
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(normal, first)])


def _labels(tiling: Tiling, offsets: np.ndarray, corners: np.ndarray, tiles: np.ndarray) -> np.ndarray:
    """The unit of each side: that of the wall between the two tiles whose sections meet there."""
    following = np.arange(1, len(corners) + 1)
    following[offsets[1:] - 1] = offsets[:-1]
    ends = np.sort(np.stack([corners, corners[following]], 1), 1).astype(np.int64)
    keys = ends[:, 0] * (int(corners.max()) + 1) + ends[:, 1]
    order = np.argsort(keys, kind="stable")
    twin = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    first, second = order[twin], order[twin + 1]
    owner = np.repeat(tiles, np.diff(offsets))
    labels = np.full(len(corners), OUTSIDE, np.int32)
    walls = tiling.walls
    inner = np.flatnonzero((walls.tiles >= 0).all(1))
    between = np.sort(walls.tiles[inner], 1).astype(np.int64)
    known = between[:, 0] * tiling.count + between[:, 1]
    rank = np.argsort(known, kind="stable")
    pair = np.sort(np.stack([owner[first], owner[second]], 1), 1)
    wanted = pair[:, 0] * tiling.count + pair[:, 1]
    place = np.searchsorted(known[rank], wanted).clip(max=max(len(rank) - 1, 0))
    found = known[rank[place]] == wanted if len(rank) else np.zeros(len(wanted), bool)
    units = np.zeros(len(wanted), np.int32)
    units[found] = walls.units[inner[rank[place[found]]]]
    for n in np.flatnonzero(~found):  # the plane passes through an edge in which two tiles meet: a fold through it
        own = tiling.corner_labels[slice(*tiling.tiles.side_offsets[owner[first[n]] : owner[first[n]] + 2])]
        units[n] = own.max()
    labels[first] = labels[second] = units
    return labels


def _outline(points: np.ndarray, offsets: np.ndarray, corners: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The corners of the section of the domain, counter-clockwise: outer sides chained, straight corners left out."""
    following = np.arange(1, len(corners) + 1)
    following[offsets[1:] - 1] = offsets[:-1]
    outer = np.flatnonzero(labels == OUTSIDE)
    after = dict(zip(corners[outer].tolist(), corners[following[outer]].tolist(), strict=True))
    start = current = int(corners[outer[0]])
    chain = []
    for _ in range(len(after)):
        chain.append(current)
        current = after[current]
        if current == start:
            break
    line = points[chain]
    before, behind = line - np.roll(line, 1, 0), np.roll(line, -1, 0) - line
    turn = before[:, 0] * behind[:, 1] - before[:, 1] * behind[:, 0]
    bent = turn > 1e-9 * np.linalg.norm(before, axis=1) * np.linalg.norm(behind, axis=1)
    return line[bent]
