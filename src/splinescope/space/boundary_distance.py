"""`boundary_distance`: how far the decision boundary is, exactly, by a search over tiles in order of distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork, trace
from ..network.program import Program
from ..support.checks import as_float64_array, check_module, check_positive, check_whole
from ..support.display import Certainty, Result, counted
from ..support.errors import InputError
from ..support.progress import Progress, check_progress, telling
from ..support.worker_processes import by_rows
from ..tiling.engine.parts import packed_network, unpacked_network
from ..tiling.engine.time_limit import Clock
from ..tiling.measures.differentiate import jacobians, outputs
from ..tiling.slice import Slice
from .affine_rows import RTOL, at_point
from .cell import Cell, cell_at
from .explore import check_norm
from .polytope import UnresolvedError, nearest, nearest_in_box
from .safe_ball import safe_radius
from .search import Tiles, by_distance
from .tile import checked_network, started

_STEPS = 60  # of the attack
_RIVALS = 10  # classes that it tries
_ATTACK = 0.3  # of the time limit
_HALVINGS = 60
_NUDGE = 1e-6  # of the way back to x: the tile before a wall
_MET = 1e-9  # the bounds meet within this factor


@dataclass(frozen=True, eq=False, repr=False)
class BoundaryDistance(Result):
    """Distances of inputs to the decision boundary.

    Attributes:
        lower: `[N]` proven: no input nearer than that has another class.
        upper: `[N]` an input with another class (or a tie) is that far; inf if none was found.
        points: `[N, *input_shape]` those inputs, on the boundary; nan if none was found.
        tiles: `[N]` how many tiles were looked at.
        norm: 2 or infinity.
    """

    lower: np.ndarray
    upper: np.ndarray
    points: np.ndarray
    tiles: np.ndarray
    norm: float

    @property
    def exact(self) -> np.ndarray:
        """`[N]` where both bounds meet."""
        return self.lower >= (1 - _MET) * self.upper

    @property
    def certainty(self) -> Certainty:
        """ "exact" if all of them are, else "bound"."""
        return "exact" if bool(self.exact.all()) else "bound"

    def summary(self) -> str:
        """Distances in words."""
        count = len(self.lower)
        if not count:
            return f"No inputs.\n{self.assurance}"
        return (
            f"{counted(count, 'input')}, norm {self.norm:g}: exact for {int(self.exact.sum())}.\n"
            f"At least {np.median(self.lower):.4g}, at most {np.median(self.upper):.4g} (medians); "
            f"{int(self.tiles.sum()):,} tiles.\n{self.assurance}"
        )


def boundary_distance(
    model: nn.Module | SplineNetwork,
    x: Any,
    *,
    norm: float = 2,
    time_limit: float | None = None,
    workers: int | None = None,
    progress: Progress | bool | None = None,
) -> BoundaryDistance:
    """How far the decision boundary is from inputs, in the whole input space: exact, or between proven bounds.

    A linear relaxation of the network proves a ball; then tiles are looked at in order of their distance from x, which
    is a lower bound that grows. An attack that ends with a walk along the boundary gives an upper bound, then the
    nearest point with another class in those tiles. When they meet, the distance is exact. The class is the largest
    output, or the sign of one, before any softmax or sigmoid at the end.

    Args:
        model: A torch module, or the result of `trace` or `load`.
        x: Inputs `[N, *input_shape]`.
        norm: 2, or `math.inf` (a linear program per wall: slow beyond some 50 inputs).
        time_limit: Seconds for each input, after which the bounds are what they are.
        workers: Share the inputs between so many processes.
        progress: As in `tessellate`.

    A tile whose walls are too thin for float64 ends the search for its input, too: "bound".

    Cost: a small problem of least squares for each wall nearer than the boundary: with hundreds of units give a
    `time_limit`.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
        >>> found = ss.space.boundary_distance(net, torch.zeros(2, 4))
        >>> bool(found.exact.all())
        True

    Reference: Jordan, Lewis, Dimakis, "Provable certificates for adversarial examples", 2019.
    """
    norm = check_norm(norm)
    check_progress(progress)
    if time_limit is not None:
        check_positive(time_limit, "time_limit")
    rows = as_float64_array(x, "x")
    if rows.ndim < 2:
        raise InputError(f"x must have shape (N, *input_shape), got {rows.shape}.")
    if workers is not None:
        check_whole(workers, "workers")
    if not len(rows):
        if not isinstance(model, SplineNetwork):
            check_module(model)
        return BoundaryDistance(np.zeros(0), np.zeros(0), rows, np.zeros(0, np.int64), norm)
    network = model if isinstance(model, SplineNetwork) else trace(check_module(model), rows[:1].copy())
    rows = rows.reshape(len(rows), *checked_network(network, rows[0])[1].shape)
    if workers is not None:
        work = partial(_of_rows, packed_network(network), norm, time_limit)
        parts = by_rows(work, [torch.from_numpy(rows)], workers=workers, what="inputs")
        found = [each for part in parts for each in part]
    else:
        found = []
        with telling(progress, "distances") as tell:
            for i, row in enumerate(rows):

                def say(lower: float, tiles: int, i: int = i) -> None:
                    tell(i / len(rows), f"input {i + 1}: at least {lower:.3g}, {tiles:,} tiles")

                found.append(_of_one(network.program(), row, norm, time_limit, say))
    lower, upper, points, tiles = (np.array(values) for values in zip(*found, strict=True))
    return BoundaryDistance(lower, upper, points, tiles, norm)


Found = tuple[float, float, np.ndarray, int]


def _of_rows(model: np.ndarray, norm: float, time_limit: float | None, rows: Tensor) -> list[Found]:
    """Some rows, in a process of its own."""
    x = rows.numpy()
    program = unpacked_network(model, Slice.segment(x[0], x[0] + 1)).program()
    return [_of_one(program, row, norm, time_limit, lambda lower, tiles: None) for row in x]


def _of_one(program: Program, x: np.ndarray, norm: float, time_limit: float | None, say: Any) -> Found:
    """Lower and upper bound, the point of the upper one, and how many tiles were looked at."""
    clock = started(time_limit)
    values = outputs(program, x[None])
    winner = _class(values)[0]
    if (_leads(values, winner) <= RTOL * np.abs(values).max()).any():  # a tie, be it one of the whole tile
        return 0.0, 0.0, x, 1
    tiles = Tiles(cell_at(program, x))
    point, upper = _attack(program, x, winner, norm, tiles[0], Clock(time_limit and _ATTACK * time_limit))
    lower, seen = safe_radius(tiles[0].space, lambda rows: _leads(rows, winner), norm, upper, lambda: clock.is_over), 0

    def reach() -> float:
        return -1.0 if clock.is_over else upper

    try:
        for number, far in by_distance(tiles, norm, reach, clock):
            lower, seen = max(lower, far), seen + 1
            say(lower, seen)
            nearer = _boundary_in(tiles[number], winner, norm, upper, clock)
            if nearer is not None:
                upper, point = nearer[0], x + nearer[1].reshape(x.shape)
        if not clock.is_over:
            lower = upper  # no tile nearer than the boundary is left
    except UnresolvedError:  # of a tile behind very thin walls, or in time: the bounds stay what they are
        if seen == 1 and not clock.is_over:
            raise
    return min(lower, upper), upper, point, seen


def _class(values: np.ndarray) -> np.ndarray:
    """`[N]` the winner of `[N, C]` outputs; of one output, whether it is positive."""
    return values.argmax(1) if values.shape[1] > 1 else (values[:, 0] > 0).astype(np.int64)


def _leads(values: np.ndarray, winner: int) -> np.ndarray:
    """`[n, C - 1]` lead of the winner over every other class, of `[n, C]` outputs; of one output, its size."""
    if values.shape[1] == 1:
        return values if winner else -values
    return np.asarray(values[:, [winner]] - np.delete(values, winner, 1))


def _boundary_in(cell: Cell, winner: int, norm: float, upper: float, clock: Clock) -> tuple[float, np.ndarray] | None:
    """Distance and change `[D]` of the nearest input in a tile with another class, if nearer than `upper`."""
    leads, slopes = _leads(cell.rows.values[None], winner)[0], _leads(cell.rows.slopes.T, winner).T
    walls, above = cell.polytope.kept
    best: tuple[float, np.ndarray] | None = None
    for lead, slope in zip(leads, slopes, strict=True):
        steep = float(np.linalg.norm(slope))
        dual = steep if norm == 2 else float(np.abs(cell.space.directions(slope[None])).sum())
        if steep <= cell.rows.noise or lead / dual >= upper:  # constant on the tile, or farther
            continue
        normals, heights = np.vstack([walls, -slope / steep]), np.append(above, -lead / steep)
        if norm == 2:
            point = nearest(normals, heights)
            found = None if point is None else (float(np.linalg.norm(point)), cell.space.directions(point[None])[0])
        else:
            place = nearest_in_box(cell.space.directions(normals), heights, seconds=clock.left)
            found = None if place is None else (place[1], place[0])
        if found is not None and found[0] < upper:
            upper, best = found[0], found
    return best


def _attack(
    program: Program, x: np.ndarray, winner: int, norm: float, cell: Cell, clock: Clock
) -> tuple[np.ndarray, float]:
    """An input of another class near x, and its distance: nan and inf if none is found.

    Steps to the linearized boundary, of the nearest class and of each of the next ones by itself, then halving the way;
    from there along the boundary: to its nearest input in that tile, on to the tile before it, and so on.

    Reference: Moosavi-Dezfooli, Fawzi, Frossard, "DeepFool", 2016, for the first part.
    """
    space, best, least = cell.space, np.full_like(x, np.nan), math.inf
    for rank in range(_RIVALS):
        point = None if clock.is_over else _beyond(program, x, winner, norm, cell.rows.noise, rank)
        if point is None:
            continue
        near, far = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            same = _class(outputs(program, (x + middle * (point - x))[None]))[0] == winner
            near, far = (middle, far) if same else (near, middle)
        change = (far * (point - x)).reshape(-1)
        upper = float(np.linalg.norm(change) if norm == 2 else np.abs(change).max())
        while True:
            if upper < least:
                best, least = x + change.reshape(x.shape), upper
            place = space.coordinates((x + (1 - _NUDGE) * change.reshape(x.shape))[None])[0]
            there = Cell(space, space.rows(at_point(place)).of(0), place)
            ends = norm != 2 or clock.is_over
            nearer = None if ends else _boundary_in(there, winner, norm, (1 - _MET) * upper, clock)
            if nearer is None:
                break
            upper, change = nearer
    return best, least


def _beyond(program: Program, x: np.ndarray, winner: int, norm: float, noise: float, rank: int) -> np.ndarray | None:
    """An input of another class: of whichever comes nearest, or of the one that is so many places behind it at x."""
    point, rival = x, None
    for step in range(_STEPS):
        values = outputs(program, point[None])
        if _class(values)[0] != winner:
            return point
        leads, slopes = _leads(values, winner)[0], _leads(jacobians(program, point[None])[0].T, winner).T
        sizes = np.linalg.norm(slopes, axis=1) if norm == 2 else np.abs(slopes).sum(1)
        quotient = np.where(sizes > noise, leads / np.maximum(sizes, 1e-300), np.inf)
        if step == 0 and rank:
            if rank >= len(quotient):
                return None
            rival = int(quotient.argsort()[rank])
        j = int(quotient.argmin()) if rival is None else rival
        if not np.isfinite(quotient[j]):  # slopes of the size of noise lead nowhere
            return None
        way = slopes[j] / sizes[j] if norm == 2 else np.sign(slopes[j])
        point = point - ((1.02 + 0.05 * step) * quotient[j] * way).reshape(x.shape)
    return None
