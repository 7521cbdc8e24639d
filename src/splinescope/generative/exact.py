"""Two-dimensional latents, exactly: the volume of every tile, the output density, samples of any polarity.

On a tile the generator is affine, so `sqrt(det(A^T A))` is one number and the tile's image has the area
`tile area * sqrt(det(A^T A))`: no Monte Carlo is needed. Behind a final sigmoid or tanh the factor varies over a tile:
its integrals are by quadrature there, while samples still follow the law exactly.
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
from ._squashed import COARSE, ENDINGS, FINE, Squashed, ending_of, log_volumes_at, squashed
from .volume import log_volume

_LEAST_ACCEPTANCE = 1e-3  # of the proposals of a sample behind an ending


@dataclass(frozen=True, eq=False, repr=False)
class TiledManifold(Result):
    """The image of a 2-D latent slice under a piecewise-affine generator, tile by tile.

    Made by `tiled_manifold`. The latent is uniform on the slice's domain. "Uniform on the manifold" is by default
    uniform on the set of what the generator returns, as everywhere in this part: `output` says which set it is.

    Attributes:
        tiling: The tiling of the latent slice.
        log_volumes: `[K]` log of the volume factor of each tile, per area in slice coordinates; -inf where the
            tile's image has no area. Behind an ending: of its mean over the tile.
        singular_values: `[K, 2]` of each tile's map; of the network before any ending.
        output: "after" the generator's final squashing function, or "before" it.
        ending: The squashing function that is part of the volumes ("sigmoid", "tanh"); None if there is none.
    """

    tiling: Tiling
    log_volumes: np.ndarray
    singular_values: np.ndarray
    output: str = "after"
    ending: str | None = None
    _squashed: Squashed | None = None
    plot = drawn("generative.plot_manifold")

    @property
    def certainty(self) -> Certainty:
        """That of the tiling, or "estimate" where areas are integrals of a squashing function."""
        return self.tiling.certainty if self._squashed is None else "estimate"

    @property
    def law(self) -> str:
        """What rho = 1 is uniform on."""
        if self.output == "after":
            return "the set of the generator's outputs"
        return f"the set of outputs before {self.tiling.ending or 'any ending'}"

    def summary(self) -> str:
        """The manifold in words."""
        flat = int((~np.isfinite(self.log_volumes)).sum())
        positive = self.volumes[self.volumes > 0]
        spread = " to ".join(f"{v:.3g}" for v in np.quantile(positive, [0.01, 0.99])) if len(positive) else "none"
        rows = [("tiles", f"{self.tiling.count:,}"), ("flat (no area)", f"{flat:,}"),
                ("area of the image", f"{self.surface_areas.sum():.6g}"), ("volume factors (1% to 99%)", spread),
                ("rho = 1 is uniform on", self.law)]  # fmt: skip
        if self._squashed is None:
            return f"{table(rows)}\n{self.assurance}"
        return (
            f"{table(rows)}\nAn estimate: areas behind the {self.ending} by quadrature, off by about "
            f"{self.probability_error(1.0):.1g} of the whole; samples follow the law exactly."
        )

    @cached_property
    def volumes(self) -> np.ndarray:
        """`[K]` sqrt(det(A^T A)), equation (10), or its mean behind an ending; zero on rank-deficient tiles."""
        return np.exp(self.log_volumes)

    @cached_property
    def surface_areas(self) -> np.ndarray:
        """`[K]` areas of the tiles' images. Where images overlap each counts."""
        return self.tiling.areas * self.volumes

    @property
    def corner_outputs(self) -> np.ndarray:
        """`[V, C]` outputs at the tiling's vertices, behind the ending if it is part of the volumes."""
        values = vertex_values(self.tiling, np.arange(len(self.tiling.vertices)))
        return values if self.ending is None else ending_of(self.ending)[0](torch.from_numpy(values)).numpy()

    def probabilities(self, rho: float = 1.0) -> np.ndarray:
        """`[K]` probability of each tile under latents of density `vol^rho`: the integral of vol^rho, normalized.

        Tiles of zero volume have no weight unless rho = 0.
        """
        if rho == 0:
            return self.tiling.areas / self.tiling.areas.sum()
        if not np.isfinite(self.log_volumes).any():
            raise InputError("every tile has zero volume: the image is a curve or a point, and has no area law.")
        logs = self._log_means(rho) if self._squashed is not None else _power(self.log_volumes, rho)
        return _normalized(logs, self.tiling.areas)

    def probability_error(self, rho: float = 1.0) -> float:
        """How far `probabilities(rho)` is off in all (total variation), by a coarser quadrature; 0 if exact."""
        if self._squashed is None or rho == 0:
            return 0.0
        coarse = _normalized(self._log_means(rho, coarse=True), self.tiling.areas)
        return 0.5 * float(np.abs(self.probabilities(rho) - coarse).sum())

    def densities(self, rho: float = 0.0) -> np.ndarray:
        """`[K]` output density per area of the manifold, the mean over each tile's image; inf where it has no area.

        Constant on an image unless an ending bends it. rho = 0: the model's own, `1 / (domain area * vol)`; rho = 1:
        constant, one over the manifold's area. Where images of tiles overlap the densities add.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            density = self.probabilities(rho) / self.surface_areas
        return np.where(self.surface_areas > 0, density, np.inf if rho == 0 else 0.0)

    def sample(self, count: int, *, rho: float = 1.0, generator: torch.Generator | None = None) -> np.ndarray:
        """`[n, 2]` independent latents (slice coordinates) of density `vol^rho`: a tile, then a point of it.

        Exact: the point is uniform in the tile, and behind an ending accepted in proportion to `vol^rho` over its
        proven largest value there. `tiling.view.inputs` turns them into latents.
        """
        count = check_whole(count, "count")
        random = generator if generator is not None else torch.Generator().manual_seed(0)
        if self._squashed is None or rho == 0:
            return self._points(count, self.probabilities(rho), random)[0]
        limits = _power(self._squashed.log_upper if rho > 0 else self._squashed.log_lower, rho)
        if not np.isfinite(limits).any():
            raise InputError("every tile has zero volume: the image is a curve or a point, and has no area law.")
        ceilings = _normalized(limits, self.tiling.areas)
        program = self.tiling.program("sampling behind its ending")
        kept: list[np.ndarray] = []
        found = tried = 0
        while found < count:
            t, tiles = self._points(max(256, count - found), ceilings, random)
            volumes = log_volumes_at(self.tiling, program, str(self.ending), t)
            unit = torch.rand(len(t), generator=random, dtype=torch.float64).log().numpy()
            kept.append(t[unit < _power(volumes, rho) - limits[tiles]])
            found, tried = found + len(kept[-1]), tried + len(t)
            if found < _LEAST_ACCEPTANCE * tried and tried > 20 / _LEAST_ACCEPTANCE:
                raise InputError(
                    f"the {self.ending} varies so much within tiles that {found} of {tried} proposals were accepted at "
                    f"rho={rho:g}: use PolaritySampler, a smaller |rho| or output='before'."
                )
        return np.concatenate(kept)[:count]

    def _points(self, n: int, probabilities: np.ndarray, generator: torch.Generator) -> tuple[np.ndarray, np.ndarray]:
        """`[n, 2]` points uniform in tiles drawn by their probabilities, and `[n]` which."""
        numbers, tiles, areas = self._triangles
        weights = (probabilities / self.tiling.areas)[tiles] * areas
        cumulative = np.cumsum(weights)
        unit = torch.rand(n, 3, generator=generator, dtype=torch.float64).numpy()
        chosen = np.searchsorted(cumulative, unit[:, 0] * cumulative[-1], side="right").clip(max=len(weights) - 1)
        a, b, c = self.tiling.vertices[numbers[chosen]].swapaxes(0, 1)
        root, along = np.sqrt(unit[:, 1:2]), unit[:, 2:3]
        return (1 - root) * a + root * (1 - along) * b + root * along * c, tiles[chosen]

    @cached_property
    def _triangles(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return _fan(self.tiling)

    def _log_means(self, rho: float, coarse: bool = False) -> np.ndarray:
        """`[K]` log of the mean of vol^rho over each tile behind an ending."""
        assert self._squashed is not None
        _, tiles, areas = self._triangles
        rule, logs = (COARSE, self._squashed.coarse) if coarse else (FINE, self._squashed.fine)
        return _tile_means(_power(logs, rho), rule.weights, tiles, areas, self.tiling.areas)


def tiled_manifold(tiling: Tiling, *, output: Literal["after", "before"] = "after") -> TiledManifold:
    """Exact volume factors of all tiles of a generator on a 2-D latent slice.

    Args:
        tiling: `tessellate(model, Slice.axes(...))` with the network attached.
        output: Volumes of what the generator returns ("after" a final sigmoid or tanh: areas are then estimates, by
            quadrature), or of the piecewise-affine part "before" it (exact). The same for a generator without ending.

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
    ending = program.ending
    places = inner_points(tiling)
    basis = torch.from_numpy(tiling.view.basis.reshape(2, -1).T.copy())
    points = torch.from_numpy(tiling.view.inputs(places))
    volumes = log_volume(program, points, tangents=basis.expand(tiling.count, -1, -1), progress=False)
    affine = volumes.log.numpy()
    if output == "before" or ending is None:
        return TiledManifold(tiling, affine, volumes.singular_values.numpy(), output)
    if ending not in ENDINGS:
        raise InputError(
            f"the generator ends in {ending}, behind which volumes of tiles are known for {' and '.join(ENDINGS)} "
            "only: use output='before'."
        )
    numbers, owners, areas = _fan(tiling)
    bent = squashed(tiling, program, ending, places, numbers, owners).without(~np.isfinite(affine), owners)
    means = _tile_means(bent.fine, FINE.weights, owners, areas, tiling.areas)
    return TiledManifold(tiling, means, volumes.singular_values.numpy(), output, ending, bent)


def _power(logs: np.ndarray, rho: float) -> np.ndarray:
    """Log of vol^rho; a volume of zero has no weight at any rho."""
    return np.where(np.isfinite(logs), rho * np.where(np.isfinite(logs), logs, 0.0), -np.inf)


def _normalized(logs: np.ndarray, areas: np.ndarray) -> np.ndarray:
    """`[K]` probabilities in proportion to exp(logs) * areas."""
    with np.errstate(divide="ignore"):
        logs = logs + np.log(areas)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def _tile_means(
    logs: np.ndarray, weights: np.ndarray, tiles: np.ndarray, areas: np.ndarray, whole: np.ndarray
) -> np.ndarray:
    """`[K]` log of the mean over tiles of exp(logs `[T, q]`), by the triangles `[T]` of each."""
    top = np.full(len(whole), -np.inf)
    np.maximum.at(top, tiles, logs.max(1))
    shift = np.where(np.isfinite(top), top, 0.0)
    parts = (np.exp(logs - shift[tiles][:, None]) @ weights) * areas
    sums = np.bincount(tiles, parts, minlength=len(whole))
    with np.errstate(divide="ignore"):
        return np.where(np.isfinite(top), shift + np.log(sums / whole), -np.inf)


def _fan(tiling: Tiling) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Triangles that make up the tiles, from the first corner: vertex numbers `[T, 3]`, tile, area `[T]` of each."""
    numbers, tiles = tiling.tiles.fans()
    a, b, c = tiling.vertices[numbers].swapaxes(0, 1)
    u, v = b - a, c - a
    return numbers, tiles, 0.5 * np.abs(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])
