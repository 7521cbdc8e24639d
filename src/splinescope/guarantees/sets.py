"""Sets of inputs that guarantees are about: slices, boxes, polytopes, and those that a property's clauses say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from ..support.checks import as_float64_array
from ..support.errors import InputError
from ..tiling.cells.hull import MOST_DIMENSIONS
from ..tiling.cells.tiles import OUTSIDE
from ..tiling.engine.splits import split
from ..tiling.slice import Slice
from .property import Clause


def view_of(over: Any, input_shape: tuple[int, ...]) -> Slice | np.ndarray:
    """The set as a slice of the inputs that are free; without any, one point as an array of the input's shape."""
    if isinstance(over, Slice):
        if over.input_shape != tuple(input_shape):
            raise InputError(f"over must lie in inputs of shape {tuple(input_shape)}, got {over.input_shape}.")
        return over
    if not isinstance(over, (tuple, list)) or len(over) != 2:
        raise InputError(f"over must be a Slice, or a pair (low, high) of corners of a box, got {type(over).__name__}.")
    low, high = (_ends(end, name, input_shape) for end, name in zip(over, ("low", "high"), strict=True))
    if (low > high).any():
        worst = int(np.argmax(low - high))
        raise InputError(f"over is empty: input {worst} would be from {low[worst]:g} to {high[worst]:g}.")
    free = np.flatnonzero(low < high)
    if len(free) > MOST_DIMENSIONS:
        raise InputError(
            f"over must have at most {MOST_DIMENSIONS} free inputs, got {len(free)}: fix some (low == high), give a "
            "Slice, or use alpha-beta-CROWN or Marabou."
        )
    if not len(free):
        return low.reshape(input_shape)
    return Slice.axes(low.reshape(input_shape), tuple(int(i) for i in free), low[free], high[free])


def polytope(normals: Any, offsets: Any, over: Any, input_shape: tuple[int, ...] | None = None) -> Slice:
    """The part of a set in which `normals @ x <= offsets`, as a slice: what `over` may be for any guarantee.

    Its corners are exact up to rounding (Qhull).

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
    nothing = InputError("the polytope must have a volume: no ball fits between its halfspaces.")
    if view.dimension == 1:
        up, down = normals[:, 0] > 0, normals[:, 0] < 0
        low = np.max(offsets[down] / normals[down, 0], initial=view.domain.min())
        high = np.min(offsets[up] / normals[up, 0], initial=view.domain.max())
        if not low < high or (offsets[~up & ~down] < 0).any():
            raise nothing
        return Slice(view.origin, view.basis, np.array([low, high]))
    from scipy.optimize import linprog
    from scipy.spatial import ConvexHull, HalfspaceIntersection

    around = outline(view)
    rows = np.concatenate([around[0], normals])
    ends = np.concatenate([around[1], offsets])
    length = np.linalg.norm(rows, axis=1)
    if (ends[length == 0] < 0).any():
        raise nothing
    rows, ends, length = rows[length > 0], ends[length > 0], length[length > 0]
    d = view.dimension
    found = linprog(
        np.append(np.zeros(d), -1.0), np.column_stack([rows, length]), ends, bounds=[(None, None)] * d + [(0, None)]
    )
    extent = float(np.ptp(view.domain, axis=0).max())
    if not found.success or found.x is None or found.x[-1] <= 1e-10 * extent:
        raise nothing
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


def is_box(view: Slice) -> bool:
    """Whether a slice's domain is a box along its own coordinates."""
    low, high = view.domain.min(0), view.domain.max(0)
    return len(view.domain) == 2**view.dimension and bool(((view.domain == low) | (view.domain == high)).all())


def _ends(value: Any, name: str, input_shape: tuple[int, ...]) -> np.ndarray:
    ends = as_float64_array(value, name)
    size = int(np.prod(input_shape))
    if ends.ndim and ends.size != size:
        raise InputError(f"{name} must be one number or one per input {tuple(input_shape)}, got shape {ends.shape}.")
    return np.broadcast_to(ends.reshape(-1), size).copy()


@dataclass(frozen=True)
class Part:
    """One connected set of inputs with the clauses that are about it."""

    view: Slice | np.ndarray
    clauses: tuple[Clause, ...]
    numbers: tuple[int, ...]
    whole: float | None = None  # volume of the set, where the view is a box about several that overlap

    def met(self, highs: np.ndarray) -> np.ndarray:
        """The clauses that are surely met, by upper ends `[clauses]` of their values: equality is safe if strict."""
        strict = np.array([clause.strict.any() for clause in self.clauses])
        return np.flatnonzero(np.where(strict, highs < 0, highs <= 0))


def shared_out(part: Part, count: int) -> list[Part]:
    """A part with a slice, in about so many smaller ones."""
    view = part.view
    assert isinstance(view, Slice)
    pieces = split(view.domain, count, OUTSIDE)
    return [replace(part, view=Slice(view.origin, view.basis, piece.corners)) for piece in pieces]


def parts_of(clauses: Sequence[Clause], input_shape: tuple[int, ...], over: Any, apart: bool = False) -> list[Part]:
    """The sets that clauses are about, each with its clauses; those that nothing can meet are left out.

    If they must be `apart` and some overlap, they are one set, the box about them all: volumes count once.
    """
    size, shape = int(np.prod(input_shape)), tuple(input_shape)
    view = None if over is None else view_of(over, shape)
    groups: dict[bytes, tuple[np.ndarray, np.ndarray, list[Clause], list[int]]] = {}
    on_view: list[tuple[Clause, int]] = []
    for number, clause in enumerate(clauses):
        constant = np.asarray(~clause.outputs.any(1) & ~clause.inputs.any(1))
        if (np.where(clause.strict, clause.ends <= 0, clause.ends < 0) & constant).any():
            continue  # asks for 1 <= 0
        moving = clause.part(~constant)
        if isinstance(over, Slice):
            on_view.append((_never_empty(moving), number))
            continue
        low, high, rest = moving.box()
        if over is not None:
            low, high = np.maximum(low, _ends(over[0], "low", shape)), np.minimum(high, _ends(over[1], "high", shape))
        open_ = np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high))
        if len(open_):
            raise InputError(f"input {open_[0]} of {size} must have a lower and an upper bound: give over=(low, high).")
        if rest.misses(low, high):
            continue  # no input meets it
        group = groups.setdefault(low.tobytes() + high.tobytes(), (low, high, [], []))
        group[2].append(_never_empty(rest))
        group[3].append(number)
    if on_view:
        assert view is not None
        return [Part(view, tuple(c for c, _ in on_view), tuple(n for _, n in on_view))]
    if apart and any(  # the insides of two boxes meet
        bool((np.maximum(a[0], b[0]) <= np.minimum(a[1], b[1])).all())
        and bool((np.maximum(a[0], b[0]) < np.minimum(a[1], b[1]))[(a[0] < a[1]) | (b[0] < b[1])].all())
        for a, b in combinations(groups.values(), 2)
    ):
        least = np.min([group[0] for group in groups.values()], axis=0)
        most = np.max([group[1] for group in groups.values()], axis=0)
        numbers = tuple(n for group in groups.values() for n in group[3])
        boxed = tuple(_never_empty(clauses[n]) for n in numbers)
        free = least < most
        boxes = [(low[free], high[free]) for low, high, _, _ in groups.values()]
        return [Part(view_of((least, most), shape), boxed, numbers, _union(boxes))]
    return [
        Part(view_of((low, high), shape), tuple(found), tuple(numbers)) for low, high, found, numbers in groups.values()
    ]


def _union(boxes: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Volume of a union of boxes: in each strip between two of their ends along the first axis, that of those in it."""
    if not len(boxes[0][0]):
        return 1.0
    ends = np.unique([end[0] for box in boxes for end in box])
    total, known = 0.0, dict[tuple[int, ...], float]()
    for a, b in pairwise(ends):
        inside = tuple(i for i, (low, high) in enumerate(boxes) if low[0] <= a and high[0] >= b)
        if inside and inside not in known:
            known[inside] = _union([(boxes[i][0][1:], boxes[i][1][1:]) for i in inside])
        total += float(b - a) * known.get(inside, 0.0)
    return total


def _never_empty(clause: Clause) -> Clause:
    """A clause with at least one row: one without constraints is met everywhere."""
    if len(clause):
        return clause
    outputs, inputs = (np.zeros((1, rows.shape[1])) for rows in (clause.outputs, clause.inputs))
    return Clause(outputs, inputs, np.ones(1), np.zeros(1, bool))
