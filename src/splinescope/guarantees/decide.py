"""The decision about one part of a set: a search through its tiles, with attacks in between."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..network.program import Program
from ..support.progress import Progress
from ..tiling.engine.limits import Clock
from ..tiling.engine.parts import unpacked_network
from ..tiling.slice import Slice
from .forms import Formed, with_forms
from .models import Near
from .rounding import error_at
from .search import Search
from .sets import Part
from .verdict import Collected
from .witness import descend, samples, values_at

BEFORE_ATTACK = 4000  # tiles that are looked at before time is spent on gradients: most properties are decided by then
_MOST_SAMPLES = 1 << 18


@dataclass
class Decided:
    """What is known about one part.

    Attributes:
        found: (clause, input, values of all clauses there) of a violation.
        tie: (least value, what it may be off) where these do not tell.
        stopped: Which limit ended the search, if one did; "" after `until` tiles.
        lowest, where: The least value of a clause that was seen, and the input.
        collected: With `complete`, the unsafe polytopes.
    """

    found: tuple[int, np.ndarray, np.ndarray] | None = None
    tie: tuple[float, float] | None = None
    stopped: str | None = None
    tiles: int = 0
    cells: int = 0
    rounding: float = 0.0
    lowest: float = np.inf
    where: np.ndarray | None = None
    collected: Collected | None = None


def decide(
    program: Program, part: Part, clock: Clock, *, complete: bool = False, max_tiles: int | None = None,
    until: int | None = None, report: Progress | None = None, close: Near | None = None,
) -> Decided:  # fmt: skip
    """Whether a clause of a part can be met, by tiles of `program`.

    With `close`, the program is near a smooth one: its bound is added to the rounding, and violations are those of the
    smooth one.
    """
    formed = with_forms(program, part.clauses, decided=complete)
    real = None if close is None else with_forms(close.real, part.clauses)
    if not isinstance(part.view, Slice):
        return _at_point(part, formed, part.view, real)
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
    points, values = samples(formed.program, part.view)
    search.see(points, values)
    found = _violation(part, formed, search, real)
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
    decided = Decided(
        found, None, search.stopped, search.tiles, search.cells, float(search.error.max()), float(search.lowest[low]),
        part.view.inputs(search.where[low : low + 1])[0], collected,
    )  # fmt: skip
    if found is None and (search.lowest - search.error <= 0).any():
        decided.tie = (float(search.lowest[low]), float(search.error[low]))
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


def least_value(
    program: Program, parts: Sequence[Part], clock: Clock, max_tiles: int | None
) -> tuple[float, np.ndarray | None, str | None]:
    """The least value of any clause over all parts, the input, and a limit that came before."""
    lowest, where, tiles = np.inf, None, 0
    for part in parts:
        formed = with_forms(program, part.clauses)
        if not isinstance(part.view, Slice):
            values, _ = error_at(formed.program, torch.from_numpy(part.view[None]))
            if values.min() < lowest:
                lowest, where = float(values.min()), part.view
            continue
        left = None if max_tiles is None else max(max_tiles - tiles, 1)
        search = Search(formed, part.view, clock, left, exact=True, stop_below=False)
        attack(formed.program, part.view, search, 1024)
        search.bar = lowest
        search.run(None)
        tiles += search.tiles
        low = int(np.argmin(search.lowest))
        if search.lowest[low] < lowest:
            lowest, where = float(search.lowest[low]), part.view.inputs(search.where[low : low + 1])[0]
        if search.stopped is not None:
            return lowest, where, search.stopped
    return lowest, where, None


def attack(program: Program, view: Slice, search: Search, count: int, seed: int = 0) -> None:
    """Descend from samples, and from tiles that looked promising; what is found is seen by the search."""
    points = np.concatenate([samples(program, view, count, seed)[0], *(p[None] for p in search.promising)])
    values = values_at(program, view, points)
    search.see(points, values)
    nearer = descend(program, view, points, values, starts=min(max(48, count // 32), 1024))
    search.see(nearer, values_at(program, view, nearer))


def _at_point(part: Part, formed: Formed, x: np.ndarray, real: Formed | None) -> Decided:
    values, errors = (a[0] for a in _values_with_errors(formed, x[None], real))
    low = int(np.argmin(values))
    decided = Decided(rounding=float(errors.max()), lowest=float(values[low]), where=x)
    met = part.met(values + errors)
    if len(met):
        decided.found = (int(met[np.argmin(values[met])]), x, values)
    elif (values - errors <= 0).any():
        decided.tie = (float(values[low]), float(errors[low]))
    return decided


def _values_with_errors(formed: Formed, x: np.ndarray, real: Formed | None) -> tuple[np.ndarray, np.ndarray]:
    """Values of the clauses at inputs and bounds of their rounding; of a smooth network, an estimate of it."""
    if real is None:
        return error_at(formed.program, torch.from_numpy(x))
    with torch.no_grad():
        values = real.program.forward(torch.from_numpy(x)).reshape(len(x), -1).numpy()
    return values, 1e-10 * (1.0 + np.abs(values))


def _violation(
    part: Part, formed: Formed, search: Search, real: Formed | None
) -> tuple[int, np.ndarray, np.ndarray] | None:
    """The lowest corner found, if it surely violates the property; better still where float32 puts it."""
    assert isinstance(part.view, Slice)
    for clause in np.argsort(search.lowest):
        if search.lowest[clause] > (0 if real is None else search.error[clause]):
            break
        exact = _inside(part.view, part.view.inputs(search.where[clause : clause + 1]))
        single = exact.astype(np.float32).astype(np.float64)
        for x in [single] * _contains(part.view, single) + [exact]:
            values, errors = (a[0] for a in _values_with_errors(formed, x, real))
            met = part.met(values + errors)
            if len(met):
                return int(met[np.argmin(values[met])]), x[0], values
    return None


def _inside(view: Slice, x: np.ndarray) -> np.ndarray:
    """Inputs moved by rounding at most, back into the box that the slice's corners span."""
    corners = view.inputs(view.domain)
    return np.clip(x, corners.min(0), corners.max(0))


def _contains(view: Slice, x: np.ndarray) -> bool:
    """Whether inputs lie in the box that the slice's corners span; only asked of boxes along axes."""
    corners = view.inputs(view.domain)
    straight = bool((np.count_nonzero(view.basis.reshape(view.dimension, -1), axis=1) == 1).all())
    return straight and bool(((x >= corners.min(0)) & (x <= corners.max(0))).all())
