"""Volumes, means and class probabilities of small ReLU networks in rational arithmetic: the oracle of rounding bounds.

The box is cut into simplices, and these by the zeros of every unit, output difference and constraint: one edge that
crosses at a time, so that no polytope is ever needed.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from math import factorial

from torch import Tensor, nn

Point = tuple[Fraction, ...]
Simplex = tuple[tuple[Point, Point], ...]
"""Corners, each with the values that the layers so far give it: affine on the simplex."""


def simplices_of_box(low: list[float], high: list[float]) -> list[Simplex]:
    """One for each order of the axes."""
    ends = [(Fraction(a), Fraction(b)) for a, b in zip(low, high, strict=True)]
    found = []
    for order in permutations(range(len(ends))):
        corner = [a for a, _ in ends]
        corners = [tuple(corner)]
        for axis in order:
            corner[axis] = ends[axis][1]
            corners.append(tuple(corner))
        found.append(tuple((point, point) for point in corners))
    return found


def cut(simplex: Simplex, form: Callable[[Point, Point], Fraction]) -> list[Simplex]:
    """Parts on each of which a form, affine in point and values, has one sign."""
    signs = [form(*corner) for corner in simplex]
    above = next((i for i, s in enumerate(signs) if s > 0), None)
    below = next((i for i, s in enumerate(signs) if s < 0), None)
    if above is None or below is None:
        return [simplex]
    t = signs[above] / (signs[above] - signs[below])
    (p, f), (q, g) = simplex[above], simplex[below]
    new = tuple(tuple(a + t * (b - a) for a, b in zip(x, y, strict=True)) for x, y in ((p, q), (f, g)))
    parts = [(*simplex[:i], new, *simplex[i + 1 :]) for i in (above, below)]
    return [one for part in parts for one in cut(part, form)]  # type: ignore[arg-type]


def all_cut(simplices: list[Simplex], form: Callable[[Point, Point], Fraction]) -> list[Simplex]:
    return [part for simplex in simplices for part in cut(simplex, form)]


def volume(simplex: Simplex) -> Fraction:
    """By elimination, exactly."""
    origin = simplex[0][0]
    rows = [[a - b for a, b in zip(point, origin, strict=True)] for point, _ in simplex[1:]]
    size = Fraction(1)
    for k in range(len(rows)):
        pivot = next((r for r in range(k, len(rows)) if rows[r][k]), None)
        if pivot is None:
            return Fraction(0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        size *= rows[k][k]
        for r in range(k + 1, len(rows)):
            share = rows[r][k] / rows[k][k]
            rows[r] = [a - share * b for a, b in zip(rows[r], rows[k], strict=True)]
    return abs(size) / factorial(len(rows))


def slope(simplex: Simplex) -> list[list[Fraction]]:
    """`[C][d]` of the affine map that has its values at its corners, by elimination; it must have a volume."""
    (origin, first), *others = simplex
    d = len(origin)
    rows = [[a - b for a, b in zip((*p, *v), (*origin, *first), strict=True)] for p, v in others]
    for k in range(d):
        pivot = next(r for r in range(k, d) if rows[r][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [a / rows[k][k] for a in rows[k]]
        for r in range(d):
            if r != k:
                rows[r] = [a - rows[r][k] * b for a, b in zip(rows[r], rows[k], strict=True)]
    return [[row[d + c] for row in rows] for c in range(len(first))]


def _exact(tensor: Tensor) -> list:
    return [[Fraction(v) for v in row] for row in tensor.tolist()] if tensor.dim() == 2 else list(
        map(Fraction, tensor.tolist())
    )  # fmt: skip


def tiles_of(model: nn.Sequential, low: list[float], high: list[float]) -> list[Simplex]:
    """Simplices on each of which a network of linear layers and ReLUs is affine, with its outputs at the corners."""
    simplices = simplices_of_box(low, high)
    for layer in model:
        if isinstance(layer, nn.Linear):
            weight, bias = _exact(layer.weight), _exact(layer.bias)

            def affine(v: Point, weight: list = weight, bias: list = bias) -> Point:
                return tuple(
                    sum((w * x for w, x in zip(r, v, strict=True)), b) for r, b in zip(weight, bias, strict=True)
                )

            simplices = [tuple((p, affine(v)) for p, v in simplex) for simplex in simplices]
        else:
            for unit in range(len(simplices[0][0][1])):
                simplices = all_cut(simplices, lambda p, v, unit=unit: v[unit])  # type: ignore[misc]
            bent = []
            for simplex in simplices:
                on = [any(v[j] > 0 for _, v in simplex) for j in range(len(simplex[0][1]))]
                bent.append(tuple((p, tuple(x * keep for x, keep in zip(v, on, strict=True))) for p, v in simplex))
            simplices = bent
    return simplices


def moments(simplices: list[Simplex]) -> tuple[list[Fraction], list[list[Fraction]]]:
    """Mean and covariance of the outputs: of a simplex with the values v, `(sum v v' + s s') / ((d + 1) (d + 2))` is
    the second moment, s the sum of the v."""
    sizes = [volume(simplex) for simplex in simplices]
    outputs = range(len(simplices[0][0][1]))
    first, second = [Fraction(0)] * len(outputs), [[Fraction(0)] * len(outputs) for _ in outputs]
    for size, simplex in zip(sizes, simplices, strict=True):
        n, share = len(simplex), size / sum(sizes)
        total = [sum(v[c] for _, v in simplex) for c in outputs]
        for a in outputs:
            first[a] += share * total[a] / n
            for b in outputs:
                square = sum(v[a] * v[b] for _, v in simplex) + total[a] * total[b]
                second[a][b] += share * square / (n * (n + 1))
    return first, [[second[a][b] - first[a] * first[b] for b in outputs] for a in outputs]


def volume_where(simplices: list[Simplex], forms: list[Callable[[Point, Point], Fraction]]) -> Fraction:
    """Of the places where all forms are at most zero."""
    for form in forms:
        simplices = all_cut(simplices, form)
    return sum((volume(s) for s in simplices if all(form(p, v) <= 0 for form in forms for p, v in s)), Fraction(0))
