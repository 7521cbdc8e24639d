"""Surfaces along directions that move any layers: a quadratic on every grid cell, with a proven bound of its error.

Every value in the network is enclosed on a cell `t = c + r s`, `s` in `[-1, 1]^d`, by a linear form

    v(t) = center + sum_i s_i slopes_i +- error .

Affine steps carry the three parts along (`error` by absolute weights); a step with moved parameters adds products of
two slopes, at most of size r^2; a hinge relu(q) whose q changes sign on the cell lies between lambda q and the chord.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..network.program import Affine, Fold, Program, walked
from ..support.checks import as_points, check_whole
from ..support.display import Certainty
from ..support.errors import InputError
from ..support.losses import squared
from ..support.progress import Progress, stepping
from ..tiling.cells.lists import reduced
from ..tiling.cells.polygons import Cells
from ._moved import Mover, prepared
from .directions import Direction
from .inputs import Model, batches
from .sections import LossSection
from .surface import LossSurface


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CertifiedSurface(LossSurface):
    """The squared error on a line or plane that moves any layers: `|L(t) - q(t)| <= error` everywhere in each cell.

    A `LossSurface` whose grid points are the centers of cells that cover the section, K in all. Not the exact pieces,
    which are polynomials of higher degree with curved walls, but a bound that holds between the grid points, too (up to
    float64 rounding); it falls about as the square of the cells' size.

    Attributes:
        quadratics: q, a convex quadratic on every cell; cells in the order of `losses.reshape(-1)`.
        errors: `[*grid]` the bound on every cell.
        half: Half the width of a cell.
    """

    quadratics: LossSection
    errors: np.ndarray
    half: float

    @property
    def certainty(self) -> Certainty:
        """ "bound": proven on every cell."""
        return "bound"

    @property
    def assurance(self) -> str:
        return (
            f"A bound: in every cell the loss is within {self.errors.max():.3g} of its quadratic, and nowhere below "
            f"{self.lower.min():.6g} or above {self.upper.max():.6g}; proven."
        )

    @property
    def label(self) -> str:
        """What the picture of it says."""
        return f"certified: {self.errors.size} quadratics within {self.errors.max():.2g} of the loss"

    @cached_property
    def lower(self) -> np.ndarray:
        """`[*grid]` no loss in the cell is below this; proven."""
        return np.maximum(self.quadratics.minima.values.reshape(self.errors.shape) - self.errors, 0.0)

    @cached_property
    def upper(self) -> np.ndarray:
        """`[*grid]` no loss in the cell is above this; proven (a convex quadratic is largest at a corner)."""
        cells = self.quadratics.tiles
        corners = self.quadratics.on_piece(cells.owners(), self.quadratics.vertices[cells.corners])
        return reduced(np.maximum, corners, cells.offsets).reshape(self.errors.shape) + self.errors

    def bounds(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        """`[M]` lower and upper bounds of the loss at coordinates `points` `[M, d]`."""
        points = as_points(points, len(self.axes))
        place = np.rint((points - [axis[0] for axis in self.axes]) / (2 * self.half)).astype(int)
        place = np.clip(place, 0, len(self.axes[0]) - 1)
        cell = np.ravel_multi_index(tuple(place.T), self.losses.shape)
        outside = (np.abs(points - self.quadratics.centers[cell]) > self.half * (1 + 1e-9)).any(1)
        if outside.any():
            raise InputError(f"points must lie in the section's domain, got {points[np.argmax(outside)].tolist()}.")
        value, error = self.quadratics.on_piece(cell, points), self.errors.reshape(-1)[cell]
        return np.maximum(value - error, 0.0), value + error


def certified_surface(
    model: Model,
    x: Any,
    y: Any,
    directions: Direction | Sequence[Direction],
    *,
    span: float | tuple[float, float] = 1.0,
    cells: int = 16,
    batch_size: int | None = None,
    progress: Progress | bool | None = None,
) -> CertifiedSurface:
    """The squared error along directions that move any number of layers, with a proven error on every grid cell.

    Args:
        model: A piecewise-affine module in eval mode (or the result of `trace`).
        x: `[N, *input shape]` inputs.
        y: `[N, *output shape]` targets.
        directions: One or two mappings from parameter path to its change (see `random_directions`).
        span: The section is `[-span, span]` in each coordinate, or `[low, high]` for a pair.
        cells: Cells per axis.
        batch_size: Data points handled together; memory grows with it, not with N.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Returns:
        Quadratics and their error bounds: interval arithmetic with linear forms. They are tight for few layers and
        small cells and grow with depth: halve the cells until `errors` is small enough.

    Cost: per cell the matrix products of about `3 + d` forward passes of the data, of `4 d + 2 d^2` more in layers that
    move, and elementwise work (measured: see the benchmarks).

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        >>> moves = ss.landscape.random_directions(net, 2)
        >>> found = ss.landscape.certified_surface(net, torch.randn(5, 2), torch.randn(5, 1), moves, span=0.1, cells=4)
        >>> bool((found.lower <= found.losses).all() and (found.losses <= found.upper).all())
        True
    """
    mover, inputs, targets, low, high, size = prepared(model, x, y, directions, span, batch_size)
    cells = check_whole(cells, "cells")
    d, half = len(mover.directions), 0.5 * (high - low) / cells
    axis = low + half * (2 * np.arange(cells) + 1)
    centers = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), -1).reshape(-1, d)
    losses, values, errors = (np.zeros(len(centers)) for _ in range(3))
    gradients, hessians = np.zeros((len(centers), d)), np.zeros((len(centers), d, d))
    with torch.no_grad():
        for k in stepping(range(len(centers)), progress, "certified surface"):
            program = mover.program_at(centers[k])
            for batch, wanted in batches(inputs, targets, size):
                form = _enclose(mover, program, half, batch, check=k == 0)
                r, g, e = (form.center - wanted).reshape(-1), form.slopes.reshape(d, -1), form.error.reshape(-1)
                losses[k] += float(squared(program.forward(batch), wanted)) / len(inputs)
                values[k] += float(r @ r) / len(inputs)
                gradients[k] += (2 * g @ r).numpy() / half / len(inputs)
                hessians[k] += (2 * g @ g.T).numpy() / half**2 / len(inputs)
                errors[k] += float((2 * (r.abs() + g.abs().sum(0)) + e) @ e) / len(inputs)
    shape = (cells,) * d
    vertices, tiles = _grid(low + 2 * half * np.arange(cells + 1), d)
    quadratics = LossSection(vertices, tiles, centers, values, gradients, hessians, len(inputs), None)
    return CertifiedSurface(
        (axis,) * d, losses.reshape(shape), quadratics=quadratics, errors=errors.reshape(shape), half=half
    )


def _grid(edges: np.ndarray, d: int) -> tuple[np.ndarray, Cells]:
    """Vertices and cells of a grid, corners counter-clockwise, cells in the order of a `[*grid]` array."""
    n = len(edges) - 1
    vertices = np.stack(np.meshgrid(*[edges] * d, indexing="ij"), -1).reshape(-1, d)
    first = np.arange(n)
    if d == 1:
        corners = np.stack([first, first + 1], 1)
    else:
        corner = (first[:, None] * (n + 1) + first[None]).reshape(-1)
        corners = np.stack([corner, corner + n + 1, corner + n + 2, corner + 1], 1)
    return vertices, Cells(np.arange(len(corners) + 1) * corners.shape[1], corners.reshape(-1))


class _Form(NamedTuple):
    """`center [n, ...] + sum_i s_i slopes [d, n, ...] +- error [n, ...]` for s in [-1, 1]^d."""

    center: Tensor
    slopes: Tensor
    error: Tensor


def _enclose(mover: Mover, program: Program, half: float, x: Tensor, check: bool) -> _Form:
    """The outputs at data `[n, ...]` on a cell; `program` is the network at the cell's center."""

    def evaluate(step: Affine | Fold, given: list[_Form]) -> _Form:
        moves = step.output in mover.using
        if isinstance(step, Fold):
            if moves:
                raise InputError(f"directions must not move the slopes of {step.site.op} at {step.site.path!r} here.")
            return _fold(step, given)
        center, error = step.run(*(f.center for f in given)), _linear(step.magnitude, [f.error for f in given])
        form = _Form(center, _slopes(step.run, given), error)
        return _moved(mover, program.steps.index(step), form, given, half, check) if moves else form

    start = _Form(x, torch.zeros(len(mover.directions), *x.shape, dtype=x.dtype), torch.zeros_like(x))
    return walked(program.steps, {program.input: start}, {program.output}, evaluate)[program.output]


def _linear(run: Callable[..., Tensor], parts: Sequence[Tensor]) -> Tensor:
    """The linear part of an affine `run` on rows."""
    return run(*parts) - run(*(torch.zeros_like(part[:1]) for part in parts))


def _slopes(run: Callable[..., Tensor], given: Sequence[_Form]) -> Tensor:
    """The linear part of `run` on every slope, `[d, n, ...]`."""
    d, n = given[0].slopes.shape[:2]
    result = _linear(run, [form.slopes.flatten(0, 1) for form in given])
    return result.reshape(d, n, *result.shape[1:])


def _moved(mover: Mover, i: int, form: _Form, given: Sequence[_Form], half: float, check: bool) -> _Form:
    """Add to a step at the cell's center what its parameters change: `sum_i r s_i K_i(inputs)`, K_i affine."""
    K = [mover.change(k, i) for k in range(len(form.slopes))]
    centers = [part.center for part in given]
    changes = mover.at_data(i, centers)[1] if check else torch.stack([change(*centers) for change in K])
    center, error = form.center, form.error
    products = torch.stack([half * _slopes(change, given) for change in K])  # [d, d, n, ...]
    for a in range(len(K)):  # s_a^2 is in [0, 1], s_a s_b in [-1, 1]
        center = center + 0.5 * products[a, a]
        error = error + 0.5 * products[a, a].abs()
        for b in range(a):
            error = error + (products[a, b] + products[b, a]).abs()
        error = error + half * _linear(mover.change_magnitude(a, i), [part.error for part in given])
    return _Form(center, form.slopes + half * changes, error)


def _fold(step: Fold, given: Sequence[_Form]) -> _Form:
    """`affine + sum_j gains_j relu(cut_j)`: the hinges by their enclosures, the affine part as it is.

    A row of the affine part has one entry at most (it is elementwise, or takes one of two), so its absolute value is
    that of its result.
    """
    gains, elements = torch.from_numpy(step.gains), torch.from_numpy(step.elements)

    def add(whole: Tensor, hinges: Tensor) -> Tensor:
        return whole.flatten(1).index_add(1, elements, hinges).reshape(whole.shape)

    def rest(*inputs: Tensor) -> Tensor:
        return add(step.run(*inputs), -gains * step.cuts(*inputs).relu())

    q = step.cuts(*(form.center for form in given))
    slopes = _slopes(step.cuts, given)
    error = _linear(step.cut_magnitude, [form.error for form in given])
    reach = slopes.abs().sum(0) + error
    low, high = q - reach, q + reach
    crossed = (low < 0) & (high > 0)
    tilt = torch.where(crossed, high / (high - low).clamp_min(torch.finfo(q.dtype).tiny), (q > 0).to(q.dtype))
    lift = torch.where(crossed, -0.5 * tilt * low, 0.0)
    center = add(rest(*(form.center for form in given)), gains * (tilt * q + lift))
    bent = torch.stack([add(a, gains * tilt * b) for a, b in zip(_slopes(rest, given), slopes, strict=True)])
    spread = _linear(rest, [form.error for form in given]).abs()
    return _Form(center, bent, add(spread, gains.abs() * (tilt * error + lift)))
