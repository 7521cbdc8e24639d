"""How folds divide tiles: whether a network's own do it otherwise than unrelated ones, and what a distance tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import nn

from splinescope.tiling import Slice, tessellate
from splinescope_research.folds.subdivision import Level, cuts_within

ALIKE = 0.02
"""Of distances beyond chance: about half of what one cut more adds, 0.033 to 0.066 in a trial on 13 other networks."""

SIDES = {2: (4, 8, 16, 32), 3: (3, 6, 10)}
"""By dimension: into how many squares (cubes) along each side the domain is divided, coarsely to finely."""

LONG = 8
"""How many times as long as wide rectangles are, where so many fit."""

Shape = Literal["squares", "triangles", "rectangles"]


class SideBySide(nn.Module):
    """Two networks on one input: the tiling of both, none of which knows of the other."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.first(x), self.second(x)], 1)


def matched(
    parts: Sequence[Level], others: Sequence[Level], more: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares of the parts of tiles, and shares of the parts of others with weights.

    The weights give as many parts to each number of cuts as the first have there (with so many cuts `more`). Parts of
    tiles that are cut as often as none of the others are left out.
    """
    shares, cuts = (
        np.concatenate(values) for values in zip(*((p.shares, p.cuts[p.parents] + more) for p in parts), strict=True)
    )
    known, times = (
        np.concatenate(values) for values in zip(*((o.shares, o.cuts[o.parents]) for o in others), strict=True)
    )
    inside = np.isin(cuts, times)
    most = int(max(cuts.max(initial=0), times.max(initial=0))) + 1
    wanted, there = (np.bincount(c, minlength=most) for c in (cuts[inside], times))
    weights = (wanted / np.maximum(there, 1))[times] / max(int(inside.sum()), 1)
    return shares[inside], weights, known


def distance(shares: np.ndarray, weights: np.ndarray, others: np.ndarray) -> float:
    """Kolmogorov-Smirnov: the largest difference of two distributions, the second with weights; 1 if one is empty."""
    if not len(shares) or not weights.any():
        return 1.0
    order = np.argsort(others)
    points = np.concatenate([shares, others])
    below = np.searchsorted(np.sort(shares), points, side="right") / len(shares)
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    return float(np.abs(below - sums[np.searchsorted(others[order], points, side="right")]).max())


def divided(own: Sequence[Level], first: Sequence[Level], second: Sequence[Level]) -> dict[str, list[float]]:
    """By depth, how far the parts of the same tiles differ where as many folds cut them.

    Args:
        own: Tiles as the network's own next layer cuts them.
        first, second: The same tiles as the folds of two unrelated networks cut them.
    """
    levels = list(zip(own, first, second, strict=True))
    return {
        "own to unrelated": [distance(*matched([a], [b])) for a, b, _ in levels],
        "two unrelated": [distance(*matched([c], [b])) for _, b, c in levels],
        "one cut more": [distance(*matched([a], [b], more=1)) for a, b, _ in levels],
        "compared": [len(matched([a], [b])[0]) / max(len(a.shares), 1) for a, b, _ in levels],
    }


def grid(net: nn.Module, view: Slice, sides: int, shape: Shape) -> Level:
    """The domain divided into equal shapes (in space cubes, prisms, boxes), cut by the folds of a first layer.

    Squares, `sides` along each direction; triangles are their halves, rectangles `LONG` of them in a row.
    """
    assert isinstance(net, nn.Sequential)
    flat = view.basis.reshape(view.dimension, -1)
    low, high = view.domain.min(0), view.domain.max(0)
    counts = [max(1, round(sides / LONG)) if shape == "rectangles" and i == 0 else sides for i in range(view.dimension)]
    normals = [np.eye(view.dimension)[i] / (high[i] - low[i]) for i in range(view.dimension)]
    lines = [(normals[i], k / count) for i, count in enumerate(counts) for k in range(1, count)]
    if shape == "triangles":
        lines += [(normals[0] + normals[1], k / sides) for k in range(1, 2 * sides)]
    slopes = np.array([normal for normal, _ in lines])
    weight = slopes @ np.linalg.pinv(flat).T  # from the slice's coordinates to the network's inputs
    bias = -(np.array([place for _, place in lines]) + slopes @ low + weight @ view.origin.reshape(-1))
    layer = nn.Linear(flat.shape[1], len(lines)).double()
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.copy_(torch.from_numpy(bias))
    both = tessellate(SideBySide(nn.Sequential(layer, nn.ReLU()), net[:2]), view, progress=False)
    return cuts_within(both, ["first.1"], ["second.1"])


def shapes(net: nn.Module, other: nn.Module, view: Slice) -> tuple[list[Level], dict[str, float]]:
    """Squares cut by a network's first layer; how far other shapes are from them, and squares that another network's
    first layer cuts, which differ by chance alone.
    """

    def cut(by: nn.Module, shape: Shape) -> list[Level]:
        return [grid(by, view, sides, shape) for sides in SIDES[view.dimension]]

    squares = cut(net, "squares")
    others = {
        "squares": cut(other, "squares"),
        "triangles": cut(net, "triangles"),
        "rectangles": cut(net, "rectangles"),
    }
    return squares, {name: distance(*matched(levels, squares)) for name, levels in others.items()}
