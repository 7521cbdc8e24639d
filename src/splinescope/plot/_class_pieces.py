"""Tiles cut where the class changes: what a picture of classes fills, exact to the line."""

from dataclasses import dataclass

import numpy as np

from ..tiling import Tiling


@dataclass(frozen=True)
class ClassPieces:
    """The parts of all tiles on which several classes win.

    Attributes:
        tiles: `[n]` those tiles.
        rings: Corners `[m, 2]` of each part.
        classes: `[len(rings)]` who wins there.
    """

    tiles: np.ndarray
    rings: list[np.ndarray]
    classes: np.ndarray


def class_pieces(tiling: Tiling) -> ClassPieces | None:
    """The parts of tiles that the decision boundary crosses; None for a tiling that stores no outputs.

    Outputs are affine on a tile, so the part where class k wins is convex: the tile, cut by one line per other class.
    Exact to rounding; the cost is that of the tiles that are cut.
    """
    if tiling.values is None or not tiling.count:
        return None
    values = tiling.values
    if values.shape[1] == 1:  # its sign
        values = np.concatenate([np.zeros_like(values), values], 1)
    offsets, corners = tiling.tiles.offsets, tiling.tiles.corners
    winners = values.argmax(1)[corners]  # who wins at all corners wins inside
    several = np.minimum.reduceat(winners, offsets[:-1]) != np.maximum.reduceat(winners, offsets[:-1])
    tiles = np.flatnonzero(several)
    rings, classes = [], []
    for tile in tiles:
        own = corners[offsets[tile] : offsets[tile + 1]]
        whole = np.concatenate([tiling.vertices[own], values[own]], 1)
        for k in range(values.shape[1]):
            part = whole
            for other in range(values.shape[1]):
                if other != k and len(part):
                    part = _cut(part, part[:, 2 + k] - part[:, 2 + other])
            if len(part) > 2:
                rings.append(part[:, :2])
                classes.append(k)
    return ClassPieces(tiles, rings, np.array(classes, int))


def _cut(ring: np.ndarray, room: np.ndarray) -> np.ndarray:
    """The part of a convex ring `[m, 2 + C]` where `room` `[m]`, affine on it, is not negative."""
    kept = []
    for i, (here, level) in enumerate(zip(ring, room, strict=True)):
        following, below = ring[(i + 1) % len(ring)], room[(i + 1) % len(ring)]
        if level >= 0:
            kept.append(here)
        if level * below < 0:
            kept.append(here + level / (level - below) * (following - here))
    return np.array(kept).reshape(-1, ring.shape[1])
