"""`tessellate`: the exact tiling of a network on a slice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from .._checks import check_positive, check_whole
from .._errors import InputError, LimitReached, NotWrittenError, UnsupportedModelError
from .._files import check_writable
from .._progress import Progress, check_progress, telling
from .._threads import one_torch_thread
from ..network import SplineNetwork, trace
from ..network.export import DidNotRun
from ..network.program import Program, Smooth
from ._engine import Engine, Keep
from ._mesh import Mesh, assemble
from ._parts import closed_seams, leaves_by_parts
from ._plan import Plan, is_connected, make_plan, probe_points, spread
from ._spool import Spool
from ._work import Work
from .cells import Cells
from .polytopes import cells_of
from .slice import Slice
from .tiling import Tiling

CHUNK_BYTES = 64 << 20  # the rows of one chunk


def tessellate(
    model: nn.Module | SplineNetwork,
    view: Slice,
    *,
    tolerance: float | None = None,
    rtol: float = 1e-12,
    max_tiles: int | None = None,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
    threads: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    rows: Literal["auto", "plain", "factored"] = "auto",
    workers: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    output: int | str | None = None,
) -> Tiling:
    """The exact tiling of a network on a slice of one to eight dimensions.

    On each tile every value in the network is affine, so its values at the tile's corners are all there is to
    know: the corners go through the real torch ops in float64, and each non-linearity cuts the tiles along its
    units' folds. Exact up to float64 rounding and `rtol`. With plain rows no bit depends on `threads` or `chunk_bytes`.
    With a tolerance above rounding, as by default, the tiles, their order and their labels do not depend on `rows`
    either; at `rtol=0` rounding decides what is zero, and each kind of rows is rounded in its own way. The model is not
    changed.

    Args:
        model: A torch module (in eval mode if it has batch norm or dropout), or the result of `trace` or `load`.
        view: Where: a line, plane or space of the input space, with its domain.
        tolerance: For smooth networks (GELU, SiLU, tanh, softplus, ELU, ... in any MLP, convolutional or residual
            network): tile one that differs from it by at most this much, absolutely, in any output on the slice. Each
            smooth activation is replaced by an interpolant with knots for equal error; the tiling is exact for that
            network, and `Tiling.approximation` has the proven `bound` and the measured `deviation`. Where the bound is
            over a hundred times too large, knots are refined by what is measured, and `basis` says so. None: smooth
            networks are refused.
        rtol: A pre-activation is zero if it is below rtol times the sum of the absolute terms it is made of.
        max_tiles: Stop with `LimitReached` beyond this many tiles (counted before walls between losers of a
            max-pool are taken out).
        time_limit: Stop with `LimitReached` after this many seconds.
        progress: None: a bar on a terminal, a line in a notebook or a log, once it takes over three seconds; True: a
            bar at once; False: nothing; or a function of (share of the domain finished, tiles so far).
        threads: How many threads cut tiles; all cores by default. With workers, those of each process; one by default.
        chunk_bytes: Memory for the rows of one chunk of tiles (8 times as much for a basis of factored rows).
        rows: How values are carried: "plain", one row per vertex; "factored", all rows of a chunk as combinations of a
            few, which pays where many layers are wide; "auto" chooses by the sizes of network and slice: engine page.
        workers: Share the work between so many processes (by joblib, whose `parallel_config` may send it to dask or
            ray): the domain is split into parts, each is tiled on its own and the seams are taken out again.
            The same tiles and walls, in another order. A process costs some 5 CPU seconds before it cuts (importing
            torch, reading the network): two are worth it from about 10 seconds of work on. With 1 the parts are tiled
            here, one after the other.
        folder: With workers, where finished parts are kept: the same call, made again, goes on from there, whatever
            ended the first one; by another number of workers too, in the parts that the first one split it into.
        out: A file to write the tiling to, as `Tiling.save` does; what is returned is mapped from it. Lines and planes
            are written as their parts are finished; memory holds a table of the vertices, and pages of the files that
            are being read, which the system may take back (ten million tiles: some 1.2 GB). A max-pool and
            workers need the whole once more, to take out walls that are none. The file is whole or not there at all.
        output: Which tensor is meant where a module returns several: its index or its name (see `trace`).

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
    check_arguments(view, rtol, max_tiles, time_limit, threads, chunk_bytes, rows)
    if out is not None:
        check_writable(out)
    if tolerance is not None:
        from ..smooth.tolerance import tessellate_within  # builds on this function

        options: dict[str, Any] = {
            "rtol": rtol, "max_tiles": max_tiles, "time_limit": time_limit, "progress": progress, "threads": threads,
            "chunk_bytes": chunk_bytes, "rows": rows, "workers": workers, "folder": folder,
        }  # fmt: skip
        known = isinstance(model, SplineNetwork)
        smooth = trace(model, None, output=output) if known else traced(model, view, output, smooth=True)
        tiling = tessellate_within(smooth, view, tolerance, lambda near: tessellate(near, view, **options))
        return tiling if out is None else _stored(tiling, out)
    network, program = checked_network(model, view, progress, output)
    if workers is not None:
        check_whole(workers, "workers")
        tiling, stopped = _by_parts(
            network, program, view, rtol, rows, chunk_bytes, progress, workers, folder, max_tiles, time_limit, threads
        )
        if stopped is not None:
            raise LimitReached(f"{stopped}; {tiling.count} tiles were finished.", tiling)
        return tiling if out is None else _stored(tiling, out)
    if folder is not None:
        raise InputError("folder keeps what workers have finished: it needs workers=.")
    tiling, stopped = tile(
        network, program, view, rtol=rtol, max_tiles=max_tiles, time_limit=time_limit, progress=progress,
        threads=threads, chunk_bytes=chunk_bytes, rows=rows, out=out,
    )  # fmt: skip
    if stopped is not None:
        raise LimitReached(f"{stopped}; {tiling.count} tiles were finished.", tiling)
    return tiling


def tile(
    network: SplineNetwork, program: Program, view: Slice, *, rtol: float, max_tiles: int | None,
    time_limit: float | None, progress: Progress | bool | None, threads: int | None, chunk_bytes: int = CHUNK_BYTES,
    rows: str = "auto", keep: Callable[[Plan], Keep] | None = None, out: str | os.PathLike[str] | None = None,
) -> tuple[Tiling, str | None]:  # fmt: skip
    """`tessellate` on checked arguments; and which limit stopped it, if one did.

    `keep` makes, from the plan, what says before every fold which tiles are wanted: the others are left out.
    """
    with ExitStack() as stack:
        if out is not None:
            stack.enter_context(_words_for_a_full_disk(out))
        spool = None
        if out is not None and view.dimension <= 2:
            place = stack.enter_context(TemporaryDirectory(prefix=".", suffix=".leaves", dir=Path(out).parent))
            spool = stack.enter_context(closing(Spool(Path(place), view.dimension)))
        tiling, stopped = _tile(
            network, program, view, rtol, max_tiles, time_limit, progress, threads, chunk_bytes, rows, keep, spool
        )
        if out is not None and stopped is None:
            tiling = _stored(tiling, out)
        elif spool is not None:  # what was found before a limit: the files it is mapped from go
            tiling = _in_memory(tiling)
    return tiling, stopped


def _tile(
    network: SplineNetwork, program: Program, view: Slice, rtol: float, max_tiles: int | None,
    time_limit: float | None, progress: Progress | bool | None, threads: int | None, chunk_bytes: int,
    rows: str, keep: Callable[[Plan], Keep] | None, spool: Spool | None,
) -> tuple[Tiling, str | None]:  # fmt: skip
    with one_torch_thread(), torch.no_grad():
        probes = torch.from_numpy(view.inputs(probe_points(program, view.domain)))
        plan = make_plan(program, probes, rtol, rows, view.dimension)
        engine = Engine(plan, program.output, chunk_bytes, None if keep is None else keep(plan))
        first = engine.start_on(view, program.input)
        with telling(progress, "tiling") as report:
            take = None if spool is None else spool.append
            told = None if progress is False else report
            work = Work(engine, first, view.size, max_tiles, time_limit, told, take)
            work.run(threads or os.cpu_count() or 1)
    complete = work.stopped is None and keep is None
    mesh = assemble(work.leaves, view.domain) if spool is None else spool.assembled(view.domain)
    return tiling_of(network, program, view, rtol, mesh, complete), work.stopped


@contextmanager
def _words_for_a_full_disk(out: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except NotWrittenError:
        raise
    except OSError as error:
        raise NotWrittenError(f"{os.fspath(out)} was not written, nothing is left of it: {error}.") from error


def _stored(tiling: Tiling, out: str | os.PathLike[str]) -> Tiling:
    """The tiling written to a file, and its arrays mapped from there."""
    from .storage import load_tiling  # builds on this function

    tiling.save(out)
    return replace(load_tiling(out), network=tiling.network, frozen=tiling.frozen)


def _in_memory(tiling: Tiling) -> Tiling:
    tiles = Cells(tiling.tiles.offsets.copy(), tiling.tiles.corners.copy())
    values = None if tiling.values is None else tiling.values.copy()
    labels = tiling.corner_labels.copy()
    return replace(tiling, vertices=tiling.vertices.copy(), tiles=tiles, values=values, corner_labels=labels)


def _by_parts(
    network: SplineNetwork, program: Program, view: Slice, rtol: float, rows: str, chunk_bytes: int,
    progress: Progress | bool | None, workers: int, folder: str | os.PathLike[str] | None,
    max_tiles: int | None, time_limit: float | None, threads: int | None,
) -> tuple[Tiling, str | None]:  # fmt: skip
    """`tessellate` by several processes; and which limit stopped it, if one did."""
    with telling(progress, "tiling") as report:
        leaves, stopped = leaves_by_parts(
            network, program, view, rtol=rtol, rows=rows, chunk_bytes=chunk_bytes, workers=workers, folder=folder,
            report=report, threads=threads, max_tiles=max_tiles, time_limit=time_limit,
        )  # fmt: skip
    complete = stopped is None
    mesh = closed_seams(assemble(leaves, view.domain), program, complete)
    return tiling_of(network, program, view, rtol, mesh, complete), stopped


def tiling_of(network: SplineNetwork, program: Program, view: Slice, rtol: float, mesh: Mesh, complete: bool) -> Tiling:
    return Tiling(
        view=view,
        vertices=mesh.points,
        tiles=cells_of(mesh.tiles),
        values=mesh.values,
        sites=program.sites,
        rtol=rtol,
        ending=network.ending,
        fingerprint=program.fingerprint,
        complete=complete,
        corner_labels=mesh.tiles.labels,
        frozen=program,
        network=network,
    )


def checked_network(
    model: object, view: Slice, progress: Progress | bool | None, output: int | str | None = None
) -> tuple[SplineNetwork, Program]:
    """The network and its program, once they are found to fit the slice."""
    check_progress(progress)
    network = trace(model, None, output=output) if isinstance(model, SplineNetwork) else traced(model, view, output)
    if tuple(network.input_shape) != view.input_shape:
        raise InputError(
            f"the slice must lie in the network's input space: inputs of shape {tuple(network.input_shape)} expected, "
            f"the slice has {view.input_shape}."
        )
    program = network.program()
    if soft := [step for step in program.steps if isinstance(step, Smooth)]:
        where = ", ".join(f"{step.site.path or 'model'} ({step.site.op})" for step in soft[:5])
        raise UnsupportedModelError(
            f"The network was traced with smooth=True and has smooth activations: {where}. They have no exact tiles; "
            "give tolerance=1e-3, say, to tile a network near it."
        )
    if not is_connected(program):
        raise InputError(
            "the network's output must depend on its input; no non-zero weight connects them, so it is constant."
        )
    return network, program


def traced(model: object, view: Slice, output: int | str | None = None, *, smooth: bool = False) -> SplineNetwork:
    """A module traced on inputs of the slice, in the module's own dtype."""
    check_slice(view)
    if not isinstance(model, nn.Module):
        raise InputError(f"model must be a torch.nn.Module or the result of trace or load, got {type(model).__name__}.")
    parameter = next(model.parameters(), None)
    # a module seen before is compared where it is looked at, and where folds come in: at corners
    inside = spread(len(view.domain), 4) @ view.domain
    example = torch.from_numpy(view.inputs(np.concatenate([view.domain[:28], inside])))
    example = example.to(parameter.dtype if parameter is not None else torch.get_default_dtype())
    try:
        return trace(model, example, output=output, smooth=smooth)
    except DidNotRun as error:
        raise InputError(f"the model does not take the slice's inputs, of shape {view.input_shape}: {error}") from error


def check_arguments(
    view: object,
    rtol: float,
    max_tiles: int | None,
    time_limit: float | None,
    threads: int | None,
    chunk_bytes: int,
    rows: str,
) -> None:
    check_slice(view)
    if not (isinstance(rtol, (int, float)) and np.isfinite(rtol) and 0 <= rtol < 1e-3):
        raise InputError(f"rtol must be a number in [0, 1e-3), got {rtol!r}.")
    for name, value in (("max_tiles", max_tiles), ("threads", threads), ("chunk_bytes", chunk_bytes)):
        if value is not None:
            check_whole(value, name)
    if rows not in ("auto", "plain", "factored"):
        raise InputError(f'rows must be "auto", "plain" or "factored", got {rows!r}.')
    if time_limit is not None:
        check_positive(time_limit, "time_limit")


def check_slice(view: object) -> None:
    if not isinstance(view, Slice):
        raise InputError(
            f"view must be a Slice, got {type(view).__name__}; see Slice.through, .box, .axes, .segment, "
            "and tessellate_each for a list of them."
        )
