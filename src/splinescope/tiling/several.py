"""`tessellate_each`: the tilings of one network on a list of slices, in this process or by several."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import nn

from ..network import SplineNetwork, trace
from ..network.program import Smooth
from ..support.archive import check_layout, require
from ..support.checks import check_whole
from ..support.errors import FileFormatError, InputError, LimitReached, SplinescopeError
from ..support.progress import Progress, check_progress, telling
from ..support.worker_processes import Arrays, share
from .engine.options import Options
from .engine.parts import packed_network, unpacked_network
from .files.loading import read_tiling
from .files.storage import MESH_LAYOUT, OPTIONAL, check_header, mesh_arrays, tiling_header
from .networks import checked_network, traced
from .slice import Slice
from .tessellate import tessellate, tiled_lines
from .tiling import Tiling
from .tolerance import Interpolated

_OF_ONE = {"out", "workers", "folder", "progress"}
_LINES_BYTES = 64 << 20  # of the pre-activations that say what is zero on lines that are tiled together
_PROBES_AND_ENDS = 8  # points at which each line asks for them


def tessellate_each(
    model: nn.Module | SplineNetwork,
    views: Sequence[Slice],
    *,
    workers: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
    **options: Any,
) -> list[Tiling]:
    """The tilings of a network on several slices, each bit for bit as `tessellate(model, view, **options)` gives it.

    Args:
        model: As for `tessellate`; it is read once.
        views: Slices of its input space, of any dimensions; the same one may come twice.
        workers: Share the slices between so many processes (by joblib, whose `parallel_config` may send them to dask
            or ray), each of one thread if `threads` says nothing else; None: here, lines all at once (they share every
            matrix product), others one after the other. To share the work on one large slice, give `workers` to
            `tessellate`.
        folder: With workers, where finished tilings are kept: the same call, made again, goes on from there.
        progress: As for `tessellate`, of the slices that are done.
        options: What else `tessellate` takes, but for `out`: `tolerance`, `rtol`, `threads`, `output`, ...; limits are
            for each slice by itself.

    Raises:
        LimitReached: A slice met a limit; the message says which, `.partial` is what was found on that one.
        SplinescopeError: What `tessellate` raises, with the number of the slice, from 1.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> lines = [ss.Slice.segment([-1.0, y], [1.0, y]) for y in (0.0, 0.5)]
        >>> [tiling.dimension for tiling in ss.tiling.tessellate_each(net, lines)]
        [1, 1]
    """
    views = _checked(views)
    check_progress(progress)
    if unknown := _OF_ONE.intersection(options):
        raise InputError(f"{', '.join(sorted(unknown))} belongs to one slice: give it to tessellate.")
    known = [name for name in signature(tessellate).parameters if name not in {"model", "view", *_OF_ONE}]
    if unknown := set(options).difference(known):
        raise InputError(f"options must be of {', '.join(known)}, got {', '.join(sorted(unknown))}.")
    if folder is not None and workers is None:
        raise InputError("folder keeps what workers have finished: it needs workers=.")
    output = options.pop("output", None)
    if isinstance(model, SplineNetwork):
        network = trace(model, None, output=output)
    else:
        network = traced(model, views[0], output, smooth=options.get("tolerance") is not None)
    with telling(progress, "slices") as report:
        if workers is None:
            found = _lines_together(network, views, options, report)
            for i, view in enumerate(views):
                if i not in found:
                    found[i] = _one(network, view, f"slice {i + 1} of {len(views)}", options)
                    report(len(found) / len(views), f"{len(found)} of {len(views)} slices")
        else:
            found = _by_workers(network, views, options, check_whole(workers, "workers"), folder, report)
    return [found[i] for i in range(len(views))]


def _checked(views: Any) -> list[Slice]:
    if isinstance(views, Slice) or not isinstance(views, Sequence) or not views:
        raise InputError(f"views must be a list of at least one Slice, got {type(views).__name__}.")
    for i, view in enumerate(views):
        if not isinstance(view, Slice):
            raise InputError(f"views must be Slices, got {type(view).__name__} as number {i + 1}.")
        if view.input_shape != views[0].input_shape:
            raise InputError(
                f"views must lie in one input space: number 1 has inputs of shape {views[0].input_shape}, "
                f"number {i + 1} of {view.input_shape}."
            )
    return list(views)


def _lines_together(
    network: SplineNetwork, views: list[Slice], options: dict[str, Any], report: Progress
) -> dict[int, Tiling]:
    """The lines among the slices, those that can be tiled together, by their place."""
    places = [i for i, view in enumerate(views) if view.dimension == 1]
    found: dict[int, Tiling] = {}
    if len(places) < 2 or options.get("tolerance") is not None:
        return found
    how = Options(**{name: value for name, value in options.items() if name != "tolerance"}, progress=False)
    try:
        network, program = checked_network(network, views[places[0]])
    except SplinescopeError:
        return found  # which a slice by itself meets, too, with its number
    numbers = sum(fold.site.units for fold in program.folds) + int(np.prod(program.input_shape))
    together = max(1, _LINES_BYTES // (8 * _PROBES_AND_ENDS * numbers))
    for start in range(0, len(places), together):
        some = places[start : start + together]

        def tell(share: float, now: str, done: int = start, count: int = len(some)) -> None:
            report((done + share * count) / len(views), f"{done + int(share * count)} of {len(views)} slices")

        tilings = tiled_lines(network, program, [views[i] for i in some], how, tell)
        if tilings is None:
            return found
        found.update(zip(some, tilings, strict=True))
    return found


def _one(network: SplineNetwork, view: Slice, name: str, options: dict[str, Any]) -> Tiling:
    """One slice, with its name in errors."""
    try:
        return tessellate(network, view, progress=False, **options)
    except LimitReached as error:
        raise LimitReached(f"{name}: {error}", error.partial) from error
    except SplinescopeError as error:
        raise type(error)(f"{name}: {error}") from error


def _by_workers(
    network: SplineNetwork, views: list[Slice], options: dict[str, Any], workers: int,
    folder: str | os.PathLike[str] | None, report: Progress,
) -> dict[int, Tiling]:  # fmt: skip
    model = packed_network(network)
    options = {"threads": 1, **options}
    about = hashlib.sha256(repr((network.fingerprint(), sorted(options.items()))).encode())
    names, items = [], []
    for i, view in enumerate(views):
        digest = about.copy()
        for array in (view.origin, view.basis, view.domain):
            digest.update(np.ascontiguousarray(array).tobytes())
        names.append(f"slice{i + 1}of{len(views)}-{digest.hexdigest()[:24]}")
        items.append((model, view, f"slice {i + 1} of {len(views)}", options))
    found: dict[int, Tiling] = {}
    results = share(
        _arrays_of_one, items, names, workers=workers, folder=folder, called=[item[2] for item in items],
        is_finished=lambda arrays: not arrays["stopped"].size,
        check=lambda name, i, arrays: _check(name, network, views[i], options, arrays),
    )  # fmt: skip
    with closing(results):
        for i, arrays in results:
            tiling = _read(network, views[i], names[i], arrays)
            if arrays["stopped"].size:
                raise LimitReached(arrays["stopped"].tobytes().decode(), tiling)
            found[i] = tiling
            report(len(found) / len(views), f"{len(found)} of {len(views)} slices")
    return found


def _arrays_of_one(model: np.ndarray, view: Slice, name: str, options: dict[str, Any]) -> Arrays:
    """`_one` in a process of its own: the arrays of a file of that tiling, and what stopped the work, if anything."""
    stopped = ""
    try:
        tiling = _one(unpacked_network(model, view), view, name, options)
    except LimitReached as error:
        tiling, stopped = error.partial, str(error)  # type: ignore[assignment]
    header = {**tiling_header(tiling), "errors": getattr(tiling.network, "errors", None)}
    return mesh_arrays(tiling) | {
        "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
        "stopped": np.frombuffer(stopped.encode(), np.uint8),
    }


def _read(network: SplineNetwork, view: Slice, name: str, arrays: Arrays) -> Tiling:
    """The tiling that a worker made, of this process's network (or of its interpolants, by the errors they have)."""
    header = json.loads(arrays["header"].tobytes())
    if header["errors"] is not None:
        network = Interpolated(network, header["errors"], torch.from_numpy(view.inputs(view.domain)))
    program = network.program()
    if header["fingerprint"] != program.fingerprint:
        raise FileFormatError(f"{name} holds the tiling of another network.")
    return replace(read_tiling(name, arrays, view, header), network=network, frozen=program)


def _check(name: str, network: SplineNetwork, view: Slice, options: dict[str, Any], arrays: Arrays) -> None:
    """Refuse arrays of a file that are not the finished tiling of a slice."""
    check_layout(name, arrays, {**MESH_LAYOUT, "header": (np.uint8, 1), "stopped": (np.uint8, 1)}, OPTIONAL)
    try:
        header = json.loads(arrays["header"].tobytes())
        check_header(header)
        require(header["complete"] and not arrays["stopped"].size, "end before the work was finished")
        require((header["approximation"] is None) == (options.get("tolerance") is None), "approximation")
        errors, least = header["errors"], _LEAST_ERROR * (options.get("tolerance") or 0.0)
        if errors is not None:
            wanted = {step.output for step in network.program().steps if isinstance(step, Smooth)}
            require(set(errors) == wanted, "interpolants")
            require(all(type(error) is float and least <= error < np.inf for error in errors.values()), "errors")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{name} is damaged: {type(error).__name__}: {error}.") from error
    _read(network, view, name, arrays)


_LEAST_ERROR = 1e-9  # of the tolerance: an interpolant with a smaller one, which nobody planned, would fill the memory
