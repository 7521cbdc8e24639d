"""Networks whose maxima share their competitors, and their tiles in exact rational arithmetic.

A network is a list of steps, each on the value of an earlier one. Torch runs them on numbers; here they run on affine
maps with `Fraction` coefficients. A tile is a set where every unit keeps its side and every maximum its winner; it is
cut out of the tile before by one halfspace per loser. No tournament, no wall between losers, no tolerance.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import count, product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Row = tuple[Fraction, ...]
"""Coefficients of an affine function, the constant last."""
Cell = list[tuple[Row, frozenset[int]]]
"""Corners of a polytope, each with the facets it lies on."""


@dataclass(frozen=True)
class Step:
    """`op` on the value number `source`; `data` are its layer (linear) or the windows of its maxima."""

    op: str
    source: int
    data: Any = None


class Graph(nn.Module):
    """The steps as a module: all values that no later step takes, side by side."""

    def __init__(self, steps: list[Step], outputs: list[int]) -> None:
        super().__init__()
        self.steps, self.outputs = steps, outputs
        self.layers = nn.ModuleList([step.data for step in steps if step.op == "linear"])

    def draw(self, *seed: int) -> None:
        """Other weights for the first layer: another network of the same structure, which need not be traced again."""
        rng, first = np.random.default_rng(seed), self.layers[0]
        with torch.no_grad():
            first.weight.copy_(torch.from_numpy(rng.integers(-4, 5, tuple(first.weight.shape))))
            first.bias.copy_(torch.from_numpy(rng.integers(-5, 6, tuple(first.bias.shape))))

    def forward(self, x: Tensor) -> Tensor:
        values = [x]
        for step in self.steps:
            values.append(_run(step, values[step.source]))
        return torch.cat([values[i] for i in self.outputs], 1)


def linear(weight: list[list[int]], bias: list[int]) -> nn.Linear:
    layer = nn.Linear(len(weight[0]), len(weight), dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight)), layer.bias.copy_(torch.tensor(bias))
    return layer


def over(name: str, source: int, *windows: list[int]) -> Step:
    """Maxima or minima of some values of a step."""
    return Step(name, source, (-1 if name == "amin" else 1, list(windows)))


FOUR, SIX = [*range(4)], [*range(6)]
HALVES, TURNS = ([0, 1, 2], [3, 4, 5]), ([0, 2, 4], [1, 3, 5])
KINDS: dict[str, tuple[int, int, list[Step], list[int]]] = {
    "extremes": (2, 6, [over("amax", 1, SIX), over("amin", 1, SIX)], [2, 3]),
    "pools": (1, 6, [over("pool", 1, SIX), over("pool", 1, [0, 1], [2, 3], [4, 5]),
                     Step("linear", 3, linear([[-2, 4, -4], [-2, 3, 1]], [4, 5])), Step("relu", 4)], [2, 5]),
    "image": (2, 6, [Step("relu", 1), over("pool", 2, [0, 1, 3, 4], [1, 2, 4, 5]), over("pool", 2, SIX),
                     Step("linear", 4, linear([[-2], [4]], [0, -5])), Step("relu", 5)], [3, 6]),
    "lattice": (3, 4, [over("amin", 1, [0, 1], [2, 3]), over("amax", 1, [0, 2], [1, 3]), over("amax", 2, [0, 1]),
                       over("amin", 3, [0, 1]), over("amax", 1, FOUR)], [4, 5, 6]),
    "pairs": (4, 3, [over("amin", 1, [0, 1, 2]), Step("sort", 1, 1), Step("pairwise", 1, -1)], [2, 3, 4]),
    "maxout": (2, 6, [Step("relu", 1), over("amax", 2, *HALVES), over("amin", 2, *TURNS), over("amax", 2, SIX)],
               [3, 4, 5]),
    "hinges": (3, 4, [Step("linear", 1, linear([[-1, 1, 0, 0]], [0])), Step("abs", 2), over("amax", 1, FOUR)], [3, 4]),
}  # fmt: skip
"""Name -> dimension, width of the first layer, the steps behind it, and which of them are outputs."""


def graph_of(kind: str) -> Graph:
    """Weights are small whole numbers, so floats are exact and folds often meet in one place."""
    dimension, width, steps, outputs = KINDS[kind]
    graph = Graph([Step("linear", 0, nn.Linear(dimension, width)), *steps], outputs).double()
    graph.draw(0, 0)
    return graph


def _run(step: Step, z: Tensor) -> Tensor:
    """One step on a batch `[N, width]`."""
    if step.op == "linear":
        return step.data(z)
    if step.op in ("relu", "abs", "leaky"):
        return {"relu": torch.relu, "abs": torch.abs, "leaky": nn.functional.leaky_relu}[step.op](z, *_slope(step))
    if step.op == "sort":
        pairs = z[:, : 2 * step.data].reshape(-1, step.data, 2)
        return pairs.sort(-1).values.reshape(-1, 2 * step.data)
    if step.op == "pairwise":
        return (torch.maximum if step.data > 0 else torch.minimum)(z[:, :-1], z[:, 1:])
    sign, windows = step.data
    if step.op == "pool":
        return _pooled(z, windows)
    table = torch.tensor(windows)
    chosen = z[:, table.reshape(-1)].reshape(len(z), *table.shape)
    return chosen.amax(-1) if sign > 0 else chosen.amin(-1)


def _slope(step: Step) -> tuple[float, ...]:
    return (0.25,) if step.op == "leaky" else ()


def _pooled(z: Tensor, windows: list[list[int]]) -> Tensor:
    """By a real pooling layer: of a line, or of an image three pixels wide."""
    size, first = len(windows[0]), windows[0]
    if first == list(range(first[0], first[0] + size)) and not (size in (6, 9) and z.shape[1] == size):
        stride = windows[1][0] - first[0] if len(windows) > 1 else size
        return nn.functional.max_pool1d(z[:, None], size, stride)[:, 0, : len(windows)]
    image = z.reshape(len(z), 1, -1, 3)
    kernel = (2, 2) if size == 4 else tuple(image.shape[2:])
    return nn.functional.max_pool2d(image, kernel, 1).flatten(1)


def exact_count(graph: Graph, dimension: int, half: int) -> int:
    """How many tiles a graph has on the cube [-half, half]^d."""
    facets = count(2 * dimension)
    corners = list(product((-1, 1), repeat=dimension))
    cube: Cell = [
        (tuple(Fraction(half * s) for s in signs), frozenset(2 * i + (s > 0) for i, s in enumerate(signs)))
        for signs in corners
    ]
    identity = [tuple(Fraction(int(i == j)) for j in range(dimension + 1)) for i in range(dimension)]
    tiles: list[tuple[Cell, list[list[Row]]]] = [(cube, [identity])]
    for step in graph.steps:
        tiles = [
            (part, [*values, rows])
            for cell, values in tiles
            for part, rows in _pieces(step, cell, values[step.source], facets)
        ]
    return len(tiles)


def _pieces(step: Step, cell: Cell, rows: list[Row], facets: Any) -> list[tuple[Cell, list[Row]]]:
    """The parts of a cell on which a step is affine, with its rows there."""
    if step.op == "linear":
        made = []
        for line, b in zip(step.data.weight.tolist(), step.data.bias.tolist(), strict=True):
            row = [
                sum((int(w) * r[j] for w, r in zip(line, rows, strict=True)), Fraction(0)) for j in range(len(rows[0]))
            ]
            made.append((*row[:-1], row[-1] + int(b)))
        return [(cell, made)]
    if step.op in ("relu", "abs", "leaky"):
        below = {"relu": Fraction(0), "abs": Fraction(-1), "leaky": Fraction(1, 4)}[step.op]
        races = [([row, tuple(below * a for a in row)], row) for row in rows]
        return _split(cell, [_by_sign(choices, test) for choices, test in races], facets)
    if step.op == "sort":
        parts = []
        for i in range(step.data):
            a, b = rows[2 * i], rows[2 * i + 1]
            parts.append([(((b, a)), [_minus(a, b)]), (((a, b)), [_minus(b, a)])] if a != b else [((a, b), [])])
        return _split(cell, parts, facets)
    if step.op == "pairwise":
        sign, windows = step.data, [[i, i + 1] for i in range(len(rows) - 1)]
    else:
        sign, windows = step.data
    return _split(cell, [_winners([rows[i] for i in window], sign) for window in windows], facets)


Race = list[tuple[tuple[Row, ...], list[Row]]]
"""Per outcome its rows, and functions that are not negative where it is the outcome."""


def _minus(a: Row, b: Row) -> Row:
    return tuple(x - y for x, y in zip(a, b, strict=True))


def _by_sign(choices: list[Row], test: Row) -> Race:
    return [((choices[0],), [test]), ((choices[1],), [tuple(-a for a in test)])]


def _winners(rows: list[Row], sign: int) -> Race:
    different = list(dict.fromkeys(rows))
    return [
        ((row,), [tuple(sign * a for a in _minus(row, other)) for other in different if other != row])
        for row in different
    ]


def _split(cell: Cell, races: list[Race], facets: Any) -> list[tuple[Cell, list[Row]]]:
    parts: list[tuple[Cell, list[Row]]] = [(cell, [])]
    for race in races:
        following = []
        for part, rows in parts:
            found = []
            for outcome, conditions in race:
                left: Cell | None = part
                for condition in conditions:
                    left = left and _above(left, condition, facets)
                if left:
                    found.append((left, [*rows, *outcome]))
            if not any(any(row) for _, conditions in race for row in conditions):
                found = found[:1] or [(part, [*rows, *race[0][0]])]  # a unit that is zero everywhere
            following += found
        parts = following
    return parts


def _above(cell: Cell, row: Row, facets: Any) -> Cell | None:
    """The part of a cell on which a function is not negative; None if it has no inside."""
    values = [sum((a * x for a, x in zip(row, point, strict=False)), row[-1]) for point, _ in cell]
    if max(values) <= 0:
        return None
    if min(values) >= 0:
        return cell
    facet, dimension = next(facets), len(cell[0][0])
    made: Cell = []
    for (p, on_p), a in zip(cell, values, strict=True):
        for (q, on_q), b in zip(cell, values, strict=True):
            shared = on_p & on_q
            if a > 0 > b and len(shared) >= dimension - 1 and sum(shared <= on for _, on in cell) == 2:
                s = b / (b - a)
                made.append((tuple(s * x + (1 - s) * y for x, y in zip(p, q, strict=True)), shared | {facet}))
    kept = [(p, on | {facet} if v == 0 else on) for (p, on), v in zip(cell, values, strict=True) if v >= 0]
    return kept + made
