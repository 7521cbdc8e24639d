"""Where a layer's folds pass: exact lengths on a slice, counts in balls, and how much they favor the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import nn

from ..network import SplineNetwork
from ..support.checks import as_float64_array, check_positive
from ..support.display import Certainty, Result, table
from ..support.drawing import drawn
from ..support.errors import InputError
from ..support.progress import Progress, stepping
from ..tiling import Slice, tessellate
from ..tiling.measures.differentiate import cuts
from ..tiling.measures.folds import Raster
from ._data import row_blocks, traced


@dataclass(frozen=True, eq=False, repr=False)
class FoldDensity(Result):
    """Fold lengths per cell of a raster on a slice, layer by layer, and where the data lie.

    A cell's distance to the data is that of the input space: a point off the slice is as far from the cell as it
    really is, not as far as its shadow on the slice. Lengths are exact (`fold_density`) or sign changes counted on a
    grid, an estimate (`sign_changes`).

    Attributes:
        rasters: Depth of a layer -> its folds' lengths; `.density` is length per area.
        points: `[N, d]` the data in slice coordinates (projected, if it lies off the slice).
        offsets: `[N]` how far each data point lies off the slice, in the input space; 0 on it.
        spacing: Median distance from a data point to the nearest other one, in the input space; NaN for a single one.
        scale: `[d, d]`: slice coordinates times it are lengths of the input space (1 for an orthonormal basis).
        certainty: "exact" or "estimate".
        tiles: Number of tiles of the slice; None where it was not tiled.
    """

    rasters: dict[int, Raster]
    points: np.ndarray
    offsets: np.ndarray
    spacing: float
    scale: np.ndarray
    certainty: Certainty
    tiles: int | None
    plot = drawn("normalization.plot_fold_density")

    @classmethod
    def about(
        cls, x: Any, view: Slice, rasters: dict[int, Raster], certainty: Certainty, tiles: int | None
    ) -> FoldDensity:
        """Rasters on a slice, with the data `x` `[N, *input shape]` put beside them."""
        data = as_float64_array(x, "x")
        if data.ndim == 0 or data.shape[1:] != view.input_shape or not len(data):
            raise InputError(f"x must have shape (N, {', '.join(map(str, view.input_shape))}), got {data.shape}.")
        points = view.coordinates(data)
        flat = data.reshape(len(data), -1)
        offsets = np.linalg.norm(flat - view.inputs(points).reshape(flat.shape), axis=1)
        offsets[offsets <= 1e-9 * max(1.0, float(np.abs(flat).max()))] = 0.0  # rounding of the projection
        basis = view.basis.reshape(view.dimension, -1)
        scale = np.linalg.cholesky(basis @ basis.T)
        return cls(rasters, points, offsets, _spacing(flat), scale, certainty, tiles)

    def __repr__(self) -> str:
        layers = ", ".join(map(str, self.rasters))
        return f"FoldDensity(layers {layers} about {len(self.points)} points, {self.where}, {self.certainty})"

    @property
    def where(self) -> str:
        """How far the data lie off the slice, in words."""
        on, furthest = int((self.offsets == 0).sum()), float(self.offsets.max())
        if not furthest:
            return "all on the slice"
        nearest = float(self.offsets[self.offsets > 0].min())
        return f"{on} on the slice, {len(self.offsets) - on} off it by {nearest:.3g} to {furthest:.3g}"

    def summary(self) -> str:
        """How far the data lie, and a table: per layer, the density near the data and far from it."""
        near, far = self._limits(None, None)
        rows: list[tuple[str, ...]] = [("layer", f"near (< {near:.3g})", f"far (> {far:.3g})", "ratio")]
        for depth, raster in self.rasters.items():
            close, distant = self._near_and_far(raster, near, far)
            means = [f"{part.mean():.4g}" if part.size else "no cells" for part in (close, distant)]
            rows.append((str(depth), *means, f"{_ratio(close, distant):.3g}" if close.size and distant.size else "-"))
        data = (
            f"{len(self.points)} data points, {self.where}; the nearest other one is {self.spacing:.3g} away (median)."
        )
        return f"{data}\n{table(rows)}\n{self.assurance}"

    def ratio(self, depth: int, *, near: float | None = None, far: float | None = None) -> float:
        """Mean density of cells nearer than `near` to a data point over that of cells further than `far` from all.

        Distances are those of the input space (see above). `near` is the data's `spacing` by default (a cell's
        diagonal, if that is longer), `far` twice that. Infinite if folds pass near the data only, NaN if they pass
        nowhere; an error that says how far the data lie if no cell is near, or none far.
        """
        if depth not in self.rasters:
            raise InputError(f"depth must be one of {', '.join(map(str, self.rasters))}, got {depth}.")
        raster = self.rasters[depth]
        near, far = self._limits(near, far)
        close, distant = self._near_and_far(raster, near, far)
        if not close.size or not distant.size:
            distance = self._distances(raster)
            raise InputError(
                f"no cells nearer than {near:.4g} or none further than {far:.4g} from the data, to which cells have "
                f"distances from {distance.min():.4g} to {distance.max():.4g} (data: {self.where}); choose near= and "
                "far= between them, or a slice through data."
            )
        return _ratio(close, distant)

    def _limits(self, near: float | None, far: float | None) -> tuple[float, float]:
        if near is None:
            diagonal = max(
                float(np.linalg.norm(np.array([e[1] - e[0] for e in _edges(r)]) @ self.scale))
                for r in self.rasters.values()
            )
            near = max(diagonal, self.spacing) if np.isfinite(self.spacing) else diagonal
        near = check_positive(near, "near")
        return near, 2 * near if far is None else check_positive(far, "far")

    def _near_and_far(self, raster: Raster, near: float, far: float) -> tuple[np.ndarray, np.ndarray]:
        distance = self._distances(raster)
        return raster.density[distance < near], raster.density[distance > far]

    def _distances(self, raster: Raster) -> np.ndarray:
        """From each cell's center to the nearest data point, in the input space: the offset is one more coordinate."""
        data = np.column_stack([self.points @ self.scale, self.offsets])
        places = _centers(raster) @ self.scale
        return np.asarray(cKDTree(data).query(np.concatenate([places, np.zeros((*places.shape[:-1], 1))], -1))[0])


def _spacing(points: np.ndarray) -> float:
    distinct = np.unique(points, axis=0)
    if len(distinct) < 2:
        return float("nan")
    return float(np.median(np.asarray(cKDTree(distinct).query(distinct, k=2)[0])[:, 1]))


def _ratio(close: np.ndarray, distant: np.ndarray) -> float:
    inside, outside = close.mean(), distant.mean()
    if outside == 0:
        return float("inf") if inside > 0 else float("nan")
    return float(inside / outside)


def _edges(raster: Raster) -> list[np.ndarray]:
    return [raster.x_edges] if raster.y_edges is None else [raster.x_edges, raster.y_edges]


def _centers(raster: Raster) -> np.ndarray:
    """`[ny, nx, 2]` (1-D: `[nx, 1]`) middles of the cells."""
    middles = [(edges[1:] + edges[:-1]) / 2 for edges in _edges(raster)]
    return np.stack(np.meshgrid(*middles), -1) if len(middles) == 2 else middles[0][:, None]


def fold_density(
    model: nn.Module | SplineNetwork,
    x: Any,
    view: Slice,
    *,
    cells: int = 96,
    max_tiles: int | None = None,
    progress: Progress | bool | None = None,
) -> FoldDensity:
    """Exact lengths of every layer's folds on a slice, per cell of a raster, with the data beside them.

    Args:
        model: In evaluation mode, or traced; for norms that depend on the input, `freeze_statistics` first.
        x: `[N, *input shape]` data; they need not lie on the slice (see `FoldDensity`).
        view: A 1-D or 2-D slice (in 1-D, folds are counted).
        cells: Cells along the longer side.
        max_tiles, progress: See `tessellate`.

    Returns:
        `FoldDensity`. Exact; cost is that of the tiling.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 1))
        >>> density = fold_density(net, torch.randn(20, 2), Slice.axes([0.0, 0.0], (0, 1), -3, 3))
        >>> sorted(density.rasters)
        [1]

    Reference: "On the Geometry of Deep Learning", Figure 8.
    """
    empty = FoldDensity.about(x, view, {}, "exact", None)  # refuses x before the work
    tiling = tessellate(model, view, max_tiles=max_tiles, progress=progress)
    depths = sorted({site.depth for site in tiling.sites})
    return replace(empty, rasters={d: tiling.fold_raster(cells, d) for d in depths}, tiles=tiling.count)


def fold_counts(
    model: nn.Module | SplineNetwork,
    x: Any,
    *,
    radius: float,
    directions: int = 32,
    generator: torch.Generator | None = None,
    progress: Progress | bool | None = None,
) -> dict[int, np.ndarray]:
    """Depth of a layer -> `[N]` units that fold inside the ball of a radius about each point of the full input space.

    A unit is counted if its sign at some of `directions` antipodal pairs of random points on the sphere, or at the
    center, differs: a lower bound, the same for data and background. Directions are of seed 0 without a generator.
    """
    radius = check_positive(radius, "radius")
    if directions < 1:
        raise InputError(f"directions must be at least 1, got {directions}.")
    data = torch.from_numpy(as_float64_array(x, "x"))
    program = traced(model, data).program()
    generator = generator or torch.Generator().manual_seed(0)
    steps = torch.randn(directions, *program.input_shape, generator=generator, dtype=torch.float64)
    steps = radius * steps / steps.flatten(1).norm(dim=1).reshape(-1, *(1,) * len(program.input_shape))
    steps = torch.cat([torch.zeros_like(steps[:1]), steps, -steps])
    counts: dict[int, list[np.ndarray]] = {site.depth: [] for site in program.sites}
    for block in stepping(list(row_blocks(data, program)), progress, "folds near points"):
        seen: list[tuple[torch.Tensor, torch.Tensor]] = []
        with torch.no_grad():
            for step in steps:
                positive = [z > 0 for _, z in cuts(program, block + step)]
                if not seen:
                    seen = [(p.clone(), p.clone()) for p in positive]
                for (every, some), p in zip(seen, positive, strict=True):
                    every &= p
                    some |= p
        totals = {depth: np.zeros(len(block), np.int64) for depth in counts}
        for fold, (every, some) in zip(program.folds, seen, strict=True):
            totals[fold.site.depth] += (some & ~every).sum(1).numpy()
        for depth, total in totals.items():
            counts[depth].append(total)
    return {depth: np.concatenate(parts) for depth, parts in counts.items()}
