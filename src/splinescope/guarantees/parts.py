"""The sets that a property's clauses are about: one slice, or one per box of its conditions on inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from ..support.errors import InputError
from ..tiling.cells.tiles import OUTSIDE
from ..tiling.engine.splits import split
from ..tiling.slice import Slice
from .property import Clause
from .sets import view_of
from .witness import is_box


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
    """A part with a slice, in about so many smaller ones: boxes halved along their axes in turn, the longest first."""
    assert isinstance(part.view, Slice)
    view = part.view
    if not is_box(view):
        pieces = [piece.corners for piece in split(view.domain, count, OUTSIDE)]
        return [replace(part, view=Slice(view.origin, view.basis, corners)) for corners in pieces]
    boxes = [(view.domain.min(0), view.domain.max(0))]
    turns = np.argsort(-np.ptp(view.domain, axis=0), kind="stable")
    for i in range(int(np.ceil(np.log2(max(count, 2))))):
        axis = turns[i % len(turns)]
        boxes = [half for low, high in boxes for half in _halves(low, high, axis)]
    at_low = view.domain == view.domain.min(0)
    return [replace(part, view=Slice(view.origin, view.basis, np.where(at_low, low, high))) for low, high in boxes]


def _halves(low: np.ndarray, high: np.ndarray, axis: int) -> list[tuple[np.ndarray, np.ndarray]]:
    middle_low, middle_high = low.copy(), high.copy()
    middle_low[axis] = middle_high[axis] = (low[axis] + high[axis]) / 2
    return [(low, middle_high), (middle_low, high)]


def parts_of(clauses: Sequence[Clause], input_shape: tuple[int, ...], over: Any, apart: bool = False) -> list[Part]:
    """The sets that clauses are about, each with its clauses; those that nothing can meet are left out.

    If they must be `apart` and some overlap, they are one set, the box about them all: volumes count once.
    """
    size = int(np.prod(input_shape))
    view = None if over is None else view_of(over, input_shape)
    whole = None if over is None or isinstance(over, Slice) else _box_of(view)
    groups: dict[bytes, tuple[np.ndarray, np.ndarray, list[Clause], list[int]]] = {}
    on_view: list[tuple[Clause, int]] = []
    for number, clause in enumerate(clauses):
        constant = np.asarray(~clause.outputs.any(1) & ~clause.inputs.any(1))
        if (np.where(clause.strict, clause.ends <= 0, clause.ends < 0) & constant).any():
            continue  # asks for 1 <= 0
        low, high, rest = clause.part(np.flatnonzero(~constant)).box()
        if isinstance(over, Slice):
            on_view.append((_never_empty(clause.part(np.flatnonzero(~constant))), number))
            continue
        if whole is not None:
            low, high = np.maximum(low, whole[0]), np.minimum(high, whole[1])
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            open_ = int(np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))[0])
            raise InputError(f"input {open_} of {size} must have a lower and an upper bound: give over=(low, high).")
        if rest.misses(low, high):
            continue  # no input meets it
        key = low.tobytes() + high.tobytes()
        group = groups.setdefault(key, (low, high, [], []))
        group[2].append(_never_empty(rest))
        group[3].append(number)
    if on_view:
        assert view is not None
        return [Part(view, tuple(c for c, _ in on_view), tuple(n for _, n in on_view))]
    shape = tuple(input_shape)
    if apart and _overlap([(low, high) for low, high, _, _ in groups.values()]):
        least = np.min([group[0] for group in groups.values()], axis=0)
        most = np.max([group[1] for group in groups.values()], axis=0)
        boxed = [_never_empty(clauses[n]) for g in groups.values() for n in g[3]]
        numbers = tuple(n for g in groups.values() for n in g[3])
        view = view_of((least.reshape(shape), most.reshape(shape)), shape)
        free = least < most
        boxes = [(low[free], high[free]) for low, high, _, _ in groups.values()]
        return [Part(view, tuple(boxed), numbers, _union(boxes))]
    return [
        Part(view_of((low.reshape(shape), high.reshape(shape)), shape), tuple(found), tuple(numbers))
        for low, high, found, numbers in groups.values()
    ]


def _overlap(boxes: Sequence[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Whether the insides of two boxes meet."""
    return any(
        bool((np.maximum(a[0], b[0]) <= np.minimum(a[1], b[1])).all())
        and bool((np.maximum(a[0], b[0]) < np.minimum(a[1], b[1]))[(a[0] < a[1]) | (b[0] < b[1])].all())
        for a, b in combinations(boxes, 2)
    )


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


def _box_of(view: Slice | np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    assert view is not None
    corners = view.inputs(view.domain).reshape(len(view.domain), -1) if isinstance(view, Slice) else view.reshape(1, -1)
    return corners.min(0), corners.max(0)


def _never_empty(clause: Clause) -> Clause:
    """A clause with at least one row: one without constraints is met everywhere."""
    if len(clause):
        return clause
    shapes = (1, clause.outputs.shape[1]), (1, clause.inputs.shape[1])
    return Clause(np.zeros(shapes[0]), np.zeros(shapes[1]), np.ones(1), np.zeros(1, bool))
