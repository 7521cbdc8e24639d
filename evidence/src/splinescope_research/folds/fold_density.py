"""Where a layer's folds pass: exact lengths on a slice, and how much they favor the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from torch import nn

from splinescope.network import SplineNetwork
from splinescope.support.checks import as_float64_array, check_positive
from splinescope.support.display import Certainty, Result
from splinescope.support.errors import InputError
from splinescope.support.progress import Progress
from splinescope.tiling import Slice, tessellate
from splinescope.tiling.measures.folds import Raster

from ..drawings import plot_fold_density


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
        scale: `[d, d]`: slice coordinates times it are lengths of the input space (1 for an orthonormal basis).
        certainty: "exact" or "estimate".
        tiles: Number of tiles of the slice; None where it was not tiled.
    """

    rasters: dict[int, Raster]
    points: np.ndarray
    offsets: np.ndarray
    scale: np.ndarray
    certainty: Certainty
    tiles: int | None
    plot = plot_fold_density

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
        return cls(rasters, points, offsets, scale, certainty, tiles)

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

    def ratio(self, depth: int, *, near: float, far: float) -> float:
        """Mean density of cells nearer than `near` to a data point over that of cells further than `far` from all.

        Distances are those of the input space. Infinite if folds pass near the data only, NaN if they pass nowhere.
        """
        if depth not in self.rasters:
            raise InputError(f"depth must be one of {', '.join(map(str, self.rasters))}, got {depth}.")
        raster = self.rasters[depth]
        near, far = check_positive(near, "near"), check_positive(far, "far")
        distance = self._distances(raster)
        close, distant = raster.density[distance < near], raster.density[distance > far]
        if not close.size or not distant.size:
            raise InputError(
                f"no cells nearer than {near:.4g} or none further than {far:.4g} from the data, to which cells have "
                f"distances from {distance.min():.4g} to {distance.max():.4g} (data: {self.where}); choose near= and "
                "far= between them, or a slice through data."
            )
        inside, outside = close.mean(), distant.mean()
        if outside == 0:
            return float("inf") if inside > 0 else float("nan")
        return float(inside / outside)

    def _distances(self, raster: Raster) -> np.ndarray:
        """From each cell's center to the nearest data point, in the input space: the offset is one more coordinate."""
        edges = [raster.x_edges] if raster.y_edges is None else [raster.x_edges, raster.y_edges]
        centers = np.stack(np.meshgrid(*((e[1:] + e[:-1]) / 2 for e in edges)), -1)
        data = np.column_stack([self.points @ self.scale, self.offsets])
        places = centers @ self.scale
        return np.asarray(cKDTree(data).query(np.concatenate([places, np.zeros((*places.shape[:-1], 1))], -1))[0])


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
        >>> import torch, splinescope_research
        >>> net = nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 1))
        >>> density = splinescope_research.fold_density(net, torch.randn(20, 2), Slice.axes([0.0, 0.0], (0, 1), -3, 3))
        >>> sorted(density.rasters)
        [1]

    Reference: "On the Geometry of Deep Learning", Figure 8.
    """
    empty = FoldDensity.about(x, view, {}, "exact", None)  # refuses x before the work
    tiling = tessellate(model, view, max_tiles=max_tiles, progress=progress)
    depths = sorted({site.depth for site in tiling.sites})
    return replace(empty, rasters={d: tiling.fold_raster(cells, d) for d in depths}, tiles=tiling.count)
