"""A plane through a 3-D tiling: the 2-D tiling on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...support.checks import as_float64_array
from ...support.errors import InputError
from ..cells.lists import CornerLists, backward, following, offsets_of, owners, reduced
from ..cells.polygons import Cells
from ..cells.tiles import OUTSIDE
from ..slice import Slice
from .maps import vertex_values
from .surfaces import need_space, shared_vertices, trace, without_repeats

if TYPE_CHECKING:
    from ..tiling import Tiling

_APART = 1e-9  # of the extent: farther off, a plane does not lie in a space


def section(tiling: Tiling, plane: Any, through: Any = None) -> Tiling:
    """The 2-D tiling on a plane through this 3-D one: what `tessellate` gives there, without the network.

    Args:
        plane: A 2-D `Slice` within this tiling's; or `[3]` a direction at right angles to the plane, in slice
            coordinates, for all of the domain that it meets.
        through: `[3]` a point of the plane with that normal; by default the mean of the domain's corners.
    """
    need_space(tiling, "sections")
    if isinstance(plane, Slice):
        if through is not None:
            raise InputError("through is for a plane given by its normal; a Slice knows where it lies.")
        origin, basis = _within(tiling.view, plane)
    else:
        origin, basis = _plane(tiling.view.domain, plane, through)
    normal = np.cross(*basis)
    heights = (tiling.vertices - origin) @ (normal / np.linalg.norm(normal))
    tolerance = 1e-12 * float(np.ptp(tiling.view.domain, axis=0).max())
    outputs = None if tiling.values is None else vertex_values(tiling, np.arange(len(tiling.vertices)))
    values = np.stack([np.zeros(len(heights)), heights], 1)
    extra = np.zeros((len(heights), 0)) if outputs is None else outputs
    points, offsets, tiles, _ = trace(tiling, values, tolerance, extra)
    if not len(tiles):  # on the domain's upper face: tiles lie below it alone
        points, offsets, tiles, _ = trace(tiling, -values, tolerance, extra)
        points = points[backward(offsets)]
    rows, corners = shared_vertices(points)
    offsets, corners, kept = without_repeats(offsets, corners)
    if not len(kept):
        raise InputError("the plane must meet the slice's domain in an area; it does not.")
    used, ids = np.unique(corners, return_inverse=True)
    corners, rows, tiles = ids.reshape(-1).astype(np.int32), rows[used], tiles[kept]
    labels = _labels(tiling, offsets, corners, tiles)
    flat = np.linalg.lstsq(basis.T, (rows[:, :3] - origin).T)[0].T
    table = np.concatenate([flat, rows[:, 5:]], 1)
    if isinstance(plane, Slice):
        view = plane
        table, offsets, corners, labels = clipped(table, offsets, corners, labels, plane.domain)
    else:
        view = Slice(
            tiling.view.inputs(origin[None])[0],
            np.tensordot(basis, tiling.view.basis, 1),
            _outline(flat, offsets, corners, labels),
        )
    return replace(
        tiling, view=view, vertices=np.ascontiguousarray(table[:, :2]), tiles=Cells(offsets, corners),
        values=None if outputs is None else np.ascontiguousarray(table[:, 2:]), corner_labels=labels,
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


def _within(space: Slice, plane: Slice) -> tuple[np.ndarray, np.ndarray]:
    """Origin and basis of a 2-D slice in the coordinates of a 3-D one that it must lie in."""
    if plane.dimension != 2 or plane.input_shape != space.input_shape:
        raise InputError(
            f"a section needs a 2-D slice of inputs of shape {space.input_shape}, got a {plane.dimension}-D one of "
            f"{plane.input_shape}."
        )
    inputs = plane.inputs(plane.domain)
    corners = space.coordinates(inputs)
    extent = float(np.ptp(space.domain, axis=0).max())
    away = np.abs(space.inputs(corners) - inputs).max() / max(1e-300, np.abs(space.basis).max() * extent)
    beyond = (space.hull.normals @ corners.T - space.hull.offsets[:, None]).max() / extent
    if away > _APART or beyond > _APART:
        where = "off its three directions" if away > _APART else "beyond its domain"
        raise InputError(
            f"the plane must lie in the tiling's slice; it reaches {max(away, beyond):.3g} of its size {where}."
        )
    places = space.coordinates(plane.inputs(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])))
    return places[0], places[1:] - places[0]


def clipped(
    table: np.ndarray, offsets: np.ndarray, corners: np.ndarray, labels: np.ndarray, domain: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Polygons as far as they lie in a convex counter-clockwise domain `[n, 2]`; new sides are on its boundary.

    Rows of `table` `[V, 2 + m]` hold a vertex's place and what is affine along sides; neighbours share new vertices.
    """
    for start, end in zip(domain, np.roll(domain, -1, 0), strict=True):
        inward = np.array([start[1] - end[1], end[0] - start[0]])
        room = (table[:, :2] - start) @ (inward / np.linalg.norm(inward))
        room[np.abs(room) <= 1e-12 * float(np.ptp(domain, axis=0).max())] = 0.0
        a, b = corners, corners[following(offsets)]
        stays, leaves, enters = room[a] >= 0, (room[a] > 0) & (room[b] < 0), (room[a] < 0) & (room[b] > 0)
        crossing = np.flatnonzero(leaves | enters)
        ends = np.sort(np.stack([a[crossing], b[crossing]], 1), 1)
        pairs, new = np.unique(ends, axis=0, return_inverse=True)
        share = room[pairs[:, 0]] / (room[pairs[:, 0]] - room[pairs[:, 1]])
        made = (1 - share)[:, None] * table[pairs[:, 0]] + share[:, None] * table[pairs[:, 1]]
        number = np.zeros(len(corners), np.int64)
        number[crossing] = len(table) + new.reshape(-1)
        along = np.where((room[a] == 0) & (room[b] < 0), OUTSIDE, labels)  # from here on it is the domain's side
        places = np.concatenate([np.flatnonzero(stays), np.flatnonzero(leaves), np.flatnonzero(enters)])
        order = np.argsort(np.concatenate([2 * places[: stays.sum()], 2 * places[stays.sum() :] + 1]), kind="stable")
        ids = np.concatenate([a[stays], number[leaves], number[enters]])[order]
        sides = np.concatenate([along[stays], np.full(leaves.sum(), OUTSIDE), labels[enters]])[order]
        owner = owners(offsets)[places[order]]
        sizes = np.bincount(owner, minlength=len(offsets) - 1)
        positive = reduced(np.maximum, room[corners], offsets) > 0
        good = (sizes >= 3) & positive
        keep = good[owner]
        table, offsets = np.concatenate([table, made]), offsets_of(sizes[good])
        corners, labels = ids[keep], sides[keep].astype(np.int32)
    used, ids = np.unique(corners, return_inverse=True)
    return table[used], offsets, ids.reshape(-1).astype(np.int32), labels


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
    following = np.arange(1, len(corners) + 1)
    following[offsets[1:] - 1] = offsets[:-1]
    outer = np.flatnonzero(labels == OUTSIDE)
    after = dict(zip(corners[outer].tolist(), corners[following[outer]].tolist(), strict=True))
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
