"""A tile as the searches see it: the halfspaces of its pattern, which of them are walls, and what lies behind each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..network.program import Program
from ..support.errors import InputError
from ._kernels import REDUNDANT, ROUNDING, SAME, inner_point, settle, typical
from .affine_rows import Coordinates, LocalRows, at_origin, behind, seen
from .nearest_rows import nearest_rows
from .polytope import Polytope, Stop, nearest_in_box, nearest_on_face

_SMALL = 1 << 11  # numbers in the halfspaces of a tile whose facets are found as it is read
_RAYS = 32  # for such a tile
_NEAR = 1e4  # inputs of this size hide no fold that is a thousandth from zero


@dataclass(frozen=True, eq=False)
class Cell:
    """One tile in the coordinates of a search."""

    space: Coordinates
    rows: LocalRows
    center: np.ndarray  # [r] a point inside
    on: tuple[tuple[int, int], ...] = ()  # folds through the origin, as (site, unit), where it was read there
    box: np.ndarray | None = None  # [2, D] low and high of a box that it is cut to; its sides are rows of site -1

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Per hyperplane, the rows whose hyperplane it is."""
        return _groups(self.rows.normals, self.rows.heights / typical(self.rows.heights))

    @cached_property
    def polytope(self) -> Polytope:
        """Its hyperplanes, each once; they are numbered as in `members`."""
        first = np.array([group[0] for group in self.members], np.int64)
        return Polytope.about(self.rows.heights[first], self.rows.normals[first], self.center)

    def units(self, wall: int) -> np.ndarray:
        """`[m, 3]` site, unit and rival whose folds lie along a hyperplane; site -1, input and side for the box."""
        return np.asarray(self.rows.owners[self.members[wall]])

    def walls(self, stop: Stop = lambda share: False) -> list[int]:
        """The hyperplanes that are facets; those found so far if stopped before."""
        self.polytope.solve(stop)
        return [int(wall) for wall in np.flatnonzero(self.polytope.state == 1)]

    def one_unit(self, wall: int) -> tuple[int, int] | None:
        """Site and unit that alone change sides behind a facet, where that is known without reading the tile there."""
        members = self.members[wall]
        if len(members) != 1 or len(self.rows.flat):
            return None
        site, unit, rival = self.rows.owners[members[0]].tolist()
        return (site, unit) if rival < 0 else None

    def across(self, wall: int) -> Cell:
        """The tile behind a facet; that it is a facet of that tile too is known to it."""
        polytope, units = self.polytope, self.units(wall)
        direction, point = -polytope.normals[wall], polytope.points[wall]
        rows = _in_box(self.space.rows(behind(self.rows, units, direction)).of(0), self.space, self.box)
        cell = Cell(self.space, rows, _inside(rows, point, direction), (), self.box)
        same = (rows.owners[:, :2] == units[0, :2]).all(1) & (units[0, 2] < 0)
        for row in np.flatnonzero(same).tolist():
            if rows.normals[row] @ direction > 1 - 1e-9:
                other = next(number for number, group in enumerate(cell.members) if row in group)
                cell.polytope.mark(other, point)
        return cell

    def decide_within(self, reach: float, stop: Callable[[float], bool]) -> bool:
        """Decide which hyperplanes are facets that begin nearer than `reach`; False if stopped before."""
        polytope = self.polytope
        normals, heights = polytope.normals, polytope.heights
        feet = heights - heights[:, None] * (normals @ normals.T)
        np.fill_diagonal(feet, np.inf)
        inner = feet.min(1, initial=np.inf) > SAME * typical(heights)
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

    def distance(self, wall: int, norm: float = 2, seconds: float | None = None) -> tuple[float, np.ndarray | None]:
        """Distance of the origin to a facet, and where it is nearest, as a change of the input `[D]`.

        What it tells about the halfspace is noted: the tile may not touch it, or touch it in the middle of a facet.
        """
        polytope = self.polytope
        kept = (polytope.state != 0) | (np.arange(len(polytope.state)) == wall)
        row = int(kept[:wall].sum())
        normals, heights = polytope.normals[kept], polytope.heights[kept]
        if norm != 2:
            found = nearest_in_box(self.space.directions(normals), heights, row, seconds=seconds)
            return (np.inf, None) if found is None else (found[1], found[0])
        point = nearest_on_face(normals, heights, row)
        if point is None:
            polytope.state[wall] = max(0, polytope.state[wall])
            return np.inf, None
        far, others = float(np.linalg.norm(point)), np.delete(heights + normals @ point, row)
        if others.min(initial=np.inf) > SAME * (far + typical(heights)):
            polytope.mark(wall, point)
        return far, self.space.directions(point[None])[0]


def nearest_cell(space: Coordinates, count: int, tell: Callable[[float], None]) -> tuple[Cell, float]:
    """The tile of the origin by its nearest hyperplanes alone, and within which distance that is all of it."""
    direction = _generic(space.dimension)
    rows, on, reach = nearest_rows(space, count, direction, tell)
    still = np.zeros(space.dimension)
    return Cell(space, rows, _inside(rows, still, direction) if on else still, on), reach


def _generic(size: int) -> np.ndarray:
    """A fixed direction in general position."""
    direction = np.random.default_rng(0).standard_normal(size)
    return np.asarray(direction / max(float(np.linalg.norm(direction)), 1e-300))


def cell_at(program: Program, x: np.ndarray, box: np.ndarray | None = None, name: str = "x") -> Cell:
    """The tile of an input, cut to a box; where folds pass through it, the one in a fixed generic direction."""
    space = Coordinates(program, x, seen(program) if box is None else None)
    _check_near(space, name)
    direction, still = _generic(space.dimension), np.zeros(space.dimension)
    on: list[tuple[int, int]] = []
    at_edge = box is not None and bool((x.reshape(-1) == box).any())
    if box is not None:  # from a side of it the way leads inwards
        direction = np.where(x.reshape(-1) == box[0], np.abs(direction), direction)
        direction = np.where(x.reshape(-1) == box[1], -np.abs(direction), direction)
    rows = _in_box(space.rows(at_origin(direction, on)).of(0), space, box)
    center = _inside(rows, still, direction) if on or at_edge else still
    return Cell(space, rows, center, tuple(on), box)


def _check_near(space: Coordinates, name: str) -> None:
    """Refuse an input so far away that its rounding hides the distances of folds from zero: they seem to meet."""
    away = float(np.abs(space.origin).max(initial=0.0))
    if away <= _NEAR:
        return
    zero = Coordinates(space.program, np.zeros_like(space.origin), space.basis)
    heights = np.abs(zero.rows(at_origin(_generic(space.dimension), [])).of(0).heights)
    scale = typical(heights) if heights.any() else np.inf  # without biases all scales are alike
    if not ROUNDING * away <= REDUNDANT * scale:
        raise InputError(
            f"{name} is too far away for float64 to tell the folds apart: it is {away:.1e} from zero, they are some "
            f"{scale:.1e}. Take an input nearer to the folds."
        )


def cells_behind(walls: list[tuple[Cell, int, tuple[int, int]]]) -> list[Cell]:
    """The tiles behind facets where one unit (site, number) changes sides, read together; small ones with facets."""
    space = walls[0][0].space
    patterns = [cell.rows.pattern_behind(*unit) for cell, _, unit in walls]
    sites = [np.stack(site) for site in zip(*patterns, strict=True)]
    block = space.rows(lambda cuts: sites[cuts.site], len(walls))
    starts = np.stack([cell.polytope.points[wall] for cell, wall, _ in walls])
    directions = np.stack([-cell.polytope.normals[wall] for cell, wall, _ in walls])
    many, size = starts.shape
    if block.normals[0].size > _SMALL:
        found = ((block.of(number), starts[number], directions[number]) for number in range(many))
        return [Cell(space, rows, _inside(rows, start, way)) for rows, start, way in found]
    random = np.random.default_rng(1)
    centers, apart = np.empty((many, size)), np.empty(many, bool)
    state, points = np.full(block.heights.shape, -1, np.int8), np.empty(block.normals.shape)
    settle(block.heights, block.normals, block.kept, starts, directions, _ways(size),
           random.standard_normal((_RAYS, size)), random.standard_normal(1 + size),
           centers, apart, state, points)  # fmt: skip
    cells = []
    for number in range(many):
        rows = block.of(number)
        cell = Cell(space, rows, centers[number])
        if apart[number]:
            kept = len(rows.heights)
            cell.__dict__["members"] = np.arange(kept)[:, None]
            cell.__dict__["polytope"] = Polytope(
                rows.heights, rows.normals, centers[number], state[number, :kept], points[number, :kept]
            )
        cells.append(cell)
    return cells


def _ways(size: int) -> np.ndarray:
    """`[16, r]` random directions, each with its opposite."""
    ways = np.random.default_rng(0).standard_normal((8, size))
    return np.concatenate([ways, -ways]) / np.linalg.norm(ways, axis=1).mean()


def _in_box(rows: LocalRows, space: Coordinates, box: np.ndarray | None) -> LocalRows:
    """Rows with those of the sides of a box; their site is -1, the unit which input it is, and the rival which end."""
    if box is None:
        return rows
    sides, origin, number = np.eye(space.dimension), space.origin.reshape(-1), np.arange(2 * space.dimension)
    owners = np.stack([np.full(len(number), -1), number % len(origin), number // len(origin)], 1)
    return replace(
        rows, heights=np.concatenate([rows.heights, origin - box[0], box[1] - origin]),
        normals=np.concatenate([rows.normals, sides, -sides]), owners=np.concatenate([rows.owners, owners]),
    )  # fmt: skip


def _inside(rows: LocalRows, point: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """An inner point of a tile, from a point of its edge and a direction that leads into it."""
    return np.asarray(inner_point(rows.heights, rows.normals, point, direction, _ways(len(point))))


def _groups(normals: np.ndarray, heights: np.ndarray) -> list[np.ndarray]:
    """Which hyperplanes are one, up to rounding: per group their numbers, the groups in order of their first."""
    slack = SAME * (1 + np.abs(heights))
    mixed = np.random.default_rng(1).standard_normal(normals.shape[1] + 1) / np.sqrt(normals.shape[1] + 1)
    key = normals @ mixed[1:] + heights * mixed[0]
    order = np.argsort(key, kind="stable")
    groups: list[np.ndarray] = []
    for left in np.split(order, np.flatnonzero(np.diff(key[order]) > 4 * slack[order[1:]]) + 1):
        while len(left) > 1:
            first = left.min()
            near = (np.abs(heights[left] - heights[first]) <= slack[first]) & (
                np.linalg.norm(normals[left] - normals[first], axis=1) <= SAME
            )
            groups.append(np.sort(left[near]))
            left = left[~near]
        if len(left):
            groups.append(left)
    return sorted(groups, key=lambda group: int(group[0]))
