"""One tiling by several processes: the domain split into parts, each tiled on its own, joined along the seams.

The corners of parts are named by where they are, so that a vertex on a seam has one name in both parts; walls on a
seam are marked as no real walls, like those that only losers of a max draw, and are taken out in the same way.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from .._errors import InputError, SplinescopeError
from .._files import check_folder
from .._parallel import Arrays, packed, share, unpacked
from .._progress import Progress
from .._threads import one_torch_thread
from ..network import SplineNetwork, trace
from ..network.program import Program
from ._chunk import Leaf
from ._engine import Engine
from ._mesh import Mesh
from ._plan import make_plan, probe_points
from ._solids import Solids
from ._splits import Part, names_of, split
from ._tiles import OUTSIDE, Tiles
from ._work import Work
from .slice import Slice

_PARTS_PER_WORKER = 4  # parts differ in how many tiles they have; more of them cost more at the seams
_DONE, _TOO_MANY, _TOO_LONG = 0, 1, 2  # how the work on a part ended


def leaves_by_parts(
    network: SplineNetwork, program: Program, view: Slice, *, rtol: float, rows: str, chunk_bytes: int,
    workers: int, folder: str | os.PathLike[str] | None, report: Progress, threads: int | None = None,
    max_tiles: int | None = None, time_limit: float | None = None,
) -> tuple[list[Leaf], str | None]:  # fmt: skip
    """The finished tiles of all parts, for `assemble` to join; and which limit stopped the work, if one did."""
    seam = -2 - sum(fold.site.units for fold in program.folds)
    model = packed_network(network)
    about = (view.origin, view.basis, view.domain, rtol, rows, chunk_bytes, program.fingerprint)
    digest = hashlib.sha256(repr((rtol, rows, chunk_bytes, program.fingerprint)).encode())
    for array in about[:3]:
        digest.update(np.ascontiguousarray(array).tobytes())
    call = digest.hexdigest()[:24]
    count = _earlier_split(folder, call) or _PARTS_PER_WORKER * workers
    parts = split(view.domain, count, seam)
    names = [f"{call}-by{count}-part{i + 1}of{len(parts)}" for i in range(len(parts))]
    called = [f"part {i + 1} of {len(parts)} ({_extent(part)})" for i, part in enumerate(parts)]
    deadline = None if time_limit is None else time.time() + time_limit  # of this machine's clock, and of all others
    items = [(model, about, part, max_tiles, deadline, threads or 1) for part in parts]
    leaves: dict[int, list[Leaf]] = {}
    pieces, seams, stopped = 0, 0, None
    results = share(
        _tile_part, items, names, workers=workers, folder=folder, called=called,
        is_finished=lambda arrays: not arrays["stopped"][0],
    )  # fmt: skip
    with closing(results):
        for i, arrays in results:
            leaves[i] = _leaves(i, arrays)
            pieces += sum(leaf.count for leaf in leaves[i])
            seams += sum(int((leaf.tiles.labels == seam).sum()) for leaf in leaves[i])
            tiles = pieces - seams // 2  # at least: a tile across a seam comes as two pieces with a wall each
            report(len(leaves) / len(parts), f"{len(leaves)} of {len(parts)} parts, {tiles:,} tiles")
            if max_tiles is not None and (tiles > max_tiles or arrays["stopped"][0] == _TOO_MANY):
                stopped = f"max_tiles={max_tiles} reached: the parts so far have at least {max(tiles, max_tiles + 1)}"
                break
            if arrays["stopped"][0] == _TOO_LONG:
                stopped = f"time_limit={time_limit} s reached"
    return [leaf for i in sorted(leaves) for leaf in leaves[i]], stopped


def _earlier_split(folder: str | os.PathLike[str] | None, call: str) -> int | None:
    """The number of parts that was asked for by an earlier run of a call, by however many workers, if any is kept.

    Of several, that of which the largest share is done.
    """
    if folder is None:
        return None
    kept: Counter[tuple[int, int]] = Counter()
    for file in check_folder(folder).glob(f"{call}-by*.npz"):
        if found := re.fullmatch(r".*-by(\d+)-part\d+of(\d+)\.npz", file.name):
            kept[int(found[1]), int(found[2])] += 1
    return max(kept, key=lambda split: (kept[split] / split[1], split))[0] if kept else None


def _extent(part: Part) -> str:
    """Where a part is, in the slice's coordinates."""
    low, high = (", ".join(f"{t:.4g}" for t in ends) for ends in (part.corners.min(0), part.corners.max(0)))
    return f"in slice coordinates ({low}) to ({high})"


def closed_seams(mesh: Mesh, program: Program, complete: bool) -> Mesh:
    """The mesh, refused if a seam is left in it; where parts are missing, seams to them are boundaries."""
    left = mesh.tiles.labels >= sum(fold.site.units for fold in program.folds)
    if not left.any():
        return mesh
    if complete:
        raise SplinescopeError("a seam between parts did not close: please report this network and slice.")
    return replace(mesh, tiles=replace(mesh.tiles, labels=np.where(left, np.int32(OUTSIDE), mesh.tiles.labels)))


def packed_network(network: SplineNetwork) -> np.ndarray:
    """The module as bytes, and how it is read: programs are closures and stay where they are made."""
    if getattr(network, "_model", None) is None:
        raise InputError("workers need the module that the network was read from; this network has none.")
    return packed((network._model, network._output, network._smooth, network.derived))


_READ: dict[bytes, SplineNetwork] = {}


def unpacked_network(model: np.ndarray, view: Slice) -> SplineNetwork:
    """The network read from the module's bytes; the last one is kept, for the next part."""
    key = hashlib.sha256(model.tobytes()).digest()
    if key not in _READ:
        module, output, smooth, derived = unpacked(model)
        parameter = next(module.parameters(), None)
        dtype = parameter.dtype if parameter is not None else torch.get_default_dtype()
        example = torch.from_numpy(view.inputs(view.domain[:2])).to(dtype)
        _READ.clear()
        network = trace(module, example, output=output, smooth=smooth)
        _READ[key] = network if derived is None else derived(network)
    return _READ[key]


def _tile_part(
    model: np.ndarray, about: tuple[Any, ...], part: Part, max_tiles: int | None, deadline: float | None, threads: int
) -> Arrays:
    """Tiles one part, in a process of its own."""
    origin, basis, domain, rtol, rows, chunk_bytes, fingerprint = about
    view = Slice(origin, basis, domain)
    program = unpacked_network(model, view).program()
    if program.fingerprint != fingerprint:
        raise SplinescopeError("the module sent to a worker is read differently there than here.")
    with one_torch_thread(), torch.no_grad():
        probes = torch.from_numpy(view.inputs(probe_points(program, view.domain)))
        engine = Engine(make_plan(program, probes, rtol, rows, view.dimension), program.output, chunk_bytes)
        first = engine.start_on(view, program.input, part.corners, part.tiles(), names_of(part.corners))
        left = None if deadline is None else max(deadline - time.time(), 0.0)
        work = Work(engine, first, view.size, max_tiles, left, None)
        work.run(threads)
    why = _DONE if work.stopped is None else _TOO_MANY if work.stopped.startswith("max_tiles") else _TOO_LONG
    arrays: Arrays = {"leaves": np.array([len(work.leaves)]), "stopped": np.array([why])}
    for i, leaf in enumerate(sorted(work.leaves, key=lambda leaf: leaf.path)):
        arrays |= {
            f"{i}.names": leaf.names, f"{i}.points": leaf.points, f"{i}.offsets": leaf.tiles.offsets,
            f"{i}.corners": leaf.tiles.corners, f"{i}.labels": leaf.tiles.labels,
        }  # fmt: skip
        if leaf.values is not None:
            arrays[f"{i}.values"] = leaf.values
        if isinstance(leaf.tiles, Solids):
            arrays |= {f"{i}.masks": leaf.tiles.masks, f"{i}.facet_offsets": leaf.tiles.facet_offsets}
    return arrays


def _leaves(part: int, arrays: Arrays) -> list[Leaf]:
    """The leaves of one part, in their order behind those of earlier parts."""
    leaves = []
    for i in range(int(arrays["leaves"][0])):
        offsets, corners, labels = (arrays[f"{i}.{name}"] for name in ("offsets", "corners", "labels"))
        tiles = Tiles(offsets, corners, labels.copy())
        if f"{i}.masks" in arrays:
            tiles = Solids(offsets, corners, labels.copy(), arrays[f"{i}.masks"], arrays[f"{i}.facet_offsets"])
        leaves.append(Leaf((part, i), arrays[f"{i}.names"], arrays[f"{i}.points"], arrays.get(f"{i}.values"), tiles))
    return leaves
