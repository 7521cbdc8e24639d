"""The plain reference: every answer of the test bed in rational arithmetic, without numpy, torch or a tolerance.

A network is a list of `{"weight": [[...]], "bias": [...]}` with an activation between them; its weights are binary
fractions, so that floats hold them exactly. Cells are convex polygons (or intervals) with rational corners: every layer
cuts every cell by every unit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

Point = tuple[Fraction, ...]
Row = tuple[Fraction, ...]  # coefficients, then the constant


@dataclass(frozen=True)
class Cell:
    """A convex cell with the affine map on it: one row per unit of the layer at hand."""

    corners: tuple[Point, ...]
    rows: tuple[Row, ...]

    @property
    def middle(self) -> Point:
        """A point within."""
        return tuple(sum(c, Fraction(0)) / len(self.corners) for c in zip(*self.corners, strict=True))

    def value(self, point: Point, unit: int = 0) -> Fraction:
        """One row of the map at a point."""
        return _value(self.rows[unit], point)


def cells_of(case: dict[str, Any]) -> list[Cell]:
    """The cells of equal activation pattern on the case's box."""
    low, high = (Fraction(case[end]) for end in ("low", "high"))
    d = len(case["layers"][0]["weight"][0])
    corners = ((low,), (high,)) if d == 1 else ((low, low), (high, low), (high, high), (low, high))
    rows = tuple(tuple(Fraction(int(i == j)) for j in range(d + 1)) for i in range(d))
    cells = [Cell(corners, rows)]
    slope = Fraction(case["slope"])  # of the activation left of zero
    for number, layer in enumerate(case["layers"]):
        weight = [[Fraction(w) for w in row] for row in layer["weight"]]
        bias = [Fraction(b) for b in layer["bias"]]
        cells = [replace(cell, rows=_affine(weight, bias, cell.rows)) for cell in cells]
        if number < len(case["layers"]) - 1:
            for unit in range(len(bias)):
                cells = [part for cell in cells for part in cut(cell, cell.rows[unit])]
            cells = [replace(cell, rows=tuple(_bent(row, cell, slope) for row in cell.rows)) for cell in cells]
    return cells


def answers(case: dict[str, Any]) -> dict[str, Any]:
    """Everything the test bed asks of a case (see README.md); rationals as strings."""
    cells = cells_of(case)
    gradients = [cell.rows[0][:-1] for cell in cells]
    above = [part for cell in cells for part in cut(cell, cell.rows[0]) if part.value(part.middle) > 0]
    found = {
        "tiles": len(cells),
        "pieces": _pieces(cells),
        "lipschitz_2_squared": str(max(sum(g * g for g in gradient) for gradient in gradients)),
        "lipschitz_inf": str(max(sum(abs(g) for g in gradient) for gradient in gradients)),
        "unsafe_volume": str(sum((size(cell) for cell in above), Fraction(0))),
    }
    if len(cells[0].corners[0]) == 2:
        found["unsafe_betti"] = _betti(above)
    return found


def cut(cell: Cell, row: Row) -> list[Cell]:
    """The parts of a cell on both sides of a row's zero; the cell itself if it has but one."""
    values = [_value(row, corner) for corner in cell.corners]
    if min(values) >= 0 or max(values) <= 0:
        return [cell]
    n = len(cell.corners)
    parts = []
    for sign in (1, -1):
        corners: list[Point] = []
        for i, (p, v) in enumerate(zip(cell.corners, values, strict=True)):
            if v * sign >= 0:
                corners.append(p)
            q, w = cell.corners[(i + 1) % n], values[(i + 1) % n]
            if v * w < 0 and not (n == 2 and i == 1):  # an interval has one edge, not two
                s = v / (v - w)
                corners.append(tuple(a + s * (b - a) for a, b in zip(p, q, strict=True)))
        parts.append(replace(cell, corners=tuple(corners)))
    return parts


def size(cell: Cell) -> Fraction:
    """Length of an interval, area of a polygon."""
    p = cell.corners
    if len(p[0]) == 1:
        return abs(p[1][0] - p[0][0])
    return sum((p[i - 1][0] * p[i][1] - p[i - 1][1] * p[i][0] for i in range(len(p))), Fraction(0)) / 2


def _value(row: Row, point: Point) -> Fraction:
    return sum((a * b for a, b in zip(row, point, strict=False)), row[-1])


def _affine(weight: list[list[Fraction]], bias: list[Fraction], rows: tuple[Row, ...]) -> tuple[Row, ...]:
    made = []
    for w, b in zip(weight, bias, strict=True):
        row = [sum((wi * r[j] for wi, r in zip(w, rows, strict=True)), Fraction(0)) for j in range(len(rows[0]))]
        made.append((*row[:-1], row[-1] + b))
    return tuple(made)


def _bent(row: Row, cell: Cell, slope: Fraction) -> Row:
    return row if _value(row, cell.middle) > 0 else tuple(slope * a for a in row)


def _walls(cells: list[Cell]) -> dict[frozenset[Point], list[int]]:
    """Walls of cells -> the cells on both sides. Folds end nowhere, so that neighbors share whole walls."""
    walls: dict[frozenset[Point], list[int]] = {}
    for i, cell in enumerate(cells):
        ring = [*cell.corners, cell.corners[0]]
        ends = [[p] for p in cell.corners] if len(ring[0]) == 1 else [[p, q] for p, q in pairwise(ring)]
        for wall in ends:
            walls.setdefault(frozenset(wall), []).append(i)
    return walls


def _pieces(cells: list[Cell]) -> int:
    """Connected sets of cells with one affine map."""
    same = [s for s in _walls(cells).values() if len(s) == 2 and cells[s[0]].rows == cells[s[1]].rows]
    return _parts(range(len(cells)), same)


def _betti(cells: list[Cell]) -> list[int]:
    """(connected parts, holes) of a union of closed polygons, by Euler's number."""
    around: dict[Point, list[int]] = {}
    for i, cell in enumerate(cells):
        for corner in cell.corners:
            around.setdefault(corner, []).append(i)
    parts = _parts(range(len(cells)), around.values())
    return [parts, parts - (len(around) - len(_walls(cells)) + len(cells))]


def _parts(members: Iterable[Hashable], together: Iterable[Iterable[Hashable]]) -> int:
    leader = {member: member for member in members}

    def find(member: Hashable) -> Hashable:
        while leader[member] != member:
            member = leader[member]
        return member

    for first, *others in together:
        for other in others:
            leader[find(other)] = find(first)
    return sum(leader[member] == member for member in leader)
