"""Exact sections of the squared error along a line or plane of one layer's parameters: a piecewise quadratic.

On each piece `L(t) = value + gradient . (t - center) + 1/2 (t - center)^T hessian (t - center)`, convex.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from splinescope.landscape.directions import Direction
from splinescope.landscape.inputs import Model, batches
from splinescope.network.program import Program
from splinescope.support.checks import as_points
from splinescope.support.derivatives import along
from splinescope.support.display import Result
from splinescope.support.errors import InputError
from splinescope.support.progress import Progress, telling
from splinescope.tiling import Slice, Tiling, tessellate
from splinescope.tiling.cells.lists import reduced
from splinescope.tiling.cells.polygons import Cells

from ..drawings import plot_loss_section
from .loss_lines import Pieces, interval_of, point_pieces, summed
from .parameter_network import Mover, ParameterNetwork, prepared

MOST_PIECES = 200_000
"""Default limit of a 2-D section: minutes for a small convolutional network."""

_BLOCK_NUMBERS = 4 << 20  # numbers that one pass over tiles and data holds (32 MB)


@dataclass(frozen=True, eq=False, repr=False)
class Minima(Result):
    """The exact minimum of the loss on each piece.

    Attributes:
        values: `[K]`.
        points: `[K, d]` where it is attained (one of them, if a valley is flat).
        inside: `[K]` whether it is a stationary point inside the piece, not on its boundary.
    """

    values: np.ndarray
    points: np.ndarray
    inside: np.ndarray
    certainty = "exact"


@dataclass(frozen=True, eq=False, repr=False)
class LossSection(Result):
    """The squared error on a line (d = 1) or plane (d = 2) of one layer's parameters, piece by piece; exact.

    Attributes:
        vertices: `[V, d]` coordinates; sorted if d = 1, where they are the break points and the two ends.
        tiles: `Cells`, the corners of each piece, counter-clockwise (left, right if d = 1).
        centers: `[K, d]` points inside the pieces, about which the quadratics are written.
        values: `[K]` the loss at the centers.
        gradients: `[K, d]` its gradient there.
        hessians: `[K, d, d]` its constant Hessian on the piece, positive semi-definite.
        points: Number of data points the loss is a mean over.
        tiling: The tiling of the plane (d = 2), with walls that name what folds there; None if d = 1.

    The degree is 2 on every piece. Calling it evaluates the loss at coordinates `[M, d]`.
    """

    vertices: np.ndarray
    tiles: Cells
    centers: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    hessians: np.ndarray
    points: int
    tiling: Tiling | None

    degree = 2
    certainty = "exact"
    plot = plot_loss_section

    def _shown(self) -> list[tuple[str, Any]]:
        value, where = self.minimum
        return [("pieces", self.count), ("dimension", self.dimension), ("minimum", value), ("at", where.tolist()),
                ("minima_inside", int(self.minima.inside.sum())), ("points", self.points)]  # fmt: skip

    @property
    def count(self) -> int:
        """Number of pieces K."""
        return len(self.tiles)

    @property
    def dimension(self) -> int:
        """1 or 2."""
        return self.vertices.shape[1]

    @property
    def breaks(self) -> np.ndarray:
        """`[K + 1]` ends and break points of a 1-D section, ascending."""
        if self.dimension != 1:
            raise InputError("breaks are those of a 1-D section, got a 2-D one: see vertices, tiles.")
        return self.vertices[:, 0]

    @property
    def coefficients(self) -> np.ndarray:
        """`[K, 3]` a, b, c of a 1-D section: a + b t + c t^2 on each piece (about t = 0, so digits can cancel)."""
        if self.dimension != 1:
            raise InputError("coefficients are those of a 1-D section; of this one see values, gradients, hessians.")
        m, g, h = self.centers[:, 0], self.gradients[:, 0], self.hessians[:, 0, 0]
        return np.stack([self.values - g * m + 0.5 * h * m**2, g - h * m, 0.5 * h], 1)

    def locate(self, points: Any) -> np.ndarray:
        """`[M]` the piece that holds each point of `points` `[M, d]`; -1 outside the section."""
        points = as_points(points, self.dimension)
        return interval_of(self.breaks, points[:, 0]) if self.tiling is None else self.tiling.locate(points)

    def __call__(self, points: Any) -> np.ndarray:
        """`[M]` the loss at coordinates `points` `[M, d]`; an error for points outside."""
        points = as_points(points, self.dimension)
        piece = self.locate(points)
        if (piece < 0).any():
            raise InputError(f"points must lie in the section's domain, got {points[np.argmax(piece < 0)].tolist()}.")
        return self.on_piece(piece, points)

    def on_piece(self, piece: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The quadratics of given pieces `[M]` at coordinates `[M, d]`, inside the piece or not."""
        d = points - self.centers[piece]
        curved = np.einsum("mi,mij,mj->m", d, self.hessians[piece], d)
        return self.values[piece] + (self.gradients[piece] * d).sum(1) + 0.5 * curved

    @cached_property
    def minima(self) -> Minima:
        """The exact minimum on each piece (a convex quadratic on an interval or polygon)."""
        return _interval_minima(self) if self.dimension == 1 else _polygon_minima(self)

    @property
    def minimum(self) -> tuple[float, np.ndarray]:
        """The least loss on the whole section and the coordinates `[d]` where it is."""
        best = int(np.argmin(self.minima.values))
        return float(self.minima.values[best]), self.minima.points[best]

    @property
    def condition_numbers(self) -> np.ndarray:
        """`[K]` ratio of the largest to the smallest eigenvalue of each piece's Hessian; inf where it is singular."""
        eigenvalues = np.linalg.eigvalsh(self.hessians)
        small, large = eigenvalues[:, 0], eigenvalues[:, -1]
        regular = small > 1e-14 * large
        return np.where(regular, large / np.where(regular, small, 1.0), np.inf)


def loss_section(
    model: Model,
    x: Any,
    y: Any,
    directions: Direction | Sequence[Direction],
    *,
    span: float | tuple[float, float] = 1.0,
    batch_size: int | None = None,
    max_tiles: int | None = MOST_PIECES,
    progress: Progress | bool | None = None,
) -> LossSection:
    """The exact pieces of the squared error along directions in one layer's parameters.

    With `theta(t) = theta0 + sum_i t_i d_i`, the loss is `L(t) = 1/N sum_n |f(x_n; theta(t)) - y_n|^2`. The directions
    may move any parameters that enter the output only once on every way (weight and bias of one layer; parallel
    branches too): outputs are then piecewise affine in t and L is a continuous piecewise quadratic. Only the squared
    error has such pieces: `loss_surface` samples any loss.

    Args:
        model: A piecewise-affine module in eval mode (or the result of `trace`).
        x: `[N, *input shape]` inputs.
        y: `[N, *output shape]` targets.
        directions: One or two mappings from parameter path to its change (see `random_directions`).
        span: The section is `[-span, span]` in each coordinate, or `[low, high]` for a pair.
        batch_size: Data points handled together; memory grows with it, not with N. Default: by layer sizes.
        max_tiles: 2-D only: stop with `LimitReached` beyond so many pieces; None for no limit. N points and H units
            give up to about (N H)^2 / 2 of them, and each costs a pass of the data.
        progress: As in `tessellate`.

    Returns:
        The pieces with their coefficients. Exact up to float64 rounding.

    Raises:
        NotOneLayer: The directions move several layers: use `polynomial_section`.

    Cost: in 1-D two passes of as many rows as all points have break points; in 2-D the tiling of the plane plus one
    pass of the data per piece.

    Example:
        >>> import torch, splinescope_research
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> x, y = torch.randn(20, 2), torch.randn(20, 1)
        >>> section = splinescope_research.loss_section(net, x, y, {"0.weight": torch.randn(8, 2)}, span=2.0)
        >>> section.degree
        2

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", "Geometry of the loss function".
    """
    mover, inputs, targets, low, high, size = prepared(model, x, y, directions, span, batch_size)
    if len(mover.directions) == 1:
        return _line(mover, inputs, targets, low, high, size, progress)
    return _plane(mover, inputs, targets, low, high, size, {"max_tiles": max_tiles, "progress": progress})


def _line(
    mover: Mover, x: Tensor, y: Tensor, low: float, high: float, size: int, progress: Progress | bool | None
) -> LossSection:
    """Each data point has its own break points; the loss is the mean of their piecewise quadratics."""
    parts: list[Pieces] = []
    with telling(progress, "loss section") as report:
        for i, (inputs, targets) in enumerate(batches(x, y, size)):
            parts.append(point_pieces(mover, inputs, targets, low, high))
            pieces = sum(len(quadratics) for _, quadratics in parts)
            report(min(1.0, (i + 1) * size / len(x)), f"{pieces} pieces")
    breaks, quadratics = summed(parts, high - low)
    centers, values, gradients, hessians = quadratics.T / [[1], *[[len(x)]] * 3]
    corners = np.stack([np.arange(len(centers)), np.arange(1, len(centers) + 1)], 1).reshape(-1)
    tiles = Cells(np.arange(0, len(corners) + 1, 2), corners)
    forms = (centers[:, None], values, gradients[:, None], hessians[:, None, None])
    return LossSection(breaks[:, None], tiles, *forms, len(x), None)


def _plane(
    mover: Mover, x: Tensor, y: Tensor, low: float, high: float, size: int, limits: dict[str, Any]
) -> LossSection:
    """One tiling of the plane by all data, batch after batch; then the quadratics, batch after batch."""
    corners = np.array([[low, low], [high, low], [high, high], [low, high]])
    blocks = [mover.block(inputs, str(i)) for i, (inputs, _) in enumerate(batches(x, y, size))]
    network = ParameterNetwork(mover.network, blocks, 2)
    view = Slice(np.zeros(2), np.eye(2), corners)
    tiling = tessellate(network, view, **limits)
    centers = tiling.tiles.corner_means(tiling.vertices)
    value, gradient, hessian = np.zeros(len(centers)), np.zeros((len(centers), 2)), np.zeros((len(centers), 2, 2))
    for block, (_, targets) in zip(blocks, batches(x, y, size), strict=True):
        for total, part in zip((value, gradient, hessian), _quadratics(block, targets, centers), strict=True):
            total += part / len(x)
    return LossSection(tiling.vertices, tiling.tiles, centers, value, gradient, hessian, len(x), tiling)


def _quadratics(block: Program, targets: Tensor, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value `[K]`, gradient `[K, d]`, Hessian `[K, d, d]` of a block's summed squared error at points `[K, d]`."""
    d = centers.shape[1]
    widest = max([int(np.prod(fold.site.shape)) for fold in block.folds], default=1)
    rows = max(1, _BLOCK_NUMBERS // max(widest, targets.numel()))
    parts = []
    for start in range(0, len(centers), rows):
        t = torch.from_numpy(centers[start : start + rows])
        slopes = []
        with torch.no_grad():
            for i in range(d):
                unit = torch.zeros_like(t)
                unit[:, i] = 1.0
                outputs, slope = along(block.forward, t, unit)
                slopes.append(slope.flatten(1))
        residual = (outputs - targets).flatten(1)
        jacobian = torch.stack(slopes, 1)
        parts.append(
            (residual.square().sum(1), 2 * (jacobian @ residual[:, :, None])[:, :, 0], 2 * jacobian @ jacobian.mT)
        )
    value, gradient, hessian = (torch.cat(column).numpy() for column in zip(*parts, strict=True))
    return value, gradient, hessian


def _interval_minima(section: LossSection) -> Minima:
    """Minimum of a convex quadratic on each interval: its stationary point, clipped."""
    left, right = section.breaks[:-1], section.breaks[1:]
    m, g, h = section.centers[:, 0], section.gradients[:, 0], section.hessians[:, 0, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        stationary = np.where(h > 0, m - g / h, m)  # where the outputs do not move there is no slope either
    t = np.clip(stationary, left, right)[:, None]
    values = section.on_piece(np.arange(section.count), t)
    return Minima(values, t, (t[:, 0] > left) & (t[:, 0] < right))


def _polygon_minima(section: LossSection) -> Minima:
    """Minimum of a convex quadratic on each polygon: at its stationary point if that is inside, else on an edge."""
    offsets, piece = section.tiles.offsets, section.tiles.owners()
    a, b = section.vertices[section.tiles.edges()].swapaxes(0, 1)
    edge = b - a
    d = a - section.centers[piece]
    bend = np.einsum("ei,eij,ej->e", edge, section.hessians[piece], edge)
    slope = (edge * (section.gradients[piece] + np.einsum("eij,ej->ei", section.hessians[piece], d))).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        s = np.clip(np.where(bend > 0, -slope / bend, np.where(slope < 0, 1.0, 0.0)), 0.0, 1.0)
    on_edge = a + s[:, None] * edge
    edge_values = section.on_piece(piece, on_edge)
    order = np.lexsort((edge_values, piece))
    best = order[offsets[:-1]]
    points, values = on_edge[best].copy(), edge_values[best].copy()
    regular = np.isfinite(section.condition_numbers)
    stationary = section.centers.copy()
    stationary[regular] -= np.linalg.solve(section.hessians[regular], section.gradients[regular][:, :, None])[:, :, 0]
    side = edge[:, 0] * (stationary[piece, 1] - a[:, 1]) - edge[:, 1] * (stationary[piece, 0] - a[:, 0])
    inside = regular & (reduced(np.minimum, side, offsets) > 0)
    points[inside] = stationary[inside]
    values[inside] = section.on_piece(np.arange(section.count), points)[inside]
    return Minima(values, points, inside)
