"""Folds: which unit made each wall, where they bend, how long they are and how densely they lie."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...network.program import units_of_cuts
from ...support.checks import check_index, check_whole
from ...support.display import counted, table
from ...support.errors import InputError
from ..approximation import OfTiling
from ..kernels.grid_lookup import draw_lengths
from . import maps
from .differentiate import block_rows, blocks, unit_gradients

if TYPE_CHECKING:
    from ..tiling import Tiling

_WALLS_TOGETHER = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Folds(OfTiling):
    """The walls inside the domain, each with what made it. Where folds coincide, the first in execution order.

    Attributes:
        tiling: The tiling they come from.
        walls: `[F]` numbers of the walls in `Tiling.walls`.
        sites: `[F]` index into `Tiling.sites`, which holds the module path.
        units: `[F]` unit within the site.
        depths: `[F]` layer: 1 + number of folds on the longest way from the input.
        lengths: `[F]` in slice coordinates (1-D: zero; 3-D: areas; beyond: (d-1)-volumes).
    """

    tiling: Tiling
    walls: np.ndarray
    sites: np.ndarray
    units: np.ndarray
    depths: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.walls)

    def __repr__(self) -> str:
        layers = counted(len(self.by_layer()), "layer")
        return f"Folds({len(self)} walls of {layers}, {self.measure} {self.lengths.sum():.6g})"

    @property
    def measure(self) -> str:
        """What `lengths` are in this dimension, in a word."""
        return {1: "length", 2: "length", 3: "area"}.get(self.tiling.dimension, "volume")

    def summary(self) -> str:
        """Walls, folding units and length, per layer."""
        rows, lengths = [("layer", "walls", "units", self.measure)], self.lengths_by_layer()
        for depth, length in list(lengths.items())[:30]:
            own = self.depths == depth
            units = len(np.unique(np.stack([self.sites[own], self.units[own]], 1), axis=0))
            rows.append((str(depth), str(int(own.sum())), str(units), f"{length:.6g}"))
        more = f"\nand {len(lengths) - 30} more layers" if len(lengths) > 30 else ""
        return f"{table([*rows, ('all', str(len(self)), '', f'{self.lengths.sum():.6g}')])}{more}\n{self.assurance}"

    @cached_property
    def segments(self) -> np.ndarray:
        """`[F, 2, d]` ends in slice coordinates."""
        return self.tiling.vertices[self.tiling.walls.ends[self.walls]]

    def paths(self) -> list[str]:
        """Module path of each fold's site."""
        names = np.array([site.path for site in self.tiling.sites], dtype=object)
        return names[self.sites].tolist() if len(self) else []

    def by_layer(self) -> dict[int, np.ndarray]:
        """Layer depth -> rows of this table, for the layers that reach the slice."""
        return {int(d): np.flatnonzero(self.depths == d) for d in np.unique(self.depths)}

    def lengths_by_layer(self) -> dict[int, float]:
        """Layer depth -> total length of its folds in slice coordinates, for every layer of the network."""
        every = sorted({site.depth for site in self.tiling.sites})
        return {depth: float(self.lengths[self.depths == depth].sum()) for depth in every}


@dataclass(frozen=True, eq=False, repr=False)
class Bends(OfTiling):
    """Places where a fold crosses one of an earlier layer.

    Attributes:
        vertices: `[B]` vertex of the tiling.
        cuts: `[B]` the cut whose fold bends, numbered over all sites as in `Walls.cuts`.
        crossed: `[B]` the cut of an earlier layer that it crosses there (the first, if several).
        angles: `[B]` angle between the two sides of the fold in the slice, in radians: pi is unbent. In a plane with
            the pre-activation's gradients n- and n+ on both sides, it is pi - angle(n-, n+).
        walls: `[B, 2]` the two walls of the fold that meet there.
    """

    vertices: np.ndarray
    cuts: np.ndarray
    crossed: np.ndarray
    angles: np.ndarray
    walls: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Raster(OfTiling):
    """A quantity on a grid of cells.

    Attributes:
        values: `[ny, nx]` (1-D: `[nx]`) fold length (1-D: number of folds) in each cell.
        x_edges: `[nx + 1]` cell edges.
        y_edges: `[ny + 1]` cell edges; None in 1-D.
    """

    values: np.ndarray
    x_edges: np.ndarray
    y_edges: np.ndarray | None

    @property
    def density(self) -> np.ndarray:
        """`values` per unit of area (1-D: length)."""
        width = np.diff(self.x_edges)
        return self.values / (width if self.y_edges is None else np.diff(self.y_edges)[:, None] * width)


def folds(tiling: Tiling) -> Folds:
    """The walls inside the domain with site, unit, layer and length; `by_layer()`, `lengths_by_layer()`."""
    walls = np.flatnonzero(tiling.walls.cuts >= 0)
    sites, units = units_of_cuts(tiling.sites, tiling.walls.cuts[walls])
    depths = np.array([site.depth for site in tiling.sites], np.int64)
    lengths = tiling.walls.sizes(tiling.vertices)[walls]
    return Folds(tiling, walls, sites, units, depths[sites], lengths, certainty=tiling.certainty)


def sizes_by_layer(tiling: Tiling) -> dict[int, float]:
    """Layer depth -> `Folds.lengths_by_layer` by blocks of walls: a plane has three walls for each tile."""
    if tiling.dimension != 2:
        return folds(tiling).lengths_by_layer()
    depths = np.array([site.depth for site in tiling.sites] + [0])  # sites[-1], outside, is the last
    totals = np.zeros(depths.max() + 1)
    walls = tiling.walls
    for start in range(0, len(walls), _WALLS_TOGETHER):
        part = slice(start, start + _WALLS_TOGETHER)
        ends = tiling.vertices[walls.ends[part]]
        lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
        totals += np.bincount(depths[walls.sites[part]], lengths, len(totals))
    return {depth: float(totals[depth]) for depth in sorted({site.depth for site in tiling.sites})}


def bends(tiling: Tiling) -> Bends:
    """Where folds cross folds of earlier layers, and the angles in the slice at which they bend there.

    Angles are measured from the two walls that meet, so their error is about 1e-16 of the slice's extent over
    the length of the shorter wall. Vertices at which more than two walls of one unit meet are left out.
    """
    need_plane(tiling, "bends of folds")
    table = folds(tiling)
    cuts = tiling.walls.cuts[table.walls].astype(np.int64)
    # every fold at every vertex: (vertex, cut, depth, row of the table)
    vertex = tiling.walls.ends[table.walls].reshape(-1).astype(np.int64)
    cut, depth, row = np.repeat(cuts, 2), np.repeat(table.depths, 2), np.repeat(np.arange(len(table)), 2)
    order = np.lexsort((cut, vertex))
    vertex, cut, depth, row = vertex[order], cut[order], depth[order], row[order]
    new = np.flatnonzero(np.diff(vertex, prepend=-1) | np.diff(cut, prepend=-1))
    size = np.diff(np.append(new, len(vertex)))
    # a cut's number grows with its site, not always with its depth: the least depth at each vertex decides
    at_vertex = np.flatnonzero(np.diff(vertex, prepend=-1))
    least = np.minimum.reduceat(depth, at_vertex) if len(vertex) else depth
    lowest = np.repeat(least, np.diff(np.append(at_vertex, len(vertex))))
    by_depth = np.lexsort((cut, depth, vertex))
    crossed = np.repeat(cut[by_depth][at_vertex], np.diff(np.append(at_vertex, len(vertex))))
    chosen = new[(size == 2) & (depth[new] > lowest[new])]
    pair = np.stack([row[chosen], row[chosen + 1]], 1)
    center = tiling.vertices[vertex[chosen]]
    rays = [_other_end(tiling, table, pair[:, side], vertex[chosen]) - center for side in (0, 1)]
    cross = rays[0][:, 0] * rays[1][:, 1] - rays[0][:, 1] * rays[1][:, 0]
    angles = np.abs(np.arctan2(cross, (rays[0] * rays[1]).sum(1)))
    met = table.walls[pair]
    return Bends(vertex[chosen], cut[chosen], crossed[chosen], angles, met, certainty=tiling.certainty)


def _other_end(tiling: Tiling, table: Folds, rows: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    ends = tiling.walls.ends[table.walls[rows]]
    return tiling.vertices[np.where(ends[:, 0] == vertices, ends[:, 1], ends[:, 0])]


def input_dihedrals(tiling: Tiling, bends: Bends) -> np.ndarray:
    """`[B]` dihedral angles in the full input space of the folds of `bends()`: `pi - angle(n-, n+)`.

    n- and n+ are the gradients of the pre-activation on both sides of the crossed fold; for two layers
    `n+ = n- + v_k w_k` (v_k the weight from unit k, w_k its own weights). Exact; two backward passes per bend.
    """
    program = tiling.program("dihedral angles in the input space")
    angles = np.empty(len(bends.cuts))
    for block in blocks(len(angles), block_rows(program)):
        normals = []
        for side in (0, 1):  # both tiles of a fold's wall have the same gradient of its pre-activation
            tile = tiling.walls.tiles[bends.walls[block, side], 0].astype(np.int64)
            points = tiling.view.inputs(maps.inner_points(tiling, tile))
            normals.append(unit_gradients(program, points, bends.cuts[block]))
        angles[block] = np.pi - _angles(normals[0], normals[1])
    return angles


def graph_angles(tiling: Tiling, output: int = 0) -> np.ndarray:
    """`[E]` dihedral angles, across each wall, of the graph of one output over the slice; pi is flat.

    NaN for walls with a tile on one side only.
    """
    check_index(output, "output", maps.output_count(tiling))
    angles = np.full(len(tiling.walls), np.nan)
    inner = np.flatnonzero((tiling.walls.tiles >= 0).all(1))
    gradients = np.empty((tiling.count, tiling.dimension))
    for tiles, slopes in maps.iterate_slopes(tiling):
        gradients[tiles] = slopes[:, output]
    normals = np.concatenate([-gradients, np.ones((tiling.count, 1))], 1)
    sides = tiling.walls.tiles[inner]
    angles[inner] = np.pi - _angles(normals[sides[:, 0]], normals[sides[:, 1]])
    return angles


def _angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`[N]` angles between rows, by a formula that is accurate for small and large ones (Kahan)."""
    a = a / np.linalg.norm(a, axis=1, keepdims=True)
    b = b / np.linalg.norm(b, axis=1, keepdims=True)
    return 2 * np.arctan2(np.linalg.norm(a - b, axis=1), np.linalg.norm(a + b, axis=1))


def fold_raster(tiling: Tiling, cells: int = 256, depth: int | None = None) -> Raster:
    """Fold length in every cell of a grid over the slice's bounding box (`.density`: per unit area). Exact.

    Args:
        cells: Cells along the longer side; cells are (nearly) square.
        depth: Only folds of this layer.
    """
    need_flat(tiling, "rasters of folds")
    check_whole(cells, "cells", most=1 << 14)
    layers = sorted({site.depth for site in tiling.sites})
    if depth is not None and depth not in layers:
        possible = f"one of the layers {', '.join(map(str, layers))}" if layers else "None: the network has no folds"
        raise InputError(f"depth must be {possible}, got {depth!r}.")
    table = folds(tiling)
    segments = table.segments if depth is None else table.segments[table.depths == depth]
    low, high = tiling.view.domain.min(0), tiling.view.domain.max(0)
    shape = np.maximum(np.ceil(cells * (high - low) / (high - low).max()), 1).astype(int)
    edges = [np.linspace(low[i], high[i], shape[i] + 1) for i in range(tiling.dimension)]
    if tiling.dimension == 1:
        counts = np.histogram(segments[:, 0, 0], edges[0])[0].astype(float)
        return Raster(counts, edges[0], None, certainty=tiling.certainty)
    values = np.zeros((shape[1], shape[0]))
    draw_lengths(segments, low, (high - low) / shape, values)
    return Raster(values, edges[0], edges[1], certainty=tiling.certainty)


def need_tiling(given: object, name: str = "tiling") -> None:
    if not hasattr(given, "corner_labels"):  # which only tilings have, whose class builds on this module
        raise InputError(f"{name} must be a Tiling (see tessellate), got {type(given).__name__}.")


def need_plane(tiling: Tiling, what: str) -> None:
    need_tiling(tiling)
    if tiling.dimension != 2:
        raise InputError(f"{what} need a 2-D tiling, got a {tiling.dimension}-D one.")


def need_flat(tiling: Tiling, what: str) -> None:
    need_tiling(tiling)
    if tiling.dimension > 2:
        raise InputError(f"{what} need a 1-D or 2-D tiling, got a {tiling.dimension}-D one.")
