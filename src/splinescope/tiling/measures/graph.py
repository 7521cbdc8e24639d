"""Tiles joined where they share a wall: the dual graph, pieces of one affine map, counts by depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...support.checks import check_positive, require
from ..approximation import TilingResult
from ..cells.lists import connected, distinct
from ..kernels.polygon_walls import join_tiles
from . import maps

if TYPE_CHECKING:
    from ..tiling import Tiling

_SLOPES_KEPT = 1 << 24  # numbers in the slopes of all tiles, up to which they are worked out once


@dataclass(frozen=True, eq=False, repr=False)
class DualGraph(TilingResult):
    """Tiles joined where they share a wall (meeting in a corner is not enough).

    Attributes:
        edges: `[M, 2]` pairs of tiles, lower number first, sorted; each pair once.
        degrees: `[K]` number of neighbors of each tile.
    """

    edges: np.ndarray
    degrees: np.ndarray

    def summary(self) -> str:
        """The graph in words."""
        d = self.degrees
        each = f": {d.min()} to {d.max()} a tile, {d.mean():.3g} on average" if len(d) else ""
        return f"{len(d)} tiles share {len(self.edges)} borders{each}.\n{self.assurance}"

    def to_networkx(self) -> Any:
        """A `networkx.Graph` on the tile numbers (extra "graph")."""
        graph = require("networkx", "graph").empty_graph(len(self.degrees))
        graph.add_edges_from(self.edges.tolist())
        return graph


def dual_graph(tiling: Tiling) -> DualGraph:
    """Tiles joined where they share a wall."""
    sides = tiling.walls.tiles
    sides = np.sort(sides[(sides >= 0).all(1)], axis=1).astype(np.int64)
    keys = distinct(sides[:, 0] * tiling.count + sides[:, 1])
    edges = np.stack([keys // max(tiling.count, 1), keys % max(tiling.count, 1)], 1)
    return DualGraph(edges, np.bincount(edges.reshape(-1), minlength=tiling.count), certainty=tiling.certainty)


def counts_by_depth(tiling: Tiling) -> dict[int, int]:
    """Depth l -> number of tiles of the first l layers on the slice (0: one per connected part). Exact.

    Found by merging tiles across deeper folds.
    """
    depths = np.array([site.depth for site in tiling.sites] + [0])  # sites[-1], outside, is the last
    walls, parents, counts = tiling.walls, np.arange(tiling.count, dtype=np.int32), {}
    left = tiling.count
    for depth in sorted({site.depth for site in tiling.sites}, reverse=True):  # joined across all deeper walls so far
        counts[depth] = left
        left -= join_tiles(walls.tiles, walls.sites, depths, depth, parents)
    return dict(sorted({**counts, 0: left}.items()))


@dataclass(frozen=True, eq=False, repr=False)
class Pieces(TilingResult):
    """Neighboring tiles with the same affine map, merged.

    Attributes:
        count: Number of pieces.
        labels: `[K]` the piece of each tile, numbered in the order of their first tiles.
        areas: `[count]` areas (1-D: lengths).
        tolerance: Maps were equal if their slopes differed by at most this (Frobenius norm).
    """

    count: int
    labels: np.ndarray
    areas: np.ndarray
    tolerance: float


def pieces(tiling: Tiling, rtol: float = 1e-8) -> Pieces:
    """Pieces (linear regions): neighboring tiles merged where their maps are equal.

    Maps are equal if their slopes differ by at most `rtol` times the largest slope of the tiling (or the largest
    output over the slice's extent, if that is more), in the Frobenius norm; continuity makes the offsets agree.
    Whether nearly equal maps merge depends on it.
    """
    check_positive(rtol, "rtol")
    extent = float(np.ptp(tiling.view.domain, axis=0).max())
    # outputs hold slopes to about 1e-16 of the largest over the size of a tile, and no better
    few = tiling.count * maps.output_count(tiling) * tiling.dimension <= _SLOPES_KEPT
    known = maps.slopes(tiling) if few else None
    given = (a for _, a in maps.iterate_slopes(tiling)) if known is None else (known,)
    norms = (np.sqrt(np.einsum("kij,kij->k", a, a)) for a in given)
    steepest = max(float(each.max(initial=0.0)) for each in norms)
    tolerance = rtol * max(steepest, maps.largest_output(tiling) / extent)
    walls = tiling.walls
    inner = np.flatnonzero((walls.tiles >= 0).all(1))
    same = np.zeros(len(walls), bool)
    for block in maps.output_blocks(tiling, len(inner), "pieces"):
        chosen = inner[block]
        slopes, rows = known, walls.tiles[chosen]
        if slopes is None:
            tiles, rows = np.unique(rows, return_inverse=True)
            slopes, rows = maps.slopes(tiling, tiles), rows.reshape(-1, 2)
        same[chosen] = np.linalg.norm(slopes[rows[:, 0]] - slopes[rows[:, 1]], axis=(1, 2)) <= tolerance
    sides = walls.tiles[same]
    labels = connected(tiling.count, sides[:, 0], sides[:, 1])
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    count = len(first)
    rank = np.empty(count, np.int64)
    rank[np.argsort(first)] = np.arange(count)
    labels = rank[labels.reshape(-1)]
    areas = np.bincount(labels, weights=tiling.areas, minlength=count)
    return Pieces(count, labels, areas, tolerance, certainty=tiling.certainty)
