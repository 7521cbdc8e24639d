"""`tessellate`: the exact tiling of a network on a slice."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Literal

import torch
from torch import nn

from ..network import SplineNetwork, trace
from ..network.program import Program
from ..support.errors import LimitReached, NotWrittenError
from ..support.files import check_writable, temporary_folder
from ..support.progress import Progress, telling
from ..support.threads import one_torch_thread
from .cells.polytopes import cells_of
from .engine.advance import Engine, Keep
from .engine.assemble import assemble
from .engine.chunk import Leaf
from .engine.lines import line_meshes
from .engine.mesh import Mesh
from .engine.options import CHUNK_BYTES, Options
from .engine.partial import at_most
from .engine.parts import closed_seams, leaves_by_parts
from .engine.plan import Plan, make_plan, probe_points
from .engine.schedule import Work
from .engine.spool import Spool
from .files.loading import load_tiling
from .networks import check_slice, checked_network, traced
from .slice import Slice, placed
from .smooth_networks import tessellate_within
from .tiling import Tiling

_MANY_SOLIDS = 200_000  # cells of three and more dimensions that wait as they are, some hundred bytes each
_SECONDS_TO_JOIN = 2e-7  # for a tile and dimension: what `assemble` takes after the last cut


def tessellate(
    model: nn.Module | SplineNetwork, view: Slice, *, tolerance: float | None = None, rtol: float = 1e-12,
    max_tiles: int | None = None, time_limit: float | None = None, progress: Progress | bool | None = None,
    threads: int | None = None, chunk_bytes: int = CHUNK_BYTES, rows: Literal["auto", "plain", "factored"] = "auto",
    workers: int | None = None, folder: str | os.PathLike[str] | None = None, out: str | os.PathLike[str] | None = None,
    output: int | str | None = None,
) -> Tiling:  # fmt: skip
    """The exact tiling of a network on a slice of one to eight dimensions.

    On each tile every value in the network is affine, so its values at the tile's corners are all there is to
    know: the corners go through the real torch ops in float64, and each non-linearity cuts the tiles along its
    units' folds. Exact up to float64 rounding and `rtol`. With plain rows no bit depends on `threads`, `chunk_bytes`
    or limits. The model is not changed.

    Args:
        model: A torch module (in eval mode if it has batch norm or dropout), or the result of `trace` or `load`.
        view: Where: a line, plane or space of the input space, with its domain.
        tolerance: For smooth networks (GELU, SiLU, tanh, softplus, ELU, ...): tile one that differs from it by at most
            this much, absolutely, in any output on the slice, with interpolants for activations. The tiling is exact
            for that network; `Tiling.approximation` has the proven `bound` and the measured `deviation`, which decides
            where the bound is hopeless (`basis` says so). None: smooth networks are refused.
        rtol: A pre-activation is zero if it is below rtol times the sum of the absolute terms it is made of.
        max_tiles: Stop with `LimitReached` once so many tiles are finished and there are more. Beside a max the partial
            tiling may have fewer: walls between losers, which split tiles while they are cut, are gone from it.
        time_limit: Stop with `LimitReached` after this many seconds, or a tenth more; reading the model and compiling
            kernels count. The first few tiles come in any case.
        progress: None: a bar on a terminal, a line in a notebook or a log, once it takes over three seconds; True: a
            bar at once; False: nothing; or a function of (share of the domain finished, tiles so far).
        threads: How many threads cut tiles; all cores by default. With workers, those of each process; one by default.
        chunk_bytes: Memory for the rows of one chunk of tiles (8 times as much for a basis of factored rows).
        rows: How values are carried: "plain", one row per vertex; "factored", all rows of a chunk as combinations of a
            few, which pays where many layers are wide; "auto" chooses by the sizes of network and slice: engine page.
        workers: Share the work between so many processes (by joblib, whose `parallel_config` may send it to dask or
            ray): parts of the domain are tiled on their own and the seams taken out again. The same tiles and walls, in
            another order. Worth it from about 10 seconds of work on; with 1 the parts are tiled here, one by one.
        folder: With workers, where finished parts are kept: the same call, made again, goes on from there, whatever
            ended the first one.
        out: A file to write the tiling to, as `Tiling.save` does; what is returned is mapped from it. Lines and planes
            are written as their parts are finished (ten million tiles: some 1.2 GB of memory). A max-pool and workers
            need the whole once more; beyond planes it is held, some 2 kB a tile in 5-D. The file is whole or not there.
        output: Which tensor is meant where a module returns several: its index or its name (see `trace`).

    Raises:
        LimitReached: With `.partial`, the tiles finished so far, marked incomplete.
        InputError: An argument is not what is accepted, or no weight connects the network's output to its input.
        UnsupportedModelError: The model is not piecewise affine; all offending layers are named.

    Cost: about one to forty microseconds per tile, memory bounded by the result plus a few chunks.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> tiling = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -3, 3))
        >>> bool(tiling.check().ok)
        True

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", equation (5).
    """
    check_slice(view)
    options = Options(
        rtol=rtol, max_tiles=max_tiles, time_limit=time_limit, progress=progress, threads=threads,
        chunk_bytes=chunk_bytes, rows=rows, workers=workers, folder=folder,
    )  # fmt: skip
    if out is not None:
        check_writable(out)
    if tolerance is None:
        return _exactly(model, view, options, output, out)
    known = isinstance(model, SplineNetwork)
    smooth = trace(model, None, output=output) if known else traced(model, view, output, smooth=True)
    tiling = tessellate_within(smooth, view, tolerance, lambda near: _exactly(near, view, options))
    return tiling if out is None else _stored(tiling, out)


def _exactly(
    model: object, view: Slice, options: Options, output: int | str | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Tiling:  # fmt: skip
    """`tessellate` of a piecewise-affine network."""
    network, program = checked_network(model, view, output)
    if options.workers is None:
        tiling, stopped = tile(network, program, view, options, out=out)
    else:
        tiling, stopped = _by_parts(network, program, view, options)
        if out is not None and stopped is None:
            tiling = _stored(tiling, out)
    if stopped is not None:
        raise LimitReached(f"{stopped}; {tiling.count} tiles were finished.", tiling)
    return tiling


def tile(
    network: SplineNetwork, program: Program, view: Slice, options: Options, *,
    keep: Callable[[Plan], Keep] | None = None, out: str | os.PathLike[str] | None = None,
) -> tuple[Tiling, str | None]:  # fmt: skip
    """`tessellate` in this process; and which limit stopped it, if one did.

    `keep` makes, from the plan, what says before every fold which tiles are wanted: the others are left out.
    """
    if out is None:
        return _tile(network, program, view, options, keep, None)
    try:
        with temporary_folder(out) as place, closing(Spool(place, view.domain)) as spool:
            tiling, stopped = _tile(network, program, view, options, keep, spool)
            return (tiling, stopped) if stopped is not None else (_stored(tiling, out), None)
    except NotWrittenError:
        raise
    except OSError as error:
        raise NotWrittenError(f"{os.fspath(out)} was not written, what was there before stays: {error}.") from error


def _tile(
    network: SplineNetwork, program: Program, view: Slice, options: Options,
    keep: Callable[[Plan], Keep] | None, spool: Spool | None,
) -> tuple[Tiling, str | None]:  # fmt: skip
    if view.dimension == 1 and keep is None and spool is None:
        (tiling,) = tiled_lines(network, program, [view], options) or (None,)
        if tiling is not None:
            return tiling, None
    _ = program.fingerprint  # reads all weights: within the time limit, not after it
    with one_torch_thread(), torch.no_grad():
        probes = torch.from_numpy(placed(view, probe_points(program, view.domain)))
        plan = make_plan(program, probes, options.rtol, options.rows, view.dimension)
        engine = Engine(plan, program.output, options.chunk_bytes, None if keep is None else keep(plan))
        first = engine.start_on(view, program.input)
        with telling(options.progress, "tiling") as report:
            held: list[Leaf] = []

            def take(leaf: Leaf) -> None:
                if spool is not None:
                    spool.append(leaf)
                else:  # solids have some ten times the bytes of a polygon; packing few of them costs more than it saves
                    many = view.dimension > 2 and sum(known.count for known in held) > _MANY_SOLIDS
                    held.append(leaf.packed() if many else leaf)

            told = None if options.progress is False else report
            # a level set may have no tile at all: its search ends in time
            work = Work(
                engine, first, view.size, options.max_tiles, options.clock, told, take, await_first=keep is None,
                per_tile=_SECONDS_TO_JOIN * view.dimension,
            )  # fmt: skip
            while True:
                work.run(options.threads or os.cpu_count() or 1)
                if spool is not None and work.stopped is None:
                    mesh = spool.assembled()
                else:
                    leaves = held if spool is None else list(spool.leaves())
                    whole = work.stopped is None  # else it may go on, and needs the leaves once more
                    mesh = assemble(leaves if whole else leaves.copy(), view.domain, whole)
                if len(mesh.tiles) or work.stopped is None or keep is not None:
                    break
                work.go_on()  # beside a max, pieces whose tile is not whole yet were all there was
    mesh, stopped = at_most(options.max_tiles, mesh, work.stopped)
    return _tiling_of(network, program, view, options.rtol, mesh, stopped is None and keep is None), stopped


def tiled_lines(
    network: SplineNetwork, program: Program, views: Sequence[Slice], options: Options, report: Progress | None = None
) -> list[Tiling] | None:
    """The tilings on several lines, which share every matrix product; None if each must be tiled by itself."""
    if options.max_tiles is not None or options.time_limit is not None or options.workers is not None:
        return None
    told = options.progress if report is None else report
    with one_torch_thread(), torch.no_grad(), telling(told, "tiling") as tell:
        meshes = line_meshes(
            program, views, options.rtol, options.rows, options.chunk_bytes, options.threads or os.cpu_count() or 1,
            None if told is False else tell,
        )  # fmt: skip
    if meshes is None:
        return None
    return [
        _tiling_of(network, program, view, options.rtol, mesh, True) for view, mesh in zip(views, meshes, strict=True)
    ]


def _stored(tiling: Tiling, out: str | os.PathLike[str]) -> Tiling:
    """The tiling written to a file, and its arrays mapped from there."""
    tiling.save(out)
    return replace(load_tiling(out), network=tiling.network, frozen=tiling.frozen)


def _by_parts(network: SplineNetwork, program: Program, view: Slice, options: Options) -> tuple[Tiling, str | None]:
    """`tessellate` by several processes; and which limit stopped it, if one did."""
    with telling(options.progress, "tiling") as report:
        leaves, stopped = leaves_by_parts(network, program, view, options, report)
    mesh = closed_seams(assemble(leaves, view.domain, stopped is None), program, stopped is None)
    if stopped is not None and not len(mesh.tiles):  # no part has a whole tile: the first ones are made here
        return tile(network, program, view, options)
    mesh, stopped = at_most(options.max_tiles, mesh, stopped)
    return _tiling_of(network, program, view, options.rtol, mesh, stopped is None), stopped


def _tiling_of(
    network: SplineNetwork, program: Program, view: Slice, rtol: float, mesh: Mesh, complete: bool
) -> Tiling:
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
