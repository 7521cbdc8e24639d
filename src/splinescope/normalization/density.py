"""Where a layer's folds pass: exact lengths on a slice, counts in balls, and how much they favour the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from .._checks import as_float64_array, check_positive
from .._errors import InputError
from ..network import SplineNetwork
from ..tiling import Raster, Slice, tessellate
from ..tiling._differentiate import cuts
from ._data import row_blocks, traced


@dataclass(frozen=True, eq=False)
class FoldDensity:
    """Exact fold lengths per cell of a raster on a slice, layer by layer.

    Attributes:
        rasters: Depth of a layer -> its folds' lengths; `.density` is length per area.
        points: `[N, d]` the data in slice coordinates (projected, if it lies off the slice).
        tiles: Number of tiles of the slice.
    """

    rasters: dict[int, Raster]
    points: np.ndarray
    tiles: int

    def __repr__(self) -> str:
        return f"FoldDensity(layers {', '.join(map(str, self.rasters))} about {len(self.points)} points)"

    def ratio(self, depth: int, *, near: float, far: float) -> float:
        """Mean density of cells nearer than `near` to a data point over that of cells further than `far`.

        Infinite if folds pass near the data only, NaN if they pass nowhere.
        """
        raster = self._raster(depth)
        distance = self._distances(raster)
        close, distant = raster.density[distance < near], raster.density[distance > far]
        if not close.size or not distant.size:
            raise InputError(f"no cells nearer than {near} or none further than {far} from the data.")
        inside, outside = close.mean(), distant.mean()
        if outside == 0:
            return float("inf") if inside > 0 else float("nan")
        return float(inside / outside)

    def alignment(self, depth: int) -> float:
        """Mean density at the data points over that at uniform points of the data's bounding box; 1 is indifferent."""
        raster = self._raster(depth)
        low, high = self.points.min(0), self.points.max(0)
        window = np.array([(edges[0], edges[-1]) for edges in _edges(raster)]).T
        if ((self.points < window[0]) | (self.points > window[1])).any():
            raise InputError("some data lies outside the slice's window; take a larger one, or ratio(near=, far=).")
        centres = _centres(raster)
        inside = ((centres >= low) & (centres <= high)).all(-1)
        background = raster.density[inside].mean() if inside.any() else 0.0
        index = [
            np.clip(np.searchsorted(edges, self.points[:, i], side="right") - 1, 0, len(edges) - 2)
            for i, edges in enumerate(_edges(raster))
        ]
        at_data = raster.density[tuple(reversed(index))].mean()
        return float(at_data / background) if background > 0 else float("nan")

    def _raster(self, depth: int) -> Raster:
        if depth not in self.rasters:
            raise InputError(f"depth must be one of {', '.join(map(str, self.rasters))}, got {depth}.")
        return self.rasters[depth]

    def _distances(self, raster: Raster) -> np.ndarray:
        return nearest_distances(_centres(raster), self.points)


def nearest_distances(places: np.ndarray, points: np.ndarray) -> np.ndarray:
    """`[...]` distance from each place `[..., d]` to the nearest of the points `[N, d]`."""
    from scipy.spatial import cKDTree

    return np.asarray(cKDTree(points).query(places)[0])


def _edges(raster: Raster) -> list[np.ndarray]:
    return [raster.x_edges] if raster.y_edges is None else [raster.x_edges, raster.y_edges]


def _centres(raster: Raster) -> np.ndarray:
    """`[ny, nx, 2]` (1-D: `[nx, 1]`) middles of the cells."""
    middles = [(edges[1:] + edges[:-1]) / 2 for edges in _edges(raster)]
    return np.stack(np.meshgrid(*middles), -1) if len(middles) == 2 else middles[0][:, None]


def fold_density(
    model: nn.Module | SplineNetwork, x: Any, view: Slice, *, cells: int = 96, max_tiles: int | None = None
) -> FoldDensity:
    """Exact lengths of every layer's folds on a slice, per cell of a raster, with the data beside them.

    Args:
        model: In evaluation mode, or traced; for norms that depend on the input, `freeze_statistics` first.
        x: `[N, *input shape]` data, projected onto the slice.
        view: A 1-D or 2-D slice (in 1-D, folds are counted).
        cells: Cells along the longer side.
        max_tiles: See `tessellate`.

    Returns:
        `FoldDensity`. Exact; cost is that of the tiling.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 1))
        >>> density = fold_density(net, torch.randn(20, 2), Slice.axes([0.0, 0.0], (0, 1), -3, 3))
        >>> sorted(density.rasters)
        [1]

    Reference: "On the Geometry of Deep Learning", Figure 8.
    """
    data = as_float64_array(x, "x")
    if data.ndim == 0 or data.shape[1:] != view.input_shape or not len(data):
        raise InputError(f"x must have shape (N, {', '.join(map(str, view.input_shape))}), got {data.shape}.")
    basis = view.basis.reshape(view.dimension, -1)
    offsets = (data - view.origin).reshape(len(data), -1)
    points = np.linalg.lstsq(basis.T, offsets.T, rcond=None)[0].T
    tiling = tessellate(model, view, max_tiles=max_tiles)
    depths = sorted({site.depth for site in tiling.sites})
    return FoldDensity({d: tiling.fold_raster(cells, d) for d in depths}, points, tiling.count)


def fold_counts(
    model: nn.Module | SplineNetwork,
    x: Any,
    *,
    radius: float,
    directions: int = 32,
    generator: torch.Generator | None = None,
) -> dict[int, np.ndarray]:
    """How many units of each layer fold inside the ball of a radius about each point, in the full input space.

    A unit is counted if its sign at some of `directions` antipodal pairs of random points on the sphere, or at the
    centre, differs: a lower bound (a fold that cuts off a small cap is missed), the same for data and background.

    Args:
        model: In evaluation mode, or traced.
        x: `[N, ...]`.
        radius: Of the ball.
        directions: Random directions, the same for all points.
        generator: Their source; a fresh one with seed 0 if None, so that calls are comparable.

    Returns:
        Depth of a layer -> `[N]` counts. Cost: 2 * directions + 1 forward passes.
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
    for block in row_blocks(data, program):
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
        for site, (every, some) in zip(program.sites, seen, strict=True):
            totals[site.depth] += (some & ~every).sum(1).numpy()
        for depth, total in totals.items():
            counts[depth].append(total)
    return {depth: np.concatenate(parts) for depth, parts in counts.items()}


def fold_alignment(
    model: nn.Module | SplineNetwork,
    x: Any,
    *,
    radius: float,
    directions: int = 32,
    generator: torch.Generator | None = None,
) -> dict[int, float]:
    """Per layer, mean number of folds near data over that near uniform points of the data's bounding box.

    Above 1, the folds favour the data; the same number of background points as data points is drawn. See
    `fold_counts` for the arguments and for what is counted. NaN where no fold is near the background either.
    """
    data = torch.from_numpy(as_float64_array(x, "x"))
    low, high = data.amin(0), data.amax(0)
    generator = generator or torch.Generator().manual_seed(0)
    background = low + (high - low) * torch.rand(data.shape, generator=generator, dtype=torch.float64)
    seed = int(torch.randint(2**62, (1,), generator=generator))
    near, anywhere = (
        fold_counts(model, p, radius=radius, directions=directions, generator=torch.Generator().manual_seed(seed))
        for p in (data, background)
    )
    return {
        depth: float(near[depth].mean() / anywhere[depth].mean()) if anywhere[depth].any() else float("nan")
        for depth in near
    }
