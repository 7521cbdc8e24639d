"""Distances from points to what changes the network: the edge of a tile, the decision boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...network.program import Program, Tournament
from ...support.checks import as_points
from ...support.display import Certainty, Result, table
from .differentiate import block_rows, blocks, jacobians, outputs, unit_distances

if TYPE_CHECKING:
    from ..tiling import Tiling


@dataclass(frozen=True, eq=False, repr=False)
class InputMargin(Result):
    """Distances in the full input space, Euclidean.

    Attributes:
        edge: `[N]` distance to the edge of the point's own tile, `min_k |z_k| / ||grad z_k||` over all units.
            Exact, unless the network has a max over more than two numbers: then a lower bound (see `exact_edge`).
        margin: `[N]` distance to the decision boundary where `exact`; elsewhere a lower bound, equal to `edge`.
        exact: `[N]` whether the nearest point of the boundary lies in the point's own tile.
        exact_edge: Whether `edge` is exact (a max-pool's losers may add planes that are not edges).
        exact_network: Whether the network is the model itself; False if it stands for a smooth one within a tolerance:
            all numbers are estimates then, and nothing is marked as exact.
    """

    edge: np.ndarray
    margin: np.ndarray
    exact: np.ndarray
    exact_edge: bool
    exact_network: bool = True

    @property
    def certainty(self) -> Certainty:
        if not self.exact_network:
            return "estimate"
        return "exact" if self.exact_edge and bool(self.exact.all()) else "bound"

    def summary(self) -> str:
        """The distances in words."""
        if not len(self.edge):
            return f"No points.\n{self.assurance}"
        rows = [("distance to", "least", "median", "largest")]
        for name, values in (("edge of the tile", self.edge), ("decision boundary", self.margin)):
            rows.append((name, f"{values.min():.4g}", f"{np.median(values):.4g}", f"{values.max():.4g}"))
        sure = f"{int(self.exact.sum())} of {len(self.exact)} points; at least that far for the others"
        return f"{table(rows)}\nTo the boundary exactly so for {sure}.\n{self.assurance}"


def tiling_margin(tiling: Tiling, points: Any) -> InputMargin:
    """Distances in the full input space from points `[N, d]` of the slice to their tiles' edges and the boundary.

    See `InputMargin` for which are exact and which are bounds. Cost: min(D, units) passes through the network.
    """
    program = tiling.program("distances in the input space")
    inputs = tiling.view.inputs(as_points(points, tiling.dimension))
    return input_margin(program, inputs, exact_network=tiling.certainty == "exact")


def edge_distances(program: Program, x: np.ndarray) -> np.ndarray:
    """`[N]` distances of inputs `[N, *input_shape]` to the edges of their own tiles, in the input space.

    `min_k |z_k(x)| / ||grad z_k(x)||` over the units of all layers: inside a tile every pre-activation is affine, so
    the quotient is the distance to the plane that the unit's fold lies on, and the nearest of these planes is the
    tile's nearest facet. Exact; with max-pools a lower bound. Infinite without units. Cost: min(D, U) passes.
    """
    if not program.folds:
        return np.full(len(x), np.inf)
    rows = block_rows(program)
    parts = [unit_distances(program, x[b]).min(1) for b in blocks(len(x), rows)]
    return np.concatenate(parts) if parts else np.zeros(0)


def input_margin(program: Program, x: np.ndarray, *, exact_network: bool = True) -> InputMargin:
    """Distances of inputs `[N, *input_shape]` to their tiles' edges and to the decision boundary.

    On the point's own tile the distance to the boundary against class j is `(f_c - f_j) / ||grad (f_c - f_j)||`, c the
    winner (for one output, `|f| / ||grad f||`). If the smallest of these is at most the distance to the edge, the
    nearest boundary point is in the tile and the distance is exact; otherwise the ball that reaches the edge is
    free of boundary, and `edge` is a lower bound.
    """
    edge = edge_distances(program, x)
    quotient = np.empty(len(x))
    for block in blocks(len(x), max(1, block_rows(program) // max(1, int(np.prod(program.output_shape))))):
        values, slopes = outputs(program, x[block]), jacobians(program, x[block])
        if values.shape[1] == 1:  # a binary logit: the other class scores zero
            values, slopes = np.pad(values, ((0, 0), (1, 0))), np.pad(slopes, ((0, 0), (1, 0), (0, 0)))
        rows, winner = np.arange(len(values)), values.argmax(1)
        lead = values[rows, winner][:, None] - values
        steepness = np.linalg.norm(slopes[rows, winner][:, None] - slopes, axis=2)
        distances = np.divide(lead, steepness, out=np.full_like(lead, np.inf), where=steepness > 0)
        distances[rows, winner] = np.inf
        quotient[block] = distances.min(1)
    exact = quotient <= edge
    sealed = any(isinstance(step, Tournament) for step in program.steps)
    margin = np.where(exact, quotient, edge)
    return InputMargin(edge, margin, exact & exact_network, exact_network and not sealed, exact_network)
