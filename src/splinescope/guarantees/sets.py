"""Sets of inputs that a guarantee is about: slices, boxes and polytopes, as slices of at most eight dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..support.checks import as_float64_array
from ..support.errors import InputError
from ..tiling.cells.hull import MOST_DIMENSIONS
from ..tiling.slice import Slice

ACCEPTED = "a Slice, or a pair (low, high) of the corners of a box, each a number or one per input"


def view_of(over: Any, input_shape: tuple[int, ...]) -> Slice | np.ndarray:
    """The set as a slice; a box whose sides are all zero is one point, as an array of the input's shape.

    Sides of zero length do not count as dimensions: those inputs are fixed.

    Raises:
        InputError: The set is empty, of another shape, or has more than eight free dimensions.
    """
    if isinstance(over, Slice):
        if over.input_shape != tuple(input_shape):
            raise InputError(
                f"over must lie in inputs of shape {tuple(input_shape)}, the slice has {over.input_shape}."
            )
        return over
    if not isinstance(over, (tuple, list)) or len(over) != 2:
        raise InputError(f"over must be {ACCEPTED}, got {type(over).__name__}.")
    low, high = (_ends(end, name, input_shape) for end, name in zip(over, ("low", "high"), strict=True))
    if (low > high).any():
        worst = int(np.argmax(low - high))
        raise InputError(f"over is empty: input {worst} would be from {low[worst]:g} to {high[worst]:g}.")
    free = np.flatnonzero(low < high)
    if len(free) > MOST_DIMENSIONS:
        raise InputError(
            f"over must have at most {MOST_DIMENSIONS} free inputs, got {len(free)}: exact tiles stop there. Fix some "
            "inputs (low == high) or give a Slice; alpha-beta-CROWN and Marabou verify in high dimensions."
        )
    if not len(free):
        return low.reshape(input_shape)
    return Slice.axes(low.reshape(input_shape), tuple(int(i) for i in free), low[free], high[free])


def polytope(normals: Any, offsets: Any, over: Any, input_shape: tuple[int, ...] | None = None) -> Slice:
    """The part of a set in which `normals @ x <= offsets`, as a slice: what `over` may be for any guarantee.

    Corners are those of the intersection of halfspaces, exact up to rounding (Qhull).

    Args:
        normals: `[m, D]`, one halfspace a row; x is the flattened input.
        offsets: `[m]`.
        over: The set that is cut: a `Slice`, or a pair (low, high) of the corners of a box.
        input_shape: Shape of one input; `(D,)` by default.

    Raises:
        InputError: Nothing with a volume is left.

    Example:
        >>> import splinescope as ss
        >>> triangle = ss.guarantees.polytope([[1.0, 1.0]], [1.0], (0.0, 1.0))
        >>> round(triangle.size, 12)
        0.5
    """
    rows = np.atleast_2d(as_float64_array(normals, "normals"))
    ends = np.atleast_1d(as_float64_array(offsets, "offsets"))
    shape = (rows.shape[1],) if input_shape is None else tuple(input_shape)
    if len(rows) != len(ends) or rows.shape[1] != int(np.prod(shape)):
        raise InputError(f"normals must have shape (m, {int(np.prod(shape))}) and offsets (m,), got {rows.shape} "
                         f"and {ends.shape}.")  # fmt: skip
    view = view_of(over, shape)
    if not isinstance(view, Slice):
        raise InputError("over must have an input that is free, got a single point.")
    basis = view.basis.reshape(view.dimension, -1)
    return _cut(view, rows @ basis.T, ends - rows @ view.origin.reshape(-1))


def _cut(view: Slice, normals: np.ndarray, offsets: np.ndarray) -> Slice:
    """The slice with its domain cut by `normals @ t <= offsets`."""
    if view.dimension == 1:
        low, high = float(view.domain.min()), float(view.domain.max())
        for normal, offset in zip(normals[:, 0], offsets, strict=True):
            if normal > 0:
                high = min(high, offset / normal)
            elif normal < 0:
                low = max(low, offset / normal)
            elif offset < 0:
                high = low
        if not low < high:
            raise _nothing()
        return Slice(view.origin, view.basis, np.array([low, high]))
    from scipy.optimize import linprog
    from scipy.spatial import ConvexHull, HalfspaceIntersection

    around = outline(view)
    rows = np.concatenate([around[0], normals])
    ends = np.concatenate([around[1], offsets])
    length = np.linalg.norm(rows, axis=1)
    if (ends[length == 0] < 0).any():
        raise _nothing()
    rows, ends, length = rows[length > 0], ends[length > 0], length[length > 0]
    d = view.dimension
    found = linprog(
        np.append(np.zeros(d), -1.0), np.column_stack([rows, length]), ends, bounds=[(None, None)] * d + [(0, None)]
    )
    extent = float(np.ptp(view.domain, axis=0).max())
    if not found.success or found.x is None or found.x[-1] <= 1e-10 * extent:
        raise _nothing()
    corners = HalfspaceIntersection(np.column_stack([rows, -ends]), found.x[:-1]).intersections
    corners = corners[np.unique(np.round(corners / extent, 12), axis=0, return_index=True)[1]]
    return Slice(view.origin, view.basis, corners[ConvexHull(corners).vertices])


def outline(view: Slice) -> tuple[np.ndarray, np.ndarray]:
    """A slice's domain as `normals @ t <= offsets`."""
    if view.dimension == 1:
        return np.array([[-1.0], [1.0]]), np.array([-view.domain.min(), view.domain.max()])
    if view.dimension > 2:
        return view.hull.normals, view.hull.offsets
    edges = np.roll(view.domain, -1, 0) - view.domain
    normals = np.stack([edges[:, 1], -edges[:, 0]], 1)
    return normals, (normals * view.domain).sum(1)


def _nothing() -> InputError:
    return InputError("the polytope must have a volume: no ball fits between its halfspaces.")


def _ends(value: Any, name: str, input_shape: tuple[int, ...]) -> np.ndarray:
    ends = as_float64_array(value, name)
    size = int(np.prod(input_shape))
    if ends.ndim and ends.size != size:
        raise InputError(f"{name} must be one number or one per input {tuple(input_shape)}, got shape {ends.shape}.")
    return np.broadcast_to(ends.reshape(-1), (size,)).copy() if ends.ndim else np.full(size, float(ends))
