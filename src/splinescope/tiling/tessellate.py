"""`tessellate`: the exact tiling of a network on a slice."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from .._checks import check_positive, check_whole
from .._errors import InputError, LimitReached, UnsupportedModelError
from .._progress import check_progress, reporter
from ..network import SplineNetwork, trace
from ..network._program import depends_on_input
from ._mesh import assemble
from ._plan import make_plan, probe_points
from .slice import Slice
from .tiling import Cells, Tiling

if TYPE_CHECKING:
    from ._engine import Chunk, Engine, Leaf

Progress = Callable[[float, int], None]
"""Called with (share of the domain that is finished, tiles so far)."""

_CHUNK_BYTES = 24 << 20  # the rows of one chunk: what a shared cache holds
_WORTH_SHARING = 2048  # tiles of a chunk that is split for an idle thread


def tessellate(
    model: nn.Module | SplineNetwork,
    slice: Slice,
    *,
    rtol: float = 1e-12,
    max_tiles: int | None = None,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
    threads: int | None = None,
    chunk_bytes: int = _CHUNK_BYTES,
) -> Tiling:
    """The exact tiling of a network on a 1-D or 2-D slice.

    On each tile every value in the network is affine, so its values at the tile's corners are all there is to
    know: the corners go through the real torch ops in float64, and each non-linearity cuts the tiles along its
    units' folds. Exact up to float64 rounding and `rtol`. The result does not depend on `threads` or
    `chunk_bytes`. The model is not changed.

    Args:
        model: A torch module (in eval mode if it has batch norm or dropout), or the result of `trace` or `load`.
        slice: Where: a line or plane of the input space, with its domain.
        rtol: A pre-activation is zero if it is below rtol times the sum of the absolute terms it is made of.
        max_tiles: Stop with `LimitReached` beyond this many tiles (counted before walls between losers of a
            max-pool are taken out).
        time_limit: Stop with `LimitReached` after this many seconds.
        progress: True for a progress bar on stderr (None: only where stderr is a terminal and it takes over a
            second), or a function of (share of the domain finished, tiles so far).
        threads: How many threads cut tiles; all cores by default.
        chunk_bytes: Memory for the rows of one chunk of tiles.

    Raises:
        LimitReached: With `.partial`, the tiles finished so far, marked incomplete.
        InputError: An argument is not what is accepted, or no weight connects the network's output to its input.
        UnsupportedModelError: The model is not piecewise affine; all offending layers are named.

    Cost: about one to forty microseconds per tile (see the benchmarks), memory bounded by the result plus a few
    chunks.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> tiling = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3))
        >>> bool(tiling.check().ok)
        True

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", equation (5).
    """
    view = slice
    _check_arguments(view, rtol, max_tiles, time_limit, threads, chunk_bytes)
    check_progress(progress)
    network = model if isinstance(model, SplineNetwork) else traced(model, view)
    if tuple(network.input_shape) != view.input_shape:
        raise InputError(
            f"the slice must lie in the network's input space: inputs of shape {tuple(network.input_shape)} expected, "
            f"the slice has {view.input_shape}."
        )
    program = network.program()
    if not depends_on_input(program):
        raise InputError(
            "the network's output must depend on its input; no non-zero weight connects them, so it is constant."
        )
    from ._engine import Engine  # numba loads here, on first use

    with _one_torch_thread(), torch.no_grad():
        probes = torch.from_numpy(view.inputs(probe_points(view.domain)))
        plan = make_plan(program, probes, rtol)
        engine = Engine(plan, program.output, chunk_bytes)
        corners = view.inputs(view.domain).reshape(len(view.domain), -1)
        first = engine.start(corners, program.input, program.input_shape, view.domain)
        with _reporter(progress) as report:
            work = _Work(engine, first, view, max_tiles, time_limit, report)
            work.run(threads or os.cpu_count() or 1)
    mesh = assemble(work.leaves, view.domain)
    tiling = Tiling(
        slice=view,
        vertices=mesh.points,
        tiles=Cells(mesh.offsets, mesh.corners),
        values=mesh.values,
        sites=program.sites,
        rtol=rtol,
        ending=network.ending,
        fingerprint=network.fingerprint(),
        complete=work.stopped is None,
        corner_labels=mesh.labels,
        network=network,
    )
    if work.stopped is not None:
        raise LimitReached(f"{work.stopped}; {tiling.count} tiles were finished.", tiling)
    return tiling


class _Work:
    """Chunks still to do, newest first (which bounds the memory), and the leaves that are done."""

    def __init__(
        self, engine: Engine, first: Chunk | Leaf, view: Slice,
        max_tiles: int | None, time_limit: float | None, report: Progress | None,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._queue: deque[Chunk] = deque()
        self.leaves: list[Leaf] = []
        self.stopped: str | None = None
        self._failure: BaseException | None = None
        self._busy = 0
        self._tiles = 0
        self._finished = 0.0
        self._size = view.size
        self._max_tiles = max_tiles
        self._deadline = None if time_limit is None else time.monotonic() + time_limit
        self._time_limit = time_limit
        self._report = report
        self._changed = threading.Condition()
        self._take([first])

    def run(self, threads: int) -> None:
        """Work until nothing is left or a limit is reached; helpers join once there is something to share."""
        with _announced_compilation():
            if self._queue:
                self._step()
        while self._queue and self.stopped is None and (threads == 1 or not self._worth_sharing()):
            self._step()
        if not self._queue or self.stopped is not None:
            return
        helpers = [threading.Thread(target=self._help, args=(threads,), daemon=True) for _ in range(threads)]
        for helper in helpers:
            helper.start()
        try:
            for helper in helpers:
                while helper.is_alive():
                    helper.join(0.1)
        except BaseException:  # Ctrl-C: let the helpers finish the chunk at hand, then pass it on
            with self._changed:
                self.stopped = "interrupted"
                self._changed.notify_all()
            for helper in helpers:
                helper.join()
            raise
        if self._failure is not None:
            raise self._failure

    def _step(self) -> None:
        chunk = self._queue.pop()
        self._take(self._engine.advance(chunk))

    def _worth_sharing(self) -> bool:
        return len(self._queue) > 1 or self._queue[-1].count >= _WORTH_SHARING

    def _help(self, threads: int) -> None:
        """One thread: take the newest chunk, advance it, put back what comes of it."""
        torch.set_num_threads(1)
        with torch.no_grad():
            while True:
                with self._changed:
                    while not self._queue and self._busy and self.stopped is None:
                        self._changed.wait()
                    if not self._queue or self.stopped is not None:
                        self._changed.notify_all()
                        return
                    chunk = self._queue.pop()
                    self._busy += 1
                    idle = threads - self._busy - len(self._queue)
                share = idle > 0 and chunk.count >= _WORTH_SHARING
                try:
                    results = self._engine.advance(chunk, split_in=2 if share else 1)
                except BaseException as error:
                    with self._changed:
                        self._failure = error
                        self.stopped = "failed"
                        self._busy -= 1
                        self._changed.notify_all()
                    return
                with self._changed:
                    self._take(results)
                    self._busy -= 1
                    self._changed.notify_all()

    def _take(self, results: list[Chunk | Leaf]) -> None:
        from ._engine import Chunk

        for result in reversed(results):
            if isinstance(result, Chunk):
                self._queue.append(result)
                continue
            self.leaves.append(result)
            self._tiles += result.count
            if self._report is not None:
                self._finished += _size_of(result) / self._size
                self._report(min(self._finished, 1.0), self._tiles)
        if self._max_tiles is not None:
            at_least = self._tiles + sum(chunk.count for chunk in self._queue)
            if at_least > self._max_tiles:
                self.stopped = f"max_tiles={self._max_tiles} reached: the slice has at least {at_least} tiles"
        if self._deadline is not None and self._queue and time.monotonic() > self._deadline:
            self.stopped = f"time_limit={self._time_limit} s reached"


def _size_of(leaf: Leaf) -> float:
    from . import kernels

    if leaf.points.shape[1] == 1:
        ends = leaf.points[leaf.corners, 0].reshape(-1, 2)
        return float((ends[:, 1] - ends[:, 0]).sum())
    areas = np.empty(leaf.count)
    kernels.polygon_areas(leaf.offsets, leaf.corners, leaf.points, areas)
    return float(areas.sum())


def traced(model: object, view: Slice) -> SplineNetwork:
    """A module traced on inputs of the slice, in the module's own dtype."""
    if not isinstance(model, nn.Module):
        raise InputError(f"model must be a torch.nn.Module or the result of trace or load, got {type(model).__name__}.")
    parameter = next(model.parameters(), None)
    example = torch.from_numpy(view.inputs(view.domain[:2]))
    try:
        return trace(model, example.to(parameter.dtype if parameter is not None else torch.get_default_dtype()))
    except UnsupportedModelError as error:
        if "could not be read with an example" not in str(error):
            raise
        # the model did not run: most likely the slice is not of its inputs' size
        raise InputError(f"the model does not take the slice's inputs, of shape {view.input_shape}: {error}") from error


def _check_arguments(
    view: object,
    rtol: float,
    max_tiles: int | None,
    time_limit: float | None,
    threads: int | None,
    chunk_bytes: int,
) -> None:
    if not isinstance(view, Slice):
        raise InputError(f"slice must be a Slice, got {type(view).__name__}; see Slice.through, .box, .axes, .segment.")
    if not (isinstance(rtol, (int, float)) and np.isfinite(rtol) and 0 <= rtol < 1e-3):
        raise InputError(f"rtol must be a number in [0, 1e-3), got {rtol!r}.")
    for name, value in (("max_tiles", max_tiles), ("threads", threads), ("chunk_bytes", chunk_bytes)):
        if value is not None:
            check_whole(value, name)
    if time_limit is not None:
        check_positive(time_limit, "time_limit")


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """The threads here are ours; torch's own would only compete with them, and change last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _announced_compilation() -> Iterator[None]:
    """Say what the wait is for if the first cut of this process takes long: kernels are compiled once per machine."""
    from . import kernels

    timer = threading.Timer(2.0, lambda: print("splinescope: compiling kernels (once)", file=sys.stderr, flush=True))
    if not (kernels.split_polygons.signatures or kernels.split_intervals.signatures):
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _reporter(progress: Progress | bool | None) -> AbstractContextManager[Progress | None]:
    return reporter(
        progress, "tiling", lambda bar, task: lambda share, tiles: bar.update(task, completed=share, tiles=tiles),
        ("{task.fields[tiles]} tiles",), total=1.0, tiles=0,
    )  # fmt: skip
