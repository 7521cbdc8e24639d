"""Two-dimensional latents, exactly: the volume of every tile, the output density, samples of any polarity.

On a tile the generator is affine, so `sqrt(det(A^T A))` is one number and the tile's image has the area
`tile area * sqrt(det(A^T A))`: no Monte Carlo is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch

from ..support.checks import check_choice, check_whole
from ..support.display import Certainty, Result, table
from ..support.drawing import drawn
from ..support.errors import InputError
from ..tiling import Tiling
from ..tiling.measures.folds import need_tiling
from ..tiling.measures.maps import inner_points, vertex_values
from .volume import log_volume


@dataclass(frozen=True, eq=False, repr=False)
class TiledManifold(Result):
    """The image of a 2-D latent slice under a piecewise-affine generator, tile by tile; see `tiled_manifold`.

    The latent is uniform on the slice's domain.

    Attributes:
        tiling: The tiling of the latent slice.
        log_volumes: `[K]` log of the volume factor of each tile, per area in slice coordinates; -inf where the
            tile's image has no area.
        singular_values: `[K, 2]` of each tile's map.
        output: "after" the generator's final squashing function, or "before" it.
    """

    tiling: Tiling
    log_volumes: np.ndarray
    singular_values: np.ndarray
    output: str = "after"
    plot = drawn("generative.plot_manifold")

    @property
    def certainty(self) -> Certainty:
        """That of the tiling."""
        return self.tiling.certainty

    def summary(self) -> str:
        """The manifold in words."""
        flat = int((~np.isfinite(self.log_volumes)).sum())
        positive = self.volumes[self.volumes > 0]
        spread = " to ".join(f"{v:.3g}" for v in np.quantile(positive, [0.01, 0.99])) if len(positive) else "none"
        ending = f" before {self.tiling.ending}" if self.tiling.ending else ""
        rows = [("tiles", f"{self.tiling.count:,}"), ("flat (no area)", f"{flat:,}"),
                ("area of the image", f"{self.surface_areas.sum():.6g}"), ("volume factors (1% to 99%)", spread),
                ("rho = 1 is uniform on", f"the set of the generator's outputs{ending}")]  # fmt: skip
        return f"{table(rows)}\n{self.assurance}"

    @cached_property
    def volumes(self) -> np.ndarray:
        """`[K]` sqrt(det(A^T A)), equation (10); zero on rank-deficient tiles."""
        return np.exp(self.log_volumes)

    @cached_property
    def surface_areas(self) -> np.ndarray:
        """`[K]` areas of the tiles' images. Where images overlap each counts."""
        return self.tiling.areas * self.volumes

    @property
    def corner_outputs(self) -> np.ndarray:
        """`[V, C]` outputs at the tiling's vertices."""
        return vertex_values(self.tiling, np.arange(len(self.tiling.vertices)))

    def probabilities(self, rho: float = 1.0) -> np.ndarray:
        """`[K]` probability of each tile under latents of density `vol^rho`: the integral of vol^rho, normalized.

        Tiles of zero volume have no weight unless rho = 0.
        """
        if rho == 0:
            return self.tiling.areas / self.tiling.areas.sum()
        if not np.isfinite(self.log_volumes).any():
            raise InputError("every tile has zero volume: the image is a curve or a point, and has no area law.")
        with np.errstate(divide="ignore"):
            logs = _power(self.log_volumes, rho) + np.log(self.tiling.areas)
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    def densities(self, rho: float = 0.0) -> np.ndarray:
        """`[K]` output density per area of the manifold, constant on each tile's image; inf where it has no area.

        rho = 0: the model's own, `1 / (domain area * vol)`; rho = 1:
        constant, one over the manifold's area. Where images of tiles overlap the densities add.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            density = self.probabilities(rho) / self.surface_areas
        return np.where(self.surface_areas > 0, density, np.inf if rho == 0 else 0.0)

    def sample(self, count: int, *, rho: float = 1.0, generator: torch.Generator | None = None) -> np.ndarray:
        """`[n, 2]` independent latents (slice coordinates) of density `vol^rho`: a tile, then a uniform point of it.

        Exact. `tiling.view.inputs` turns them into latents.
        """
        count = check_whole(count, "count")
        random = generator if generator is not None else torch.Generator().manual_seed(0)
        numbers, tiles = self.tiling.tiles.fans()
        a, b, c = self.tiling.vertices[numbers].swapaxes(0, 1)
        u, v = b - a, c - a
        areas = 0.5 * np.abs(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])
        cumulative = np.cumsum((self.probabilities(rho) / self.tiling.areas)[tiles] * areas)
        unit = torch.rand(count, 3, generator=random, dtype=torch.float64).numpy()
        chosen = np.searchsorted(cumulative, unit[:, 0] * cumulative[-1], side="right").clip(max=len(areas) - 1)
        root, along = np.sqrt(unit[:, 1:2]), unit[:, 2:3]
        return (1 - root) * a[chosen] + root * (1 - along) * b[chosen] + root * along * c[chosen]


def tiled_manifold(tiling: Tiling, *, output: Literal["after", "before"] = "after") -> TiledManifold:
    """Exact volume factors of all tiles of a generator on a 2-D latent slice.

    Args:
        tiling: `tessellate(model, Slice.axes(...))` with the network attached.
        output: Volumes of what the generator returns ("after"), or of the piecewise-affine part "before" a final
            tanh, sigmoid or softmax, behind which volumes vary within a tile: a generator that ends so needs "before".

    Cost: two forward-mode tangents at one point of every tile.

    Example:
        >>> import torch, splinescope as ss
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> tiling = ss.tessellate(model, ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1))
        >>> manifold = tiled_manifold(tiling)
        >>> bool(abs(manifold.probabilities(1.0).sum() - 1) < 1e-12)
        True

    Reference: "On the Geometry of Deep Learning", equation (10) and Figure 10.
    """
    check_choice(output, "output", ("after", "before"))
    need_tiling(tiling)
    if tiling.dimension != 2:
        raise InputError(f"a manifold needs a 2-D slice of the latent space, got a {tiling.dimension}-D one.")
    program = tiling.program("the volume of tiles")
    if output == "after" and program.ending is not None:
        raise InputError(
            f"the generator ends in {program.ending}, behind which volumes vary within a tile: use output='before', or "
            "PolaritySampler."
        )
    basis = torch.from_numpy(tiling.view.basis.reshape(2, -1).T.copy())
    points = torch.from_numpy(tiling.view.inputs(inner_points(tiling)))
    volumes = log_volume(program, points, tangents=basis.expand(tiling.count, -1, -1), progress=False)
    return TiledManifold(tiling, volumes.log.numpy(), volumes.singular_values.numpy(), output)


def _power(logs: np.ndarray, rho: float) -> np.ndarray:
    """Log of vol^rho; a volume of zero has no weight at any rho."""
    return np.where(np.isfinite(logs), rho * np.where(np.isfinite(logs), logs, 0.0), -np.inf)
