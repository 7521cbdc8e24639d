"""A plane through a 3-D tiling: the 2-D tiling on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...support.checks import as_float64_array
from ...support.errors import InputError
from ..cells.lists import CornerLists, backward, following
from ..cells.polygons import Cells
from ..cells.tiles import OUTSIDE
from ..slice import Slice
from .surfaces import need_space, shared_vertices, trace, without_repeats

if TYPE_CHECKING:
    from ..tiling import Tiling


def section(tiling: Tiling, normal: Any, through: Any = None) -> Tiling:
    """The 2-D tiling on a plane through this 3-D one: what `tessellate` gives there, without the network.

    Args:
        normal: `[3]` a direction at right angles to the plane, in slice coordinates.
        through: `[3]` a point of the plane; by default the mean of the domain's corners.
    """
    need_space(tiling, "sections")
    origin, basis = _plane(tiling.view.domain, normal, through)
    across = np.cross(*basis)
    heights = (tiling.vertices - origin) @ (across / np.linalg.norm(across))
    tolerance = 1e-12 * float(np.ptp(tiling.view.domain, axis=0).max())
    outputs = np.zeros((len(heights), 0)) if tiling.values is None else tiling.values
    values = np.stack([np.zeros(len(heights)), heights], 1)
    points, offsets, tiles, _ = trace(tiling, values, tolerance, outputs)
    if not len(tiles):  # on the domain's upper face: tiles lie below it alone
        points, offsets, tiles, _ = trace(tiling, -values, tolerance, outputs)
        points = points[backward(offsets)]
    rows, corners = shared_vertices(points)
    offsets, corners, kept = without_repeats(offsets, corners)
    if not len(kept):
        raise InputError("the plane must meet the slice's domain in an area; it does not.")
    used, ids = np.unique(corners, return_inverse=True)
    corners, rows = ids.reshape(-1).astype(np.int32), rows[used]
    labels = _labels(tiling, offsets, corners, tiles[kept])
    flat = np.linalg.lstsq(basis.T, (rows[:, :3] - origin).T)[0].T
    view = Slice(
        tiling.view.inputs(origin[None])[0],
        np.tensordot(basis, tiling.view.basis, 1),
        _outline(flat, offsets, corners, labels),
    )
    return replace(
        tiling, view=view, vertices=np.ascontiguousarray(flat), tiles=Cells(offsets, corners),
        values=None if tiling.values is None else np.ascontiguousarray(rows[:, 5:]), corner_labels=labels,
    )  # fmt: skip


def _plane(domain: np.ndarray, normal: Any, through: Any) -> tuple[np.ndarray, np.ndarray]:
    """A point `[3]` of the plane with that normal, and two orthonormal rows `[2, 3]` along it."""
    normal = as_float64_array(normal, "normal")
    through = domain.mean(0) if through is None else as_float64_array(through, "through")
    if normal.shape != (3,) or through.shape != (3,):
        raise InputError(f"normal and through must have shape (3,), got {normal.shape} and {through.shape}.")
    length = np.linalg.norm(normal)
    if not 1e-100 < length < 1e100:
        raise InputError(f"normal must be a direction, got length {length:.3g}.")
    normal = normal / length
    first = np.eye(3)[int(np.abs(normal).argmin())]
    first = first - (first @ normal) * normal
    first /= np.linalg.norm(first)
    return through, np.stack([first, np.cross(normal, first)])


def _labels(tiling: Tiling, offsets: np.ndarray, corners: np.ndarray, tiles: np.ndarray) -> np.ndarray:
    """The unit of each side: that of the wall between the two tiles whose sections meet there."""
    ends = np.sort(CornerLists(offsets, corners).edges(), 1).astype(np.int64)
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
    cuts = np.zeros(len(wanted), np.int32)
    cuts[found] = walls.cuts[inner[rank[place[found]]]]
    for n in np.flatnonzero(~found):  # the plane passes through an edge in which two tiles meet: a fold through it
        own = tiling.corner_labels[slice(*tiling.tiles.side_offsets[owner[first[n]] : owner[first[n]] + 2])]
        cuts[n] = own.max()
    labels[first] = labels[second] = cuts
    return labels


def _outline(points: np.ndarray, offsets: np.ndarray, corners: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The corners of the section of the domain, counter-clockwise: outer sides chained, straight corners left out."""
    outer = np.flatnonzero(labels == OUTSIDE)
    after = dict(zip(corners[outer].tolist(), corners[following(offsets)[outer]].tolist(), strict=True))
    start = current = int(corners[outer[0]])
    chain = []
    for _ in range(len(after)):
        chain.append(current)
        current = after.get(current, -1)
        if current in (start, -1):
            break
    if current != start:
        raise InputError(
            "a section needs tiles that fill the domain: the outer sides of these do not close. The tiling is "
            "incomplete, or the file that it was read from is damaged."
        )
    line = points[chain]
    before, behind = line - np.roll(line, 1, 0), np.roll(line, -1, 0) - line
    turn = before[:, 0] * behind[:, 1] - before[:, 1] * behind[:, 0]
    bent = turn > 1e-9 * np.linalg.norm(before, axis=1) * np.linalg.norm(behind, axis=1)
    return line[bent]
