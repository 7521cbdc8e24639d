"""Folds: which unit made each wall, where they bend, how long they are and how densely they lie."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...network.program import units_of_cuts
from ...support.checks import check_whole
from ...support.display import counted, table
from ...support.errors import InputError
from ..approximation import TilingResult
from ..kernels.grid_lookup import draw_lengths
from .region_counts import crofton_constant

if TYPE_CHECKING:
    from ..tiling import Tiling

_WALLS_TOGETHER = 1 << 20  # a plane has three walls for each tile: their ends at once would be its largest arrays


@dataclass(frozen=True, eq=False, repr=False)
class Folds(TilingResult):
    """The walls inside the domain, each with what made it. Where folds coincide, the first in execution order.

    Attributes:
        tiling: Theirs.
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
        layers = counted(len(np.unique(self.depths)), "layer")
        return f"Folds({len(self)} walls of {layers}, {self.measure} {self.lengths.sum():.6g})"

    @property
    def measure(self) -> str:
        """What `lengths` are in this dimension, in a word."""
        return {1: "length", 2: "length", 3: "area"}.get(self.tiling.dimension, "volume")

    def summary(self) -> str:
        """Walls, folding units and length, per layer."""
        rows = [("layer", "walls", "units", self.measure)]
        for depth, length in self.lengths_by_layer().items():
            own = self.depths == depth
            units = len(np.unique(np.stack([self.sites[own], self.units[own]], 1), axis=0))
            rows.append((str(depth), str(int(own.sum())), str(units), f"{length:.6g}"))
        return f"{table([*rows, ('all', str(len(self)), '', f'{self.lengths.sum():.6g}')])}\n{self.assurance}"

    @cached_property
    def segments(self) -> np.ndarray:
        """`[F, 2, d]` ends in slice coordinates."""
        return self.tiling.vertices[self.tiling.walls.ends[self.walls]]

    def lengths_by_layer(self) -> dict[int, float]:
        """Layer depth -> total length of its folds in slice coordinates, for every layer of the network."""
        return sizes_by_layer(self.tiling)


@dataclass(frozen=True, eq=False, repr=False)
class Bends(TilingResult):
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
class Raster(TilingResult):
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
    """The walls inside the domain with site, unit, layer and length."""
    walls = np.flatnonzero(tiling.walls.cuts >= 0)
    sites, units = units_of_cuts(tiling.sites, tiling.walls.cuts[walls])
    depths = np.array([site.depth for site in tiling.sites], np.int64)
    lengths = tiling.walls.sizes(tiling.vertices)[walls]
    return Folds(tiling, walls, sites, units, depths[sites], lengths, certainty=tiling.certainty)


def sizes_by_layer(tiling: Tiling) -> dict[int, float]:
    """Layer depth -> total size of its folds."""
    depths = np.array([site.depth for site in tiling.sites] + [0])  # sites[-1], outside, is the last
    walls, totals = tiling.walls, np.zeros(depths.max() + 1)
    if tiling.dimension != 2:
        totals += np.bincount(depths[walls.sites], walls.sizes(tiling.vertices), len(totals))
    for start in range(0, len(walls) if tiling.dimension == 2 else 0, _WALLS_TOGETHER):
        part = slice(start, start + _WALLS_TOGETHER)
        ends = tiling.vertices[walls.ends[part]]
        totals += np.bincount(depths[walls.sites[part]], np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1), len(totals))
    return {depth: float(totals[depth]) for depth in sorted({site.depth for site in tiling.sites})}


def folds_per_length(tiling: Tiling) -> float:
    """How many folds a line of the slice meets per unit length: on a plane or in a space the mean over all lines.

    By the Cauchy-Crofton formula that is `c_d S / V` for folds of total (d-1)-volume S in a d-volume V (see
    `crofton_constant`; on a plane `2 L / (pi A)`). Exact. At initialization it grows linearly with the number of
    units, not exponentially with depth (Hanin, Rolnick, "Complexity of linear regions in deep networks", 2019).
    """
    if tiling.dimension == 1:
        return int(np.count_nonzero(tiling.walls.cuts >= 0)) / tiling.view.size
    return crofton_constant(tiling.dimension) * sum(sizes_by_layer(tiling).values()) / tiling.view.size


def bends(tiling: Tiling) -> Bends:
    """Where folds cross folds of earlier layers, and the angles in the slice at which they bend there.

    Angles are measured from the two walls that meet, so their error is about 1e-16 of the slice's extent over
    the length of the shorter wall. Vertices at which more than two walls of one unit meet are left out.
    """
    need_dimension(tiling, "bends of folds", 2)
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
    ends = tiling.walls.ends[table.walls[pair]]
    others = np.where(ends[..., 0] == vertex[chosen][:, None], ends[..., 1], ends[..., 0])
    rays = [tiling.vertices[others[:, side]] - center for side in (0, 1)]
    cross = rays[0][:, 0] * rays[1][:, 1] - rays[0][:, 1] * rays[1][:, 0]
    angles = np.abs(np.arctan2(cross, (rays[0] * rays[1]).sum(1)))
    met = table.walls[pair]
    return Bends(vertex[chosen], cut[chosen], crossed[chosen], angles, met, certainty=tiling.certainty)


def fold_raster(tiling: Tiling, cells: int = 256, depth: int | None = None) -> Raster:
    """Fold length in every cell of a grid over the slice's bounding box (`.density`: per unit area). Exact.

    Args:
        cells: Cells along the longer side; cells are (nearly) square.
        depth: Only folds of this layer.
    """
    need_dimension(tiling, "rasters of folds", 1, 2)
    check_whole(cells, "cells", most=1 << 14)
    layers = sorted({site.depth for site in tiling.sites})
    if depth is not None and depth not in layers:
        raise InputError(f"depth must be None or one of the layers {layers}, got {depth!r}.")
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


def need_dimension(tiling: Tiling, what: str, *possible: int) -> None:
    need_tiling(tiling)
    if tiling.dimension not in possible:
        wanted = " or ".join(f"{d}-D" for d in possible)
        raise InputError(f"{what} need a {wanted} tiling, got a {tiling.dimension}-D one.")
