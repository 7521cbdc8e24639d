"""A slow, obvious tessellation in exact rational arithmetic: the oracle for small networks.

Tiles are polygons (or intervals) with `Fraction` corners, each with its own affine map; every layer cuts every
tile by every unit. Nothing is shared with the engine: no bits, no tolerance, no shared vertices.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from torch import nn

Point = tuple[Fraction, ...]
Rows = list[list[Fraction]]


@dataclass
class ExactTile:
    corners: list[Point]
    rows: Rows  # rows of the affine map from slice coordinates: [coefficients..., constant]


def exact_tiles(net: nn.Sequential, domain: np.ndarray) -> list[ExactTile]:
    """The tiles of a Linear/ReLU/LeakyReLU/Hardtanh `net` on its own 1-D or 2-D input domain (corners `[n, d]`)."""
    d = domain.shape[1]
    identity = [[Fraction(int(i == j)) for j in range(d)] + [Fraction(0)] for i in range(d)]
    tiles = [ExactTile([tuple(map(Fraction, map(float, p))) for p in domain], identity)]
    for layer in net:
        if isinstance(layer, nn.Linear):
            weight, bias = _fractions(layer.weight), _fractions(layer.bias)
            for tile in tiles:
                tile.rows = _affine(weight, bias, tile.rows)
        else:
            for threshold, _ in _hinges(layer):
                for unit in range(len(tiles[0].rows)):
                    tiles = [child for tile in tiles for child in _cut(tile, unit, threshold)]
            for tile in tiles:
                tile.rows = [_bend(layer, row, tile.corners) for row in tile.rows]
    return tiles


def area(tile: ExactTile) -> Fraction:
    """Area of a polygon, length of an interval."""
    p = tile.corners
    if len(p[0]) == 1:
        return p[1][0] - p[0][0]
    return sum((p[i - 1][0] * p[i][1] - p[i - 1][1] * p[i][0] for i in range(len(p))), Fraction(0)) / 2


def _hinges(layer: nn.Module) -> list[tuple[Fraction, float]]:
    """(threshold, slope to its left) of an activation; the slope right of the last threshold is 1 or 0."""
    if isinstance(layer, nn.ReLU):
        return [(Fraction(0), 0.0)]
    if isinstance(layer, nn.LeakyReLU):
        return [(Fraction(0), layer.negative_slope)]
    if isinstance(layer, nn.Hardtanh):
        return [(Fraction(layer.min_val), 0.0), (Fraction(layer.max_val), 1.0)]
    raise TypeError(f"the oracle does not know {type(layer).__name__}")


def _value(row: list[Fraction], point: Point) -> Fraction:
    return sum((a * b for a, b in zip(row, point, strict=False)), row[-1])


def _cut(tile: ExactTile, unit: int, threshold: Fraction) -> list[ExactTile]:
    values = [_value(tile.rows[unit], p) - threshold for p in tile.corners]
    if min(values) >= 0 or max(values) <= 0:
        return [tile]
    sides = []
    n = len(tile.corners)
    for sign in (1, -1):
        corners: list[Point] = []
        for i, (p, v) in enumerate(zip(tile.corners, values, strict=True)):
            if v * sign >= 0:
                corners.append(p)
            if n == 2 and i == 1:
                continue  # an interval has one edge, not two
            q, w = tile.corners[(i + 1) % n], values[(i + 1) % n]
            if v * w < 0:
                s = v / (v - w)
                corners.append(tuple(a + s * (b - a) for a, b in zip(p, q, strict=True)))
        sides.append(ExactTile(corners, [list(row) for row in tile.rows]))
    return sides


def _bend(layer: nn.Module, row: list[Fraction], corners: list[Point]) -> list[Fraction]:
    """The activation on a tile that no threshold crosses: an affine function of the row."""
    center = tuple(sum(c, Fraction(0)) / len(corners) for c in zip(*corners, strict=True))
    value = _value(row, center)
    zero = [Fraction(0)] * (len(row) - 1)
    if isinstance(layer, nn.ReLU):
        return row if value > 0 else [*zero, Fraction(0)]
    if isinstance(layer, nn.LeakyReLU):
        return row if value > 0 else [Fraction(layer.negative_slope) * a for a in row]
    assert isinstance(layer, nn.Hardtanh)
    if value <= Fraction(layer.min_val):
        return [*zero, Fraction(layer.min_val)]
    return [*zero, Fraction(layer.max_val)] if value >= Fraction(layer.max_val) else row


def _affine(weight: Rows, bias: list[Fraction], rows: Rows) -> Rows:
    out = []
    for w, b in zip(weight, bias, strict=True):
        row = [sum((wi * r[j] for wi, r in zip(w, rows, strict=True)), Fraction(0)) for j in range(len(rows[0]))]
        row[-1] += b
        out.append(row)
    return out


def _fractions(tensor):  # type: ignore[no-untyped-def]
    values = tensor.detach().double().tolist()
    return [[Fraction(v) for v in row] for row in values] if tensor.ndim == 2 else [Fraction(v) for v in values]
