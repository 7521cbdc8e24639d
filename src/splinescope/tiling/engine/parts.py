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

from ...network import SplineNetwork, trace
from ...network.program import Program
from ...support.archive import Layout, check_layout
from ...support.errors import FileFormatError, InputError, SplinescopeError
from ...support.files import check_folder
from ...support.progress import Progress
from ...support.threads import one_torch_thread
from ...support.worker_processes import ENDING, Arrays, packed, share, unpacked
from ..cells.solids import Solids
from ..cells.tiles import OUTSIDE, Tiles
from ..files.storage import check_arrays, check_filled
from ..slice import Slice
from .advance import Engine
from .assemble import Mesh
from .chunk import Leaf
from .options import Options
from .plan import make_plan, probe_points
from .schedule import Work
from .splits import Part, names_of, split
from .time_limit import Clock

_PARTS_PER_WORKER = 4  # parts differ in how many tiles they have; more of them cost more at the seams
_MOST_PARTS = 4096  # of one tiling: splitting a line takes time that grows with the square
_DONE, _TOO_MANY, _TOO_LONG = 0, 1, 2  # how the work on a part ended


def leaves_by_parts(
    network: SplineNetwork, program: Program, view: Slice, options: Options, report: Progress
) -> tuple[list[Leaf], str | None]:
    """The finished tiles of all parts, for `assemble` to join; and which limit stopped the work, if one did."""
    seam = -2 - sum(fold.site.units for fold in program.folds)
    model = packed_network(network)
    workers, folder, max_tiles, clock = options.workers or 1, options.folder, options.max_tiles, options.clock
    about = (options.rtol, options.rows, options.chunk_bytes, program.fingerprint)
    digest = hashlib.sha256(repr(about).encode())
    for array in (view.origin, view.basis, view.domain):
        digest.update(np.ascontiguousarray(array).tobytes())
    call = digest.hexdigest()[:24]
    count, made = _earlier_split(folder, call) or (min(_PARTS_PER_WORKER * workers, _MOST_PARTS), None)
    parts = split(view.domain, count, seam)
    if made not in (None, len(parts)):
        told = f"{call}-by{count}-part...of{made}{ENDING} in {folder}"
        raise _no_part(told, f"by {count} there are {len(parts)} parts")
    names = [f"{call}-by{count}-part{i + 1}of{len(parts)}" for i in range(len(parts))]
    called = [f"part {i + 1} of {len(parts)} ({_extent(part)})" for i, part in enumerate(parts)]
    deadline = None if clock.left is None else time.time() + clock.left  # of this machine's clock, and of all others
    items = [(model, view, about, part, max_tiles, deadline, options.threads or 1) for part in parts]
    leaves: dict[int, list[Leaf]] = {}
    pieces, seams, stopped = 0, 0, None
    results = share(
        _tile_part, items, names, workers=workers, folder=folder, called=called,
        is_finished=lambda arrays: not arrays["stopped"][0],
        check=lambda name, i, arrays: _check_part(name, parts[i], arrays, view, -2 - seam),
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
                stopped = clock.reached
    return [leaf for i in sorted(leaves) for leaf in leaves[i]], stopped


def _earlier_split(folder: str | os.PathLike[str] | None, call: str) -> tuple[int, int] | None:
    """How many parts an earlier run of a call asked for and got, by however many workers, if any is kept.

    Of several, that of which the largest share is done.
    """
    if folder is None:
        return None
    kept: Counter[tuple[int, int]] = Counter()
    for file in check_folder(folder).glob(f"{call}-by*{ENDING}"):
        if found := re.fullmatch(r".*-by(\d+)-part(\d+)of(\d+)", file.stem):
            count, number, made = map(int, found.groups())
            if not (1 <= count <= _MOST_PARTS and 1 <= number <= made):
                raise _no_part(str(file), f"parts are numbered from 1, and split by 1 to {_MOST_PARTS}")
            kept[count, made] += 1
    return max(kept, key=lambda split: (kept[split] / split[1], split)) if kept else None


def _no_part(file: str, because: str) -> FileFormatError:
    """Anybody may have named a file: what its name says is not done before it is known to be possible."""
    return FileFormatError(f"{file} cannot be a part of this tiling by its name: {because}. Remove it, and call again.")


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
        _READ.clear()
        network = trace(module, view.inputs(view.domain[:2]), output=output, smooth=smooth)
        _READ[key] = network if derived is None else derived(network)
    return _READ[key]


def _tile_part(
    model: np.ndarray, view: Slice, about: tuple[Any, ...], part: Part, max_tiles: int | None, deadline: float | None,
    threads: int,
) -> Arrays:  # fmt: skip
    """Tiles one part, in a process of its own."""
    rtol, rows, chunk_bytes, fingerprint = about
    program = unpacked_network(model, view).program()
    if program.fingerprint != fingerprint:
        raise SplinescopeError("the module sent to a worker is read differently there than here.")
    with one_torch_thread(), torch.no_grad():
        probes = torch.from_numpy(view.inputs(probe_points(program, view.domain)))
        engine = Engine(make_plan(program, probes, rtol, rows, view.dimension), program.output, chunk_bytes)
        first = engine.start_on(view, program.input, part.corners, part.tiles(), names_of(part.corners))
        left = None if deadline is None else max(deadline - time.time(), 0.0)
        work = Work(engine, first, view.size, max_tiles, Clock(left), None, await_first=False)
        work.run(threads)
    why = _DONE if work.stopped is None else _TOO_MANY if work.stopped.startswith("max_tiles") else _TOO_LONG
    arrays: Arrays = {"leaves": np.array([len(work.leaves)], np.int64), "stopped": np.array([why], np.int64)}
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


_LEAF: Layout = {
    "names": (np.uint64, 1),
    "points": (np.float64, 2),
    "offsets": (np.int64, 1),
    "corners": (np.int32, 1),
    "labels": (np.int32, 1),
    "values": (np.float64, 2),
    "masks": (np.uint64, 2),
    "facet_offsets": (np.int64, 1),
}


def _check_part(name: str, part: Part, arrays: Arrays, view: Slice, units: int) -> None:
    """Refuse arrays of a file that are not the finished tiles of a part: no kernel checks what it is given."""
    count = sum(key.endswith(".names") for key in arrays)
    layout = {f"{i}.{key}": kind for i in range(count) for key, kind in _LEAF.items()}
    optional = [key for key in layout if key.endswith((".values", ".masks", ".facet_offsets"))]
    check_layout(name, arrays, {**layout, "leaves": (np.int64, 1), "stopped": (np.int64, 1)}, optional)
    if arrays["leaves"].tolist() != [count] or arrays["stopped"].tolist() != [_DONE]:
        raise FileFormatError(f"{name} is damaged: it must hold all tiles of a part that is finished.")
    total = 0.0
    outputs = set()
    for i in range(count):
        own = {key: arrays[f"{i}.{key}"] for key in _LEAF if f"{i}.{key}" in arrays}
        if len(own["names"]) != len(own["points"]):
            raise FileFormatError(f"{name} is damaged: every vertex must have a name.")
        outputs.add(own["values"].shape[1] if "values" in own else None)
        total += check_arrays(name, {_STORED.get(key, key): own[key] for key in own}, view, units, False, raw=True)
    if len(outputs) > 1:
        raise FileFormatError(f"{name} is damaged: all vertices must have outputs of one size, or none.")
    if view.dimension < 3:
        check_filled(name, total, part.tiles().size(part.corners), view)


_STORED = {
    "points": "vertices",
    "offsets": "tile_offsets",
    "corners": "tile_corners",
    "labels": "corner_labels",
    "masks": "facet_bits",
}
"""What the arrays of a leaf are called in files of tilings, where they are not called the same."""
