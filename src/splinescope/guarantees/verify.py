"""`verify`: whether a property holds for all inputs of a set, with margin, witness and the whole unsafe set."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..network import SplineNetwork
from ..network.program import Program
from ..support.checks import check_index, check_module, check_positive, check_whole
from ..support.errors import InputError, LimitReached
from ..support.progress import Progress, check_progress, telling
from ..support.worker_processes import share
from ..tiling.engine.parts import packed_network
from ..tiling.engine.time_limit import Clock
from ..tiling.measures.differentiate import outputs
from ..tiling.measures.maps import inner_points
from ..tiling.slice import Slice
from ..tiling.tessellate import tessellate
from .decide import BEFORE_ATTACK, Decided, decide, decide_in_process, least_values, sides_of
from .forms import with_forms
from .models import as_network, check_ending, checked_program, is_smooth, joined, near
from .property import Property
from .sets import Part, parts_of, shared_out, view_of
from .slopes import largest
from .verdict import Collected, UnsafeSet, Verdict
from .vnnlib import read_vnnlib
from .witness import Witness, run_own

_PARTS_PER_WORKER = 8


def verify(
    model: nn.Module | SplineNetwork | str | os.PathLike[str] | Mapping[str, Any] | Sequence[Any],
    property: Property | str | os.PathLike[str],
    over: Any = None,
    *,
    complete: bool = False,
    max_tiles: int | None = None,
    time_limit: float | None = None,
    tolerance: float | None = None,
    workers: int | None = None,
    progress: Progress | bool | None = None,
) -> Verdict:
    """Whether a property holds for every input of a set, decided by exact tiles.

    On each tile the network is one affine map, so that corners decide; tiles on which linear bounds decide are dropped
    before the next fold. The answer is about real arithmetic on the network's weights: a verdict that hangs on less
    than the proven rounding of float64 (`Verdict.rounding`) is a tie, `holds` is None. A smooth network is decided by
    the tiles of one near it, and holds only if the margin exceeds the proven difference of the two.

    Args:
        model: A torch module, the result of `trace` or `load`, or the path of an ONNX file. For a VNN-LIB file about
            several networks, a dictionary of them by name, or a list in the file's order. If it ends in a softmax,
            sigmoid or the like, comparisons of two outputs are decided, with values and margins from before it.
        property: A `Property`, or the path of a VNN-LIB file.
        over: The set, where the property does not say it: a `Slice`, a pair (low, high) of the corners of a box, or
            the result of `guarantees.polytope`. At most eight inputs may be free.
        complete: Find the whole unsafe set, with its volume, instead of stopping at the first witness.
        max_tiles: Stop undecided after so many tiles.
        time_limit: Stop undecided after so many seconds.
        tolerance: For smooth networks, how near the network must be whose tiles decide, in units of the outputs.
        workers: Share the work between so many processes, once the first 4,000 tiles have not decided (joblib's
            `parallel_config` may send it to a cluster). Use it for searches of more than ten seconds.
        progress: As everywhere.

    Raises:
        InputError: The set is empty, unbounded, or has more than eight free dimensions, or sizes do not fit.
        UnsupportedModelError: The model has no exact tiles, and no tolerance was given; or its ending (sigmoid) bends
            what the property is about.

    Cost: some 30 to 100 microseconds per tile looked at.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> verdict = ss.verify(net, ss.guarantees.Property.between(0, -50.0, 50.0), over=(-1.0, 1.0))
        >>> verdict.holds, verdict.rigorous
        (True, True)
    """
    check_progress(progress)
    for value, name in ((max_tiles, "max_tiles"), (workers, "workers")):
        if value is not None:
            check_whole(value, name)
    for limit, name in ((time_limit, "time_limit"), (tolerance, "tolerance")):
        if limit is not None:
            check_positive(limit, name)
    started = time.monotonic()
    if not isinstance(property, (Property, str, os.PathLike)):
        raise InputError(f"property must be a Property or the path of a VNN-LIB file, got {type(property).__name__}.")
    asked = property if isinstance(property, Property) else read_vnnlib(property)
    network: SplineNetwork | None = None
    places: np.ndarray | None = None
    if len(asked.networks) > 1 or isinstance(model, (Mapping, list, tuple)):
        if isinstance(model, Mapping) and any(isinstance(value, Tensor) for value in model.values()):
            check_module(model)  # parameters: the error says what to do with them
        if len(asked.networks) < 2 or workers is not None or tolerance is not None:
            raise InputError(
                f"{asked.name} is about {max(len(asked.networks), 1)} network(s); several models are for a VNN-LIB "
                "file that declares as many, without workers and without tolerance."
            )
        if not isinstance(model, (Mapping, list, tuple)):
            model = [model]
        program, clauses, places, models = joined(model, asked)
    else:
        network = as_network(model, over, asked, smooth=tolerance is not None)
        program = network.program() if tolerance is not None else checked_program(network)
        if asked.slope is not None:
            if complete or workers is not None or is_smooth(program):
                raise InputError(
                    "properties of slopes are for piecewise-affine networks, without workers and without complete."
                )
            check_ending(model, program, asked)
            limits = {"max_tiles": max_tiles, "time_limit": time_limit, "progress": progress}
            return _verify_slope(network, asked.slope, over, started, limits)
        models = [(model, program.input_shape)]
        clauses = asked.sized(int(np.prod(program.input_shape)), int(np.prod(program.output_shape)))
        check_ending(model, program, asked, clauses)
    smooth = is_smooth(program)
    if smooth and (complete or workers is not None):
        raise InputError("complete and workers are for piecewise-affine networks: this one has smooth activations.")
    parts = parts_of(clauses, program.input_shape, over, apart=complete)
    with telling(progress, "verifying") as report:
        run = _Run(
            models, network, program, parts, complete, max_tiles, time_limit, report,
            tolerance if smooth else None, workers, asked, places,
        )  # fmt: skip
        return run.verdict(started)


def _by_how_much(excess: float) -> str:
    if np.isinf(excess):
        return " by every input of the set: nothing else is asked"
    if excess > 0:
        return f" by {excess:.6g}"
    return ", by equality" if excess == 0 else ": next to the witness, the equality is met"


@dataclass
class _Run:
    """One call of `verify`, part by part; without a network of its own it is about several."""

    models: Sequence[tuple[Any, tuple[int, ...]]]  # the user's own, each with the shape of its inputs
    network: SplineNetwork | None
    program: Program
    parts: Sequence[Part]
    complete: bool
    max_tiles: int | None
    time_limit: float | None
    report: Progress
    tolerance: float | None
    workers: int | None
    asked: Property
    places: np.ndarray | None

    def __post_init__(self) -> None:
        self.clock = Clock(self.time_limit)

    def verdict(self, started: float) -> Verdict:
        witness: Witness | None = None
        decided: list[Decided] = []
        stopped: str | None = None
        collected: list[tuple[Part, Collected]] = []
        for part in self.parts:
            found = list(self._decided(part, sum(one.tiles for one in decided)))
            decided += found
            pieces = [one.collected for one in found if one.collected is not None]
            if isinstance(part.view, Slice) and pieces:
                collected.append((part, Collected.merged(part.view, pieces)))
            violated = [one.found for one in found if one.found is not None]
            if violated and witness is None:
                witness = self._as_witness(part, *min(violated, key=lambda one: one[2][one[0]]))
            stopped = stopped or next((one.stopped for one in found if one.stopped), None)
            if (witness is not None and not self.complete) or stopped:
                break
        rounding = max((one.rounding for one in decided), default=0.0)
        ties = [one.tie for one in decided if one.tie is not None]
        tied = witness is None and bool(ties)
        unsafe = UnsafeSet.joined([c for _, c in collected], tied) if self.complete and not stopped else None
        sure = self.tolerance is None
        beside = "" if sure else " Not rigorous: that of a smooth network leaves out rounding."
        counts = (sum(one.tiles for one in decided), sum(one.cells for one in decided), time.monotonic() - started)
        if witness is not None:
            lowest = min(decided, key=lambda one: one.lowest)
            margin = (lambda: (lowest.lowest, lowest.where)) if unsafe is not None else None
            reason = f"Violated{_by_how_much(witness.excess)}.{beside}"
            if unsafe is not None and unsafe.certainty == "bound":
                part, of_part = max(collected, key=lambda one: one[1].doubt[0])
                reason += f" {self._doubt(unsafe, part, of_part)}"
            elif self.complete and unsafe is None:
                reason += f" The whole unsafe set is not known: {stopped}."
            return Verdict(False, witness, sure, rounding, -witness.excess, reason, *counts, unsafe, margin)
        if stopped:
            return Verdict(None, None, False, rounding, -np.inf, f"Undecided: {stopped}.", *counts)
        if ties:
            value, error, sides = min(ties)
            what = "rounding there is up to" if sure else "the network is known there within"
            both = " and ".join(f"{side:.12g}" for side in sides)
            reason = f"A tie: {both} are {value:.3g} apart, and {what} {error:.3g}."
            return Verdict(None, None, False, max(rounding, error), value, reason, *counts, unsafe)
        if not self.parts:
            reason = (
                "Holds for any network: a counterexample's conditions contradict each other, or no input meets them."
            )
            return Verdict(True, None, True, 0.0, np.inf, reason, *counts, unsafe, lambda: (np.inf, None))
        what = "the rounding" if sure else "the difference of the smooth network and the tiled one"
        reason = f"Holds for all inputs of the set, by more than {what}, {rounding:.3g}.{beside}"
        return Verdict(True, None, sure, rounding, 0.0, reason, *counts, unsafe, self._exact_margin if sure else None)

    def _doubt(self, unsafe: UnsafeSet, part: Part, found: Collected) -> str:
        """What is known of a set's volume, and the two values that rounding does not tell apart."""
        least, most = max(unsafe.volume - unsafe.rounding, 0.0), unsafe.volume + unsafe.rounding
        most = min(most, unsafe.volume / unsafe.share) if unsafe.share else most
        said = f"The unsafe set's volume is between {least:.6g} and {most:.6g}"
        _, clause, place = found.doubt
        if place is None:
            return f"{said}."
        a, b = sides_of(self.program, part.clauses[clause], found.view.inputs(place[None])[0])
        return f"{said}: {a:.12g} and {b:.12g} differ by less than rounding, {found.error[clause]:.3g}."

    def _decided(self, part: Part, tiles: int) -> Iterator[Decided]:
        """One decision about a part, or several about parts of it by workers."""
        left = None if self.max_tiles is None else max(self.max_tiles - tiles, 1)
        options: dict[str, Any] = {"complete": self.complete, "max_tiles": left, "report": self.report}
        if self.tolerance is not None and isinstance(part.view, Slice):
            assert self.network is not None
            close = near(self.network, part.view, self.tolerance)
            yield decide(close.program, part, self.clock, **options, close=close)
            return
        if self.workers is None or not isinstance(part.view, Slice):
            yield decide(self.program, part, self.clock, **options)
            return
        if not self.complete:  # most properties are decided before a process could start
            first = decide(self.program, part, self.clock, **options, until=BEFORE_ATTACK)
            if first.stopped != "":
                yield first
                return
            tiles += first.tiles
        yield from self._by_workers(part, left)

    def _by_workers(self, part: Part, max_tiles: int | None) -> Iterator[Decided]:
        assert self.network is not None
        assert self.workers is not None
        pieces = shared_out(part, _PARTS_PER_WORKER * self.workers)
        deadline = None if self.clock.left is None else time.time() + self.clock.left
        model = packed_network(self.network)
        items = [(model, piece, self.complete, max_tiles, deadline) for piece in pieces]
        names = [f"part {i + 1} of {len(pieces)}" for i in range(len(pieces))]
        tiles = done = 0
        results = share(decide_in_process, items, names, workers=self.workers)
        with closing(results):
            for _, one in results:
                tiles, done = tiles + one.tiles, done + 1
                self.report(done / len(pieces), f"{tiles:,} tiles")
                if max_tiles is not None and tiles > max_tiles and done < len(pieces):
                    one.stopped = one.stopped or f"max_tiles={max_tiles} reached"
                yield one
                if one.stopped or (one.found is not None and not self.complete):
                    return

    def _as_witness(self, part: Part, clause: int, x: np.ndarray, values: np.ndarray) -> Witness:
        with torch.no_grad():
            y = self.program.forward(torch.from_numpy(x[None]))[0].numpy()
        every = x.reshape(-1) if self.places is None else x.reshape(-1)[self.places]
        own = self._run_own(every)
        if own is not None and own[1].size != y.size:  # an argmax has no such outputs
            own = None
        rows = part.clauses[clause]
        confirmed = None
        if own is not None and rows.equality is None:
            seen = rows.outputs @ own[1].reshape(-1) + rows.inputs @ x.reshape(-1) - rows.ends
            confirmed = bool((np.where(rows.strict, seen < 0, seen <= 0)).all())
        by, seen_y = (None, None) if own is None else own
        tensors = self.asked.tensors(every, y.reshape(-1) if seen_y is None else seen_y.reshape(-1))
        excess = -float(values[clause]) if rows.outputs.any() or rows.inputs.any() else np.inf
        return Witness(x, y, part.numbers[clause], excess, by, seen_y, confirmed, tensors)

    def _run_own(self, every: np.ndarray) -> tuple[str, np.ndarray] | None:
        """What ran the user's own models, and their outputs beside each other; None if one of them cannot be run."""
        found, start = [], 0
        for model, shape in self.models:
            end = start + int(np.prod(shape))
            one = run_own(model, every[start:end].reshape(shape))
            if one is None:
                return None
            found.append(one)
            start = end
        by, outputs_of = zip(*found, strict=True)
        return ", ".join(dict.fromkeys(by)), np.concatenate([y.reshape(-1) for y in outputs_of])

    def _exact_margin(self) -> tuple[float, np.ndarray | None]:
        """The least value of any clause, within the limits of the call anew."""
        clock, lowest, where, tiles = Clock(self.time_limit), np.inf, None, 0
        for part in self.parts:
            left = None if self.max_tiles is None else max(self.max_tiles - tiles, 1)
            found = least_values(with_forms(self.program, part.clauses), part.view, clock, left, bar=lowest)
            tiles, low = tiles + found.tiles, int(found.values.argmin())
            if found.values[low] < lowest:
                lowest, where = float(found.values[low]), found.where[low]
            if found.stopped is not None:
                raise LimitReached(f"{found.stopped}: the margin is at most {lowest:.6g}, more is not known.", None)
        return lowest, where


def _verify_slope(
    network: SplineNetwork, asked: tuple[int, int, int], over: Any, started: float, limits: dict[str, Any]
) -> Verdict:
    """`verify` of `Property.monotone`: the least slope over all tiles of the set."""
    x, output, sign = asked
    program = network.program()
    size = int(np.prod(program.input_shape))
    check_index(x, "index", size)
    check_index(output, "output", int(np.prod(program.output_shape)))
    view = view_of(over, tuple(program.input_shape))
    if not isinstance(view, Slice):
        raise InputError("over must have an input that is free, got a single point.")
    basis, direction = view.basis.reshape(view.dimension, -1), np.eye(size)[x]
    apart = direction - np.linalg.lstsq(basis.T, direction, rcond=None)[0] @ basis
    if np.abs(apart).max() > 1e-12:
        raise InputError(f"over must let input {x} move: it is fixed on the set.")
    try:
        tiling = tessellate(network, view, rows="plain", **limits)
    except LimitReached as error:
        seconds = time.monotonic() - started
        return Verdict(None, None, False, np.inf, -np.inf, f"Undecided: {error}", 0, 0, seconds)
    steepest = largest(
        tiling, program, direction.reshape(1, *view.input_shape),
        lambda slopes, radii: (-sign * slopes[:, output, 0], radii[:, output, 0]),
    )  # fmt: skip
    margin, place = -steepest.value, view.inputs(inner_points(tiling, np.array([steepest.tile])))[0]
    rounding = max(steepest.high - steepest.value, steepest.value - steepest.low)
    counts = (tiling.count, tiling.count, time.monotonic() - started)
    if steepest.low > 0:
        witness = Witness(place, outputs(program, place[None])[0].reshape(program.output_shape), 0, -margin)
        reason = f"Violated: the slope is {sign * margin:.6g} on the tile about the witness."
        return Verdict(False, witness, True, rounding, margin, reason, *counts)
    if steepest.high > 0:
        reason = (
            f"A tie: the least slope of a tile is {margin:.3g}, and rounding leaves open one of {-steepest.high:.3g}."
        )
        return Verdict(None, None, False, rounding, margin, reason, *counts)
    reason = f"Holds: the least slope in that direction is {margin:.6g}."
    return Verdict(True, None, True, rounding, -steepest.high, reason, *counts, None, lambda: (margin, place))
