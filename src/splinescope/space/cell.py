"""A tile as the searches see it: the halfspaces of its pattern, which of them are walls, and what lies behind each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .affine_rows import Coordinates, LocalRows, at_origin, behind, key_of
from .nearest_rows import nearest_rows
from .polytope import Polytope
from .projection import nearest_in_box, nearest_on_face

_SAME = 1e-9  # rows (normal and relative height) that differ by less are one hyperplane


@dataclass(frozen=True, eq=False)
class Cell:
    """One tile in the coordinates of a search.

    Attributes:
        space: The coordinates.
        rows: Its units.
        center: `[r]` a point inside.
        on: Folds that pass through the origin, as (site, unit), where it was read there.
        box: `[2, D]` low and high of a box that it is cut to; None: all of space. Its sides have site -1.
    """

    space: Coordinates
    rows: LocalRows
    center: np.ndarray
    on: tuple[tuple[int, int], ...] = ()
    box: np.ndarray | None = None

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Per hyperplane, the rows (of `rows`, then of the box) whose hyperplane it is."""
        normals, heights = self._all
        size = max(float(np.median(np.abs(heights))), 1e-300) if len(heights) else 1.0
        return _groups(np.hstack([normals, heights[:, None] / size]))

    @cached_property
    def polytope(self) -> Polytope:
        """Its hyperplanes, each once; they are numbered as in `members`."""
        normals, heights = self._all
        first = np.array([group[0] for group in self.members], np.int64)
        return Polytope(heights[first], normals[first], self.center)

    @property
    def _all(self) -> tuple[np.ndarray, np.ndarray]:
        if self.box is None:
            return self.rows.normals, self.rows.heights
        sides = np.concatenate([np.eye(self.space.dimension), -np.eye(self.space.dimension)])
        origin = self.space.origin.reshape(-1)
        heights = np.concatenate([origin - self.box[0], self.box[1] - origin])
        return np.vstack([self.rows.normals, sides]), np.concatenate([self.rows.heights, heights])

    def units(self, wall: int) -> np.ndarray:
        """`[m, 3]` site, unit and rival whose folds lie along a hyperplane; site -1, input and side for the box."""
        own = len(self.rows.heights)
        size = self.space.dimension
        return np.array([
            (self.rows.sites[i], self.rows.units[i], self.rows.rivals[i]) if i < own
            else (-1, (i - own) % size, (i - own) // size)
            for i in self.members[wall]
        ], np.int64).reshape(-1, 3)  # fmt: skip

    def leads_on(self, wall: int) -> bool:
        """Whether another tile lies behind a wall (not the outside of the box)."""
        return bool((self.units(wall)[:, 0] >= 0).all())

    def key_behind(self, wall: int) -> bytes | None:
        """The key of the tile behind a facet where it follows without reading it: one unit changes sides."""
        units = self.units(wall)
        if len(units) != 1 or units[0, 2] >= 0 or len(self.rows.flat):
            return None
        site, unit, _ = units[0].tolist()
        pattern = [p.copy() if number == site else p for number, p in enumerate(self.rows.pattern)]
        pattern[site][unit] = not pattern[site][unit]
        return key_of(pattern)

    def across(self, wall: int) -> Cell:
        """The tile behind a facet; that it is a facet of that tile too is known to it."""
        polytope = self.polytope
        direction, point = -polytope.normals[wall], polytope.points[wall]
        units = self.units(wall)
        rows = self.space.rows(behind(self.rows, units, direction))
        cell = Cell(self.space, rows, _inside(rows, self.box, self.space, point, direction), (), self.box)
        same = (rows.sites == units[0, 0]) & (rows.units == units[0, 1]) & (units[0, 2] < 0)
        for row in np.flatnonzero(same).tolist():
            if rows.normals[row] @ direction > 1 - 1e-9:
                other = next(number for number, group in enumerate(cell.members) if row in group)
                cell.polytope.mark(other, point)
        return cell

    def decide_within(self, reach: float, stop: Callable[[float], bool]) -> bool:
        """Decide which hyperplanes are facets nearer than `reach`; False if stopped before.

        Hyperplanes beyond it are not known: a facet that begins farther away stays undecided.
        """
        polytope = self.polytope
        normals, heights = polytope.normals, polytope.heights
        feet = heights - heights[:, None] * (normals @ normals.T)
        np.fill_diagonal(feet, np.inf)
        inner = feet.min(1, initial=np.inf) > _SAME * (float(np.median(heights)) if len(heights) else 0.0)
        for wall in np.flatnonzero(inner).tolist():  # most often the foot on it is inside
            polytope.mark(wall, -heights[wall] * normals[wall])
        rest = np.flatnonzero(~inner)
        begins = np.full(len(heights), np.inf)
        begins[inner] = heights[inner]
        stopped = False
        for done, wall in enumerate(rest[np.argsort(heights[rest])].tolist()):
            stopped = stop(done / len(rest))
            if stopped:
                break
            if polytope.state[wall] != 0:
                begins[wall] = self.distance(wall)[0]
            if begins[wall] < reach:
                polytope.is_facet(wall)
        polytope.state[(polytope.state == 1) & (begins >= reach) & np.isfinite(reach)] = -1
        return not stopped

    def distance(self, wall: int, norm: float = 2) -> tuple[float, np.ndarray | None]:
        """Distance of the origin to a facet, and where it is nearest, as a change of the input `[D]`.

        What it tells about the halfspace is noted: the tile may not touch it, or touch it in the middle of a facet.
        """
        normals, heights = self.polytope.normals, self.polytope.heights
        kept = (self.polytope.state != 0) | (np.arange(len(heights)) == wall)
        row = int(kept[:wall].sum())
        normals, heights = normals[kept], heights[kept]
        if norm == 2:
            point = nearest_on_face(normals, heights, row)
            if point is None:
                self.polytope.state[wall] = max(0, self.polytope.state[wall])
                return np.inf, None
            far, others = float(np.linalg.norm(point)), np.delete(heights + normals @ point, row)
            if others.min(initial=np.inf) > _SAME * (far + float(np.median(np.abs(heights)))):
                self.polytope.mark(wall, point)
            return far, self.space.directions(point[None])[0]
        found = nearest_in_box(self.space.directions(normals), heights, row)
        return (np.inf, None) if found is None else (found[1], found[0])


def nearest_cell(space: Coordinates, count: int, tell: Callable[[float], None]) -> tuple[Cell, float]:
    """The tile of the origin by its nearest hyperplanes alone, and within which distance that is all of it."""
    direction = _generic(space.dimension)
    rows, on, reach = nearest_rows(space, count, direction, tell)
    still = np.zeros(space.dimension)
    return Cell(space, rows, _inside(rows, None, space, still, direction) if on else still, on), reach


def _generic(size: int) -> np.ndarray:
    """A fixed direction in general position."""
    direction = np.random.default_rng(0).standard_normal(size)
    return np.asarray(direction / max(float(np.linalg.norm(direction)), 1e-300))


def cell_at(space: Coordinates, box: np.ndarray | None = None) -> Cell:
    """The tile of the origin; where folds pass through it, the one in a fixed generic direction."""
    direction = _generic(space.dimension)
    on: list[tuple[int, int]] = []
    still = np.zeros(space.dimension)
    if box is not None:  # from a side of it the way leads inwards
        origin = space.origin.reshape(-1)
        direction = np.where(origin == box[0], np.abs(direction), direction)
        direction = np.where(origin == box[1], -np.abs(direction), direction)
    rows = space.rows(at_origin(direction, on))
    at_edge = bool(on) or (box is not None and bool((space.origin.reshape(-1) == box).any()))
    return Cell(space, rows, _inside(rows, box, space, still, direction) if at_edge else still, tuple(on), box)


def _inside(
    rows: LocalRows, box: np.ndarray | None, space: Coordinates, point: np.ndarray, direction: np.ndarray
) -> np.ndarray:
    """An inner point of a tile, from a point of its edge and a direction that leads into it.

    Half way to the next wall, and from there half way to the walls on a few random ways: a mean of inner points is
    inside, and less near to walls than each.
    """
    cell = Cell(space, rows, point, (), box)
    normals, heights = cell._all
    if not len(heights):
        return point
    above, speed = heights + normals @ point, -(normals @ direction)
    ahead = speed > 1e-12
    step = float((above[ahead] / speed[ahead]).min(initial=np.inf))
    point = point + direction * (0.5 * step if np.isfinite(step) else 1.0)
    ways = np.random.default_rng(0).standard_normal((8, len(point)))
    ways = np.concatenate([ways, -ways]) / np.linalg.norm(ways, axis=1).mean()
    above, speeds = heights + normals @ point, -(ways @ normals.T)
    with np.errstate(divide="ignore"):
        steps = np.where(speeds > 1e-12, above / speeds, np.inf).min(1)
    most = np.median(steps)
    steps = np.minimum(steps, 4 * most if np.isfinite(most) else 1.0)
    moved = point + 0.5 * (steps[:, None] * ways).mean(0)
    return moved if (heights + normals @ moved).min() > above.min() else point


def _groups(rows: np.ndarray) -> list[np.ndarray]:
    """Which rows are equal up to rounding: per group their numbers, the groups in order of their first."""
    if not len(rows):
        return []
    key = rows @ np.random.default_rng(1).standard_normal(rows.shape[1]) / np.sqrt(rows.shape[1])
    order = np.argsort(key, kind="stable")
    apart = np.flatnonzero(np.diff(key[order]) > _SAME * (1 + np.abs(rows[order[1:]]).max(1)))
    groups: list[np.ndarray] = []
    starts = np.concatenate([[0], apart + 1])
    sizes = np.diff(np.append(starts, len(rows)))
    groups += list(order[starts[sizes == 1], None])
    for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        left = np.sort(order[start : start + size])
        while len(left):
            near = np.linalg.norm(rows[left] - rows[left[0]], axis=1) <= _SAME * (1 + np.abs(rows[left[0]]).max())
            groups.append(left[near])
            left = left[~near]
    return sorted(groups, key=lambda group: int(group[0]))
