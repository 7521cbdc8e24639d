"""Volumes after an elementwise squashing function: on a tile `h(t)` is affine, and `s(h(t))` stretches as

    vol(t) = sqrt(det(A^T S(t)^2 A)),  S(t) = diag s'(h(t)),

so values at the corners and one slope a tile are all that is needed; the network itself is not run again. The slopes of
sigmoid and tanh are even and fall with |h|: over a tile each lies between those at the largest and the smallest |h|. As
`A^T S^2 A` grows with every entry of S, so does the volume: its bounds on a tile are proven.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..network.ops.table import operation
from ..network.program import Program
from ..tiling import Tiling
from ..tiling.measures.maps import vertex_values
from .pushforward import LatentMap

Elementwise = Callable[[Tensor], Tensor]
ENDINGS = ("sigmoid", "tanh")
"""Endings s behind which volumes are known on every tile: their slopes are even and fall with |h|."""


def ending_of(name: str) -> tuple[Elementwise, Elementwise]:
    """(s, s') of one of `ENDINGS`."""
    squash = operation(name).squash
    return squash.run, squash.slope  # type: ignore[union-attr, return-value]


_BLOCK_NUMBERS = 4 << 20  # numbers held at once (32 MB)


class Quadrature(NamedTuple):
    """Gauss points of triangles: barycentric coordinates `[q, 3]` and weights `[q]` that sum to 1."""

    nodes: np.ndarray
    weights: np.ndarray


def quadrature(n: int) -> Quadrature:
    """n x n Gauss-Legendre points of the square, collapsed onto the triangle: exact to degree 2 n - 2."""
    x, w = np.polynomial.legendre.leggauss(n)
    u, v = (a.reshape(-1) for a in np.meshgrid(0.5 * (x + 1), 0.5 * (x + 1), indexing="ij"))
    weights = np.outer(0.5 * w, 0.5 * w).reshape(-1) * 2 * (1 - u)
    return Quadrature(np.stack([(1 - u) * (1 - v), u, v * (1 - u)], 1), weights)


@dataclass(frozen=True)
class Squashed:
    """What the squashing makes of the tiles.

    Attributes:
        fine: `[T, 9]` log volumes at the Gauss points of each triangle.
        coarse: `[T, 4]` likewise, to see how far the integrals can be trusted.
        log_upper: `[K]` no log volume in the tile is above this.
        log_lower: `[K]` none is below this.
    """

    fine: np.ndarray
    coarse: np.ndarray
    log_upper: np.ndarray
    log_lower: np.ndarray

    def without(self, flat: np.ndarray, owners: np.ndarray) -> Squashed:
        """The same with volume zero on tiles `flat` `[K]`, where rounding may have left some."""
        nothing = [np.where(flat[owners][:, None], -np.inf, logs) for logs in (self.fine, self.coarse)]
        return Squashed(*nothing, *(np.where(flat, -np.inf, logs) for logs in (self.log_upper, self.log_lower)))


FINE, COARSE = quadrature(3), quadrature(2)


def program_map(program: Program) -> LatentMap:
    """A tiling's network, before its ending, as a map of latents."""
    outputs = int(np.prod(program.output_shape))
    return LatentMap(
        lambda z: program.forward(z).flatten(1), program.input_shape, outputs, torch.float64, torch.device("cpu")
    )


def squashed(tiling: Tiling, program: Program, ending: str, points: np.ndarray, triangles: np.ndarray,
             owners: np.ndarray) -> Squashed:  # fmt: skip
    """The volumes of all tiles of a latent slice behind an ending of `ENDINGS`.

    `points` `[K, 2]` lie inside the tiles, places of slopes; `triangles` `[T, 3]` make up the tiles `owners` `[T]`.
    """
    slope, mapping = ending_of(ending)[1], program_map(program)
    basis = torch.from_numpy(tiling.view.basis.reshape(2, 1, -1).copy())
    size = max(1, _BLOCK_NUMBERS // (2 * len(FINE.nodes) * mapping.outputs * 4))  # about four triangles a tile
    parts = []
    for start in range(0, tiling.count, size):
        tiles = np.arange(start, min(start + size, tiling.count))
        z = torch.from_numpy(tiling.view.inputs(points[tiles]))
        columns = mapping.columns(z, basis)  # [k, 2, D]
        first, last = np.searchsorted(owners, [tiles[0], tiles[-1] + 1])
        rows, place = np.unique(triangles[first:last], return_inverse=True)
        h = torch.from_numpy(vertex_values(tiling, rows))[torch.from_numpy(place.reshape(-1, 3))]  # [t, 3, D]
        of = torch.from_numpy(owners[first:last] - start)
        grams = [_log_volumes(columns[of], slope(torch.from_numpy(q.nodes) @ h)) for q in (FINE, COARSE)]
        begin = np.searchsorted(owners[first:last], tiles)
        high = torch.from_numpy(np.maximum.reduceat(h.amax(1).numpy(), begin))
        low = torch.from_numpy(np.minimum.reduceat(h.amin(1).numpy(), begin))
        steepest, flattest = slope(torch.zeros_like(low).clamp(low, high)), slope(torch.maximum(low.abs(), high.abs()))
        bounds = [_log_volumes(columns, s[:, None])[:, 0] for s in (steepest, flattest)]
        parts.append([*grams, *bounds])
    return Squashed(*(torch.cat(column).numpy() for column in zip(*parts, strict=True)))


def log_volumes_at(tiling: Tiling, program: Program, ending: str, t: np.ndarray) -> np.ndarray:
    """`[n]` log volume behind the ending at slice coordinates `[n, 2]`."""
    slope, mapping = ending_of(ending)[1], program_map(program)
    basis = torch.from_numpy(tiling.view.basis.reshape(2, 1, -1).copy())
    size = max(1, _BLOCK_NUMBERS // (4 * mapping.outputs))
    parts = [np.zeros(0)]
    for start in range(0, len(t), size):
        z = torch.from_numpy(tiling.view.inputs(t[start : start + size]))
        with torch.no_grad():
            h = mapping.function(z)
        parts.append(_log_volumes(mapping.columns(z, basis), slope(h)[:, None])[:, 0].numpy())
    return np.concatenate(parts)


def _log_volumes(columns: Tensor, slopes: Tensor) -> Tensor:
    """`[n, q]` log of sqrt(det(A^T S^2 A)) for columns `[n, 2, D]` and slopes `[n, q, D]`; -inf where it is zero."""
    a, b = (columns[:, None, i] * slopes for i in range(2))
    aa, bb, ab = (a * a).sum(2), (b * b).sum(2), (a * b).sum(2)
    # |b - (b.a/a.a) a| loses fewer digits than aa bb - ab^2
    ratio = torch.where(aa > 0, ab / aa, torch.zeros_like(aa))
    across = (b - ratio[:, :, None] * a).square().sum(2)
    tiny = across <= (torch.finfo(aa.dtype).eps * columns.shape[2]) ** 2 * bb
    return torch.where(tiny, -torch.inf, 0.5 * (aa.log() + across.log()))
