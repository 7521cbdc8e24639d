"""A slow, obvious tessellation in any dimension: cells as vertices with the sets of facets they lie on.

Plain Python throughout. With `exact=True` every number is a `Fraction` and nothing is ever rounded: the oracle for
small networks. Otherwise numbers are floats, zero below a tolerance: the yardstick for speed.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from torch import nn

Facet = tuple[Any, ...]


@dataclass
class Vertex:
    point: tuple[Any, ...]
    values: list[Any]  # of the current layer


Cell = list[tuple[Vertex, frozenset[Facet]]]


def reference_cells(net: nn.Sequential, half: float, *, exact: bool, tolerance: float = 1e-12) -> list[Cell]:
    """The cells of a Linear/ReLU network on the cube [-half, half]^d of all its inputs."""
    number = Fraction if exact else float
    zero = 0 if exact else tolerance
    d = net[0].in_features
    corners = [tuple(number(half) * s for s in signs) for signs in product((-1, 1), repeat=d)]
    cells: list[Cell] = [[(Vertex(p, list(p)), frozenset(("domain", i, p[i] > 0) for i in range(d))) for p in corners]]
    for depth, layer in enumerate(net):
        vertices = {id(v): v for cell in cells for v, _ in cell}
        if isinstance(layer, nn.Linear):
            weight = [[number(w) for w in row] for row in layer.weight.tolist()]
            bias = [number(b) for b in layer.bias.tolist()]
            for v in vertices.values():
                v.values = [
                    sum((w * x for w, x in zip(row, v.values, strict=True)), b)
                    for row, b in zip(weight, bias, strict=True)
                ]
        else:
            made: dict[tuple[int, int, int], Vertex] = {}
            for unit in range(net[depth - 1].out_features):
                cells = [part for cell in cells for part in _cut(cell, (depth, unit), d, zero, made)]
            for cell in cells:
                for v, _ in cell:
                    vertices[id(v)] = v
            for v in vertices.values():
                v.values = [max(x, number(0)) for x in v.values]
    return cells


def _sign(x: Any, zero: Any) -> int:
    return (x > zero) - (x < -zero)


def _cut(cell: Cell, facet: Facet, d: int, zero: Any, made: dict[tuple[int, int, int], Vertex]) -> list[Cell]:
    unit = facet[1]
    signs = [_sign(v.values[unit], zero) for v, _ in cell]
    if 1 not in signs or -1 not in signs:
        return [cell]
    new: Cell = []
    for (u, on_u), su in zip(cell, signs, strict=True):
        for (v, on_v), sv in zip(cell, signs, strict=True):
            if su == 1 and sv == -1 and _joined(cell, u, on_u, v, on_v, d):
                key = (min(id(u), id(v)), max(id(u), id(v)), unit)
                if key not in made:
                    made[key] = _crossing(u, v, unit)
                new.append((made[key], (on_u & on_v) | {facet}))
    new += [(v, on | {facet}) for (v, on), s in zip(cell, signs, strict=True) if s == 0]
    return [[item for item, s in zip(cell, signs, strict=True) if s == side] + new for side in (-1, 1)]


def _joined(cell: Cell, u: Vertex, on_u: frozenset, v: Vertex, on_v: frozenset, d: int) -> bool:
    shared = on_u & on_v
    if len(shared) < d - 1:
        return False
    return not any(shared <= on for w, on in cell if w is not u and w is not v)


def _crossing(u: Vertex, v: Vertex, unit: int) -> Vertex:
    a, b = u.values[unit], v.values[unit]
    s = b / (b - a)
    t = 1 - s
    point = tuple(s * x + t * y for x, y in zip(u.point, v.point, strict=True))
    values = [s * x + t * y for x, y in zip(u.values, v.values, strict=True)]
    values[unit] = a * 0
    return Vertex(point, values)
