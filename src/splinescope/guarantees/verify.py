"""`verify`: whether a property holds for all inputs of a set, with margin, witness and the whole unsafe set."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..network import SplineNetwork, load, trace
from ..network.program import Program, Smooth
from ..support.checks import check_module, check_positive, check_whole
from ..support.display import Certainty, Result
from ..support.errors import InputError, UnsupportedModelError
from ..support.progress import Progress, check_progress, telling
from ..tiling.engine.limits import Clock
from ..tiling.slice import Slice
from .forms import Formed, with_forms
from .property import Clause, Property
from .rounding import error_at
from .search import Search
from .sets import view_of
from .unsafe import Collected, UnsafeSet
from .vnnlib import read_vnnlib
from .witness import Witness, descend, run_own, samples, values_at

_BEFORE_ATTACK = 4000  # tiles that are looked at before time is spent on gradients: most properties are decided by then


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(Result):
    """What `verify` found.

    Attributes:
        holds: True, False, or None where a limit ended the search or rounding leaves it open (`reason` says which).
        witness: If it does not hold, an input that shows it.
        rigorous: Whether rounding cannot have changed the verdict: what decides exceeds `rounding`.
        rounding: A proven bound of the rounding of all values that decide, in units of the constraints.
        margin_bound: If it holds, a proven number that the margin exceeds; with a witness, the margin there.
        reason: In words, how the verdict came about.
        tiles: How many tiles were looked at, at all folds together; `cells` of them were finished.
        seconds: Wall time of the search.
        unsafe: With `complete=True`, the unsafe set.
    """

    holds: bool | None
    witness: Witness | None
    rigorous: bool
    rounding: float
    margin_bound: float
    reason: str
    tiles: int
    cells: int
    seconds: float
    unsafe: UnsafeSet | None = None
    _exactly: Callable[[], tuple[float, np.ndarray | None]] | None = field(default=None, repr=False)

    @property
    def certainty(self) -> Certainty:
        return "exact" if self.holds is not None else "bound"

    @property
    def margin(self) -> float:
        """How far from a violation: the minimum over the set of the largest excess of a clause's constraints.

        Positive where the property holds. Exact up to `rounding`; found when first asked for, by a search of its own
        (some ten times the cost of the verdict). Of a violated property it is the margin at the witness, unless
        `complete` was asked for: then it is the minimum.
        """
        return self._nearest[0]

    @property
    def nearest(self) -> np.ndarray | None:
        """The input at which the margin is attained; None if no input meets the property's conditions on inputs."""
        return self._nearest[1]

    @cached_property
    def _nearest(self) -> tuple[float, np.ndarray | None]:
        if self._exactly is not None:
            return self._exactly()
        return self.margin_bound, None if self.witness is None else self.witness.x

    def _shown(self) -> list[tuple[str, Any]]:
        shown: list[tuple[str, Any]] = [("holds", self.holds), ("rigorous", self.rigorous), ("tiles", self.tiles)]
        return shown + ([("unsafe", self.unsafe.share)] if self.unsafe is not None else [])

    def summary(self) -> str:
        """The verdict in words."""
        lines = [self.reason]
        if self.witness is not None:
            lines.append(f"Witness: {np.array2string(self.witness.x.reshape(-1), precision=6, threshold=12)}.")
        lines.append(f"{self.tiles:,} tiles looked at, {self.cells:,} finished, {self.seconds:.2f} s.")
        return "\n".join(lines)


@dataclass(frozen=True)
class Part:
    """One connected set of inputs with the clauses that are about it."""

    view: Slice | np.ndarray
    clauses: tuple[Clause, ...]
    numbers: tuple[int, ...]

    def met(self, highs: np.ndarray) -> np.ndarray:
        """The clauses that are surely met, by upper ends `[clauses]` of their values: equality is safe if strict."""
        strict = np.array([clause.strict.any() for clause in self.clauses])
        return np.flatnonzero(np.where(strict, highs < 0, highs <= 0))


def verify(
    model: nn.Module | SplineNetwork | str | os.PathLike[str],
    property: Property | str | os.PathLike[str],
    over: Any = None,
    *,
    complete: bool = False,
    max_tiles: int | None = None,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
) -> Verdict:
    """Whether a property holds for every input of a set, decided by exact tiles.

    The set is cut into the tiles of the network, on each of which it is one affine map, so that corners decide. Tiles
    on which linear bounds already decide are dropped before the next fold. The answer is about real arithmetic on the
    network's weights; a proven bound of the rounding in float64 stands beside it (`Verdict.rounding`), and a verdict
    that hangs on less is no verdict but a tie (`holds` is None).

    Args:
        model: A torch module, the result of `trace` or `load`, or the path of an ONNX file.
        property: A `Property`, or the path of a VNN-LIB file.
        over: The set, where the property does not say it: a `Slice`, a pair (low, high) of the corners of a box, or
            the result of `guarantees.polytope`. At most eight inputs may be free.
        complete: Find the whole unsafe set, with its volume, instead of stopping at the first witness.
        max_tiles: Stop undecided after so many tiles.
        time_limit: Stop undecided after so many seconds.
        progress: As everywhere.

    Returns:
        The verdict; `bool(verdict.holds)`, `verdict.margin`, `verdict.witness`, `verdict.unsafe`.

    Raises:
        InputError: The set is empty, unbounded, or has more than eight free dimensions, or sizes do not fit.
        UnsupportedModelError: The model has no exact tiles.

    Cost: some 30 to 100 microseconds per tile looked at.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> verdict = ss.verify(net, ss.guarantees.Property.between(0, -50.0, 50.0), over=(-1.0, 1.0))
        >>> verdict.holds, verdict.rigorous
        (True, True)
    """
    check_progress(progress)
    if max_tiles is not None:
        check_whole(max_tiles, "max_tiles")
    clock = Clock(None if time_limit is None else check_positive(time_limit, "time_limit"))
    started = time.monotonic()
    asked = property if isinstance(property, Property) else read_vnnlib(property)
    network = as_network(model, over, asked)
    program = checked_program(network)
    inputs, outputs = int(np.prod(program.input_shape)), int(np.prod(program.output_shape))
    if asked.slope is not None:
        from .monotone import verify_slope

        return verify_slope(network, asked, over, max_tiles=max_tiles, time_limit=time_limit, progress=progress)
    parts = parts_of(asked.sized(inputs, outputs), program.input_shape, over, apart=complete)
    with telling(progress, "verifying") as report:
        run = _Run(model, program, parts, complete, max_tiles, clock, report)
        return run.verdict(started)


class _Run:
    """One call of `verify`, part by part."""

    def __init__(
        self, model: Any, program: Program, parts: Sequence[Part], complete: bool, max_tiles: int | None, clock: Clock,
        report: Progress,
    ) -> None:  # fmt: skip
        self._model, self._program, self._parts, self._complete = model, program, parts, complete
        self._max_tiles, self._clock, self._report = max_tiles, clock, report
        self._tiles = self._cells = 0
        self._rounding = 0.0
        self._lowest = np.inf
        self._where: np.ndarray | None = None
        self._collected: list[Collected] = []

    def verdict(self, started: float) -> Verdict:
        witness: Witness | None = None
        ties: list[tuple[float, float]] = []
        stopped: str | None = None
        for part in self._parts:
            found, tie, limit = self._decide(part)
            witness = witness or found
            ties += [] if tie is None else [tie]
            stopped = stopped or limit
            if (witness is not None and not self._complete) or stopped:
                break
        unsafe = UnsafeSet.joined(self._collected) if self._complete and not stopped else None
        seconds = time.monotonic() - started
        counts = (self._tiles, self._cells, seconds)
        if witness is not None:
            margin = (lambda: (self._lowest, self._where)) if unsafe is not None else None
            reason = f"Violated by {witness.excess:.6g}."
            return Verdict(False, witness, True, self._rounding, -witness.excess, reason, *counts, unsafe, margin)
        if stopped:
            return Verdict(None, None, False, self._rounding, -np.inf, f"Undecided: {stopped}.", *counts)
        if ties:
            value, error = min(ties)
            reason = (
                f"A tie: the least value of a clause is {value:.3g}, and the rounding of the values there is up to "
                f"{error:.3g}."
            )
            return Verdict(None, None, False, max(self._rounding, error), value, reason, *counts, unsafe)
        if not self._parts:
            reason = "Holds: no input meets the property's conditions on inputs."
            return Verdict(True, None, True, 0.0, np.inf, reason, *counts, unsafe, lambda: (np.inf, None))
        reason = f"Holds for all inputs of the set, by more than the rounding, {self._rounding:.3g}."
        return Verdict(True, None, True, self._rounding, 0.0, reason, *counts, unsafe, self._exact_margin)

    def _decide(self, part: Part) -> tuple[Witness | None, tuple[float, float] | None, str | None]:
        """A witness, a tie (value, rounding) or a limit, of one part; three times None if it holds there."""
        formed = with_forms(self._program, part.clauses, decided=self._complete)
        if not isinstance(part.view, Slice):
            return self._at_point(part, formed, part.view)
        collected = Collected(part.view, formed) if self._complete else None
        search = Search(
            formed, part.view, self._clock, self._left(), exact=False, stop_below=not self._complete,
            take=None if collected is None else collected.take,
        )  # fmt: skip
        points, values = samples(formed.program, part.view)
        search.see(points, values)
        self._rounding = max(self._rounding, float(search.error.max()))
        witness = self._witness(part, formed, search)
        if witness is None or self._complete:
            rounds = 0
            while not search.run(self._report, None if self._complete else _BEFORE_ATTACK * 4**rounds):
                attack(formed.program, part.view, search, min(4096 * 4**rounds, 1 << 18), seed=1 + rounds)
                witness = self._witness(part, formed, search)
                if witness is not None:
                    break
                rounds += 1
        self._tiles += search.tiles
        self._cells += search.cells
        witness = witness or self._witness(part, formed, search)
        low = int(np.argmin(search.lowest))
        if search.lowest[low] < self._lowest:
            self._lowest, self._where = float(search.lowest[low]), part.view.inputs(search.where[low : low + 1])[0]
        if collected is not None:
            self._collected.append(collected)
        if witness is not None:
            return witness, None, search.stopped if self._complete else None
        open_ = search.lowest - search.error <= 0
        tie = (float(search.lowest[low]), float(search.error[low])) if open_.any() else None
        return None, tie, search.stopped

    def _left(self) -> int | None:
        return None if self._max_tiles is None else max(self._max_tiles - self._tiles, 1)

    def _at_point(
        self, part: Part, formed: Formed, x: np.ndarray
    ) -> tuple[Witness | None, tuple[float, float] | None, None]:
        values, errors = (a[0] for a in error_at(formed.program, torch.from_numpy(x[None])))
        self._rounding = max(self._rounding, float(errors.max()))
        low = int(np.argmin(values))
        if values[low] < self._lowest:
            self._lowest, self._where = float(values[low]), x
        met = part.met(values + errors)
        if len(met):
            return self._told(part, int(met[np.argmin(values[met])]), x, values), None, None
        if (values - errors <= 0).any():
            return None, (float(values[low]), float(errors[low])), None
        return None, None, None

    def _witness(self, part: Part, formed: Formed, search: Search) -> Witness | None:
        """The lowest corner found, if it surely violates the property; better still where float32 puts it."""
        assert isinstance(part.view, Slice)
        for clause in np.argsort(search.lowest):
            if search.lowest[clause] > 0:
                break
            exact = part.view.inputs(search.where[clause : clause + 1])
            single = np.nextafter(exact, exact).astype(np.float32).astype(np.float64)
            inside = self._contains(part.view, single)
            for x in [single] * inside + [exact]:
                values, errors = (a[0] for a in error_at(formed.program, torch.from_numpy(x)))
                met = part.met(values + errors)
                if len(met):
                    return self._told(part, int(met[np.argmin(values[met])]), x[0], values)
        return None

    @staticmethod
    def _contains(view: Slice, x: np.ndarray) -> bool:
        """Whether inputs lie in the box that the slice's corners span; only asked of boxes along axes."""
        corners = view.inputs(view.domain)
        straight = bool((np.count_nonzero(view.basis.reshape(view.dimension, -1), axis=1) == 1).all())
        return straight and bool(((x >= corners.min(0)) & (x <= corners.max(0))).all())

    def _told(self, part: Part, clause: int, x: np.ndarray, values: np.ndarray) -> Witness:
        with torch.no_grad():
            y = self._program.forward(torch.from_numpy(x[None]))[0].numpy()
        own = run_own(self._model, x)
        rows = part.clauses[clause]
        confirmed = None
        if own is not None:
            seen = rows.outputs @ own[1].reshape(-1) + rows.inputs @ x.reshape(-1) - rows.ends
            confirmed = bool((np.where(rows.strict, seen < 0, seen <= 0)).all())
        by, seen_y = (None, None) if own is None else own
        return Witness(x, y, part.numbers[clause], -float(values[clause]), by, seen_y, confirmed)

    def _exact_margin(self) -> tuple[float, np.ndarray | None]:
        """The least value of any clause over all parts, by a search that drops what cannot be lower."""
        lowest = np.inf
        where: np.ndarray | None = None
        for part in self._parts:
            formed = with_forms(self._program, part.clauses)
            if not isinstance(part.view, Slice):
                values, _ = error_at(formed.program, torch.from_numpy(part.view[None]))
                if values.min() < lowest:
                    lowest, where = float(values.min()), part.view
                continue
            search = Search(formed, part.view, Clock(None), exact=True, stop_below=False)
            attack(formed.program, part.view, search, 1024)
            search.bar = lowest
            search.run(None)
            low = int(np.argmin(search.lowest))
            if search.lowest[low] < lowest:
                lowest, where = float(search.lowest[low]), part.view.inputs(search.where[low : low + 1])[0]
        return lowest, where


def attack(program: Program, view: Slice, search: Search, count: int, seed: int = 0) -> None:
    """Descend from samples, and from tiles that looked promising; what is found is seen by the search."""
    points = np.concatenate([samples(program, view, count, seed)[0], *(p[None] for p in search.promising)])
    values = values_at(program, view, points)
    search.see(points, values)
    near = descend(program, view, points, values, starts=min(max(48, count // 32), 1024))
    search.see(near, values_at(program, view, near))


def as_network(model: Any, over: Any, asked: Property | None = None) -> SplineNetwork:
    """The network of a module, of a file, or as it is."""
    if isinstance(model, SplineNetwork):
        return model
    if isinstance(model, (str, os.PathLike)):
        return load(model)
    module = check_module(model)
    if isinstance(over, Slice):
        shape = over.input_shape
    else:
        sizes = [np.shape(end) for end in over] if isinstance(over, (tuple, list)) else []
        shape = next((tuple(size) for size in sizes if size), ())
        if not shape and asked is not None and not callable(asked.clauses) and asked.clauses:
            shape = (asked.clauses[0].inputs.shape[1],)
        if not shape:
            first = next((p for p in module.parameters() if p.dim() == 2), None)
            if first is None:
                raise InputError(
                    "the shape of the model's inputs is not known: give over= with one number per input, or "
                    "trace(model, x)."
                )
            shape = (first.shape[1],)
    parameter = next(module.parameters(), None)
    dtype = parameter.dtype if parameter is not None else torch.get_default_dtype()
    return trace(module, torch.zeros(2, *shape, dtype=dtype))


def checked_program(network: SplineNetwork) -> Program:
    """The network's program, refused if it has smooth steps."""
    program = network.program()
    if soft := [step for step in program.steps if isinstance(step, Smooth)]:
        where = ", ".join(f"{step.site.path or 'model'} ({step.site.op})" for step in soft[:5])
        raise UnsupportedModelError(f"The network has smooth activations: {where}. They have no exact tiles.")
    return program


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
        if (low > high).any():
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
        return [Part(view_of((least.reshape(shape), most.reshape(shape)), shape), tuple(boxed), numbers)]
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


def path_of(model: Any) -> Path | None:
    """The file a model was given as, if it was."""
    return Path(model) if isinstance(model, (str, os.PathLike)) else None
