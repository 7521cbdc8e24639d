"""Two-dimensional latents, exactly: the volume of every tile, the output density, samples of any polarity.

On a tile the generator is affine, so `sqrt(det(A^T A))` is one number and the tile's image has the area
`tile area * sqrt(det(A^T A))`: no Monte Carlo is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from .._errors import InputError
from ..tiling import Tiling
from ..tiling.maps import inner_points
from .volume import log_volume


@dataclass(frozen=True, eq=False)
class TiledManifold:
    """The image of a 2-D latent slice under a piecewise-affine generator, tile by tile.

    Made by `tiled_manifold`. The latent is uniform on the slice's domain; a tanh or sigmoid at the end of the
    generator is left out (the tiling is that of the network before it).

    Attributes:
        tiling: The tiling of the latent slice.
        log_volumes: `[K]` log of the volume factor of each tile, per area in slice coordinates; -inf where the
            tile's image has no area.
        singular_values: `[K, 2]` of each tile's map.
    """

    tiling: Tiling
    log_volumes: np.ndarray
    singular_values: np.ndarray

    @cached_property
    def volumes(self) -> np.ndarray:
        """`[K]` sqrt(det(A^T A)), equation (10); zero on rank-deficient tiles."""
        return np.exp(self.log_volumes)

    @cached_property
    def surface_areas(self) -> np.ndarray:
        """`[K]` areas of the tiles' images. Where images overlap each counts."""
        return self.tiling.areas * self.volumes

    def probabilities(self, rho: float = 1.0) -> np.ndarray:
        """`[K]` probability of each tile under latents of density `vol^rho`: area * vol^rho, normalised.

        Tiles of zero volume have no weight unless rho = 0.
        """
        if rho == 0:
            return self.tiling.areas / self.tiling.areas.sum()
        if not np.isfinite(self.log_volumes).any():
            raise InputError("every tile has zero volume: the image is a curve or a point, and has no area law.")
        with np.errstate(divide="ignore"):
            logs = np.where(np.isfinite(self.log_volumes), rho * self.log_volumes + np.log(self.tiling.areas), -np.inf)
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    def densities(self, rho: float = 0.0) -> np.ndarray:
        """`[K]` output density per area of the manifold, constant on each tile's image; inf where it has no area.

        rho = 0: the model's own, `1 / (domain area * vol)`; rho = 1: constant, one over the manifold's area.
        Where images of tiles overlap the densities add.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            density = self.probabilities(rho) / self.surface_areas
        return np.where(self.surface_areas > 0, density, np.inf if rho == 0 else 0.0)

    def sample(self, n: int, *, rho: float = 1.0, rng: torch.Generator | None = None) -> np.ndarray:
        """`[n, 2]` independent latents (slice coordinates) of density `vol^rho`: a tile, then a uniform point of it.

        Exact. `tiling.slice.inputs` turns them into latents.
        """
        if n < 1:
            raise InputError(f"n must be a whole number >= 1, got {n!r}.")
        random = rng if rng is not None else torch.Generator().manual_seed(0)
        corners, tiles = _fan(self.tiling)
        areas = 0.5 * np.abs(_cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))
        weights = (self.probabilities(rho) / self.tiling.areas)[tiles] * areas
        cumulative = np.cumsum(weights)
        unit = torch.rand(n, 3, generator=random, dtype=torch.float64).numpy()
        chosen = np.searchsorted(cumulative, unit[:, 0] * cumulative[-1], side="right").clip(max=len(weights) - 1)
        a, b, c = corners[chosen].swapaxes(0, 1)
        root, along = np.sqrt(unit[:, 1:2]), unit[:, 2:3]
        return (1 - root) * a + root * (1 - along) * b + root * along * c


def tiled_manifold(tiling: Tiling) -> TiledManifold:
    """Exact volume factors of all tiles of a generator on a 2-D latent slice.

    Args:
        tiling: `tessellate(generator, Slice.axes(...))` with the network attached.

    Cost: two forward-mode tangents at one point of every tile.

    Example:
        >>> import torch, splinescope as ss
        >>> generator = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> tiling = ss.tessellate(generator, ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1))
        >>> manifold = tiled_manifold(tiling)
        >>> bool(abs(manifold.probabilities(1.0).sum() - 1) < 1e-12)
        True

    Reference: "On the Geometry of Deep Learning", equation (10) and Figure 10.
    """
    if tiling.dimension != 2:
        raise InputError(f"a manifold needs a 2-D slice of the latent space, got a {tiling.dimension}-D one.")
    network = tiling.require_network("the volume of tiles")
    points = torch.from_numpy(tiling.slice.inputs(inner_points(tiling)))
    basis = torch.from_numpy(tiling.slice.basis.reshape(2, -1).T.copy())
    volumes = log_volume(network, points, output="before", tangents=basis.expand(tiling.count, -1, -1))
    return TiledManifold(tiling, volumes.log.numpy(), volumes.singular_values.numpy())


def _fan(tiling: Tiling) -> tuple[np.ndarray, np.ndarray]:
    """The tiles cut into triangles from their first corner: `[T, 3, 2]`, and `[T]` which tile each is of."""
    offsets, corners = tiling.tiles.offsets, tiling.tiles.corners
    sizes = np.diff(offsets)
    tiles = np.repeat(np.arange(tiling.count), sizes - 2)
    within = np.arange(len(tiles)) - np.repeat(np.cumsum(sizes - 2) - (sizes - 2), sizes - 2)
    start = offsets[:-1][tiles]
    numbers = np.stack([corners[start], corners[start + within + 1], corners[start + within + 2]], 1)
    return tiling.vertices[numbers], tiles


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
