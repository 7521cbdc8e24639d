"""The decision about one part of a set: a search through its tiles, with attacks in between."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from ..network.program import Program
from ..support.checks import check_positive, check_whole
from ..support.progress import Progress
from ..tiling.engine.parts import unpacked_network
from ..tiling.engine.time_limit import Clock
from ..tiling.slice import Slice
from .forms import Formed, with_forms
from .models import Near
from .property import Clause
from .rounding import error_at
from .search import Search
from .sets import Part
from .verdict import Collected
from .witness import crossing, descend, samples, values_at

BEFORE_ATTACK = 4000  # tiles that are looked at before time is spent on gradients: most properties are decided by then
_MOST_SAMPLES = 1 << 18


Tie = tuple[float, float, tuple[float, float]]
"""A least value, what it may be off, which do not tell its sign, and the two numbers whose difference it is."""


@dataclass
class Decided:
    """What is known about one part."""

    found: tuple[int, np.ndarray, np.ndarray] | None = None  # a violation: clause, input, values of all clauses there
    tie: Tie | None = None
    stopped: str | None = None  # which limit ended the search, if one did; "" after `until` tiles
    tiles: int = 0
    cells: int = 0
    rounding: float = 0.0
    lowest: float = np.inf  # the least value of a clause that was seen
    where: np.ndarray | None = None  # the input where that is
    collected: Collected | None = None  # with `complete`, the unsafe polytopes


def decide(
    program: Program, part: Part, clock: Clock, *, complete: bool = False, max_tiles: int | None = None,
    until: int | None = None, report: Progress | None = None, close: Near | None = None,
) -> Decided:  # fmt: skip
    """Whether a clause of a part can be met, by tiles of `program`; with `close` it is near a smooth one."""
    formed = with_forms(program, part.clauses, decided=complete)
    real = None if close is None else with_forms(close.real, part.clauses)
    if not isinstance(part.view, Slice):
        values, errors = (a[0] for a in _values_with_errors(formed, part.view[None], real))
        low = int(np.argmin(values))
        at_point = Decided(rounding=float(errors.max()), lowest=float(values[low]), where=part.view)
        met = part.met(values + errors)
        if len(met):
            at_point.found = (int(met[np.argmin(values[met])]), part.view, values)
        elif (values - errors <= 0).any():
            at_point.tie = (float(values[low]), float(errors[low]), sides_of(program, part.clauses[low], part.view))
        return at_point
    strict = np.array([clause.strict.any() for clause in part.clauses])
    collected = Collected(part.view, np.zeros(len(strict)), strict, part.whole) if complete else None
    search = Search(
        formed, part.view, clock, max_tiles, exact=False, stop_below=not complete,
        take=None if collected is None else collected.take,
    )  # fmt: skip
    if collected is not None:
        collected.error = search.error
    if close is not None:
        search.error = search.error + close.bound * np.array([np.abs(c.outputs).sum(1).max() for c in part.clauses])
    points = samples(part.view)
    search.see(points, values_at(formed.program, part.view, points))
    found = _violation(part, formed, search, real) or (
        crossing(program, part, formed, points) if real is None else None
    )
    if found is None or complete:
        rounds, finished = 0, False
        while not finished:
            pause = None if complete else BEFORE_ATTACK * 4**rounds
            finished = search.run(report, pause if until is None else min(pause or until, until))
            if not finished and not complete:
                attack(formed.program, part.view, search, min(4096 * 4**rounds, _MOST_SAMPLES), seed=1 + rounds)
                found = _violation(part, formed, search, real)
            if found is not None and not complete:
                break
            if not finished and until is not None and search.tiles >= until:
                search.stopped = ""
                break
            rounds += 1
    found = found or _violation(part, formed, search, real)
    low = int(np.argmin(search.lowest))
    if found is None and real is None and search.stopped is None:
        nearer = [search.where[low] + 10.0**-k * (points - search.where[low]) for k in range(1, 6)]
        found = crossing(program, part, formed, np.concatenate(nearer))
    decided = Decided(
        found, None, search.stopped, search.tiles, search.cells, float(search.error.max()), float(search.lowest[low]),
        part.view.inputs(search.where[low : low + 1])[0], collected,
    )  # fmt: skip
    if found is None and (search.lowest - search.error <= 0).any():
        assert decided.where is not None
        sides = sides_of(program, part.clauses[low], decided.where)
        decided.tie = (float(search.lowest[low]), float(search.error[low]), sides)
    if found is not None and not complete:
        decided.stopped = None
    return decided


def decide_in_process(
    model: np.ndarray, part: Part, complete: bool, max_tiles: int | None, deadline: float | None
) -> Decided:
    """`decide` of a network as bytes, in a process of its own."""
    assert isinstance(part.view, Slice)
    program = unpacked_network(model, part.view).program()
    clock = Clock(None if deadline is None else max(deadline - time.time(), 1e-3))
    return decide(program, part, clock, complete=complete, max_tiles=max_tiles)


@dataclass(frozen=True)
class Least:
    """The least value of every clause, or only of all of them together."""

    values: np.ndarray  # [clauses]
    where: np.ndarray  # [clauses, *input_shape]
    errors: np.ndarray  # [clauses] bounds of their rounding
    tiles: int = 1
    stopped: str | None = None  # which limit came before


def checked_limits(max_tiles: int | None, time_limit: float | None) -> Clock:
    """The clock of a search, once its limits are found to be numbers."""
    if max_tiles is not None:
        check_whole(max_tiles, "max_tiles")
    return Clock(None if time_limit is None else check_positive(time_limit, "time_limit"))


def least_values(
    formed: Formed, view: Slice | np.ndarray, clock: Clock, max_tiles: int | None, *, bar: float = np.inf,
    each: bool = False, report: Progress | None = None,
) -> Least:  # fmt: skip
    """The least value of any (or of each) clause on a slice or at a point, as far as it is below `bar`."""
    if not isinstance(view, Slice):
        values, errors = error_at(formed.program, torch.from_numpy(view[None]))
        return Least(values[0], np.broadcast_to(view, (len(values[0]), *view.shape)), errors[0])
    search = Search(formed, view, clock, max_tiles, each=each, stop_below=False, bar=bar)
    attack(formed.program, view, search, 1024)
    search.run(report)
    return Least(search.lowest, view.inputs(search.where), search.error, search.tiles, search.stopped)


def attack(program: Program, view: Slice, search: Search, count: int, seed: int = 0) -> None:
    """Descend from samples, and from tiles that looked promising; what is found is seen by the search."""
    points = np.concatenate([samples(view, count, seed), *(p[None] for p in search.promising)])
    values = values_at(program, view, points)
    search.see(points, values)
    nearer = descend(program, view, points, values, starts=min(max(48, count // 32), 1024))
    search.see(nearer, values_at(program, view, nearer))


def _values_with_errors(formed: Formed, x: np.ndarray, real: Formed | None) -> tuple[np.ndarray, np.ndarray]:
    """Values of the clauses at inputs and bounds of their rounding; of a smooth network, an estimate of it."""
    if real is None:
        return error_at(formed.program, torch.from_numpy(x))
    with torch.no_grad():
        values = real.program.forward(torch.from_numpy(x)).reshape(len(x), -1).numpy()
    return values, 1e-10 * (1.0 + np.abs(values))


def sides_of(program: Program, clause: Clause, x: np.ndarray) -> tuple[float, float]:
    """Of the row of a clause that is farthest from being met at an input: terms above, and what they are compared with.

    For `Y_1 - Y_0 <= 0` these are Y_1 and Y_0, for `2 Y_0 <= 3` they are 2 Y_0 and 3.
    """
    with torch.no_grad():
        y = program.forward(torch.from_numpy(x[None])).reshape(-1).numpy()
    terms = np.concatenate([clause.outputs * y, clause.inputs * x.reshape(-1)], 1)
    above = np.concatenate([clause.outputs, clause.inputs], 1) > 0
    rest, alone = np.where(above, 0, terms).sum(1), ~above.any(1)
    left = np.where(alone, -clause.ends, np.where(above, terms, 0).sum(1))
    right = np.where(alone, 0, clause.ends) - rest
    row = int(np.argmax(left - right))
    return float(left[row]) + 0.0, float(right[row]) + 0.0  # no -0


def _violation(
    part: Part, formed: Formed, search: Search, real: Formed | None
) -> tuple[int, np.ndarray, np.ndarray] | None:
    """The lowest corner found, if it surely violates the property; better still where float32 puts it."""
    view = part.view
    assert isinstance(view, Slice)
    corners = view.inputs(view.domain)
    low, high = corners.min(0), corners.max(0)
    straight = bool((np.count_nonzero(view.basis.reshape(view.dimension, -1), axis=1) == 1).all())
    for clause in np.argsort(search.lowest):
        if search.lowest[clause] > (0 if real is None else search.error[clause]):
            break
        exact = np.clip(view.inputs(search.where[clause : clause + 1]), low, high)  # rounding may have left the set
        single = exact.astype(np.float32)
        single = np.where(single < low, np.nextafter(single, np.float32(np.inf)), single)
        single = np.where(single > high, np.nextafter(single, np.float32(-np.inf)), single).astype(np.float64)
        inside = straight and bool(((single >= low) & (single <= high)).all())
        for x in [single] * inside + [exact]:
            values, errors = (a[0] for a in _values_with_errors(formed, x, real))
            met = part.met(values + errors)
            if len(met):
                return int(met[np.argmin(values[met])]), x[0], values
    return None
