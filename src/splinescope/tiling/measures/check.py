"""The invariants of a tiling, each with the sentence that says it failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ...network.rounding import cancelling_terms
from ...support.progress import stepping
from ..approximation import OfTiling
from ..cells.faces import face_counts
from ..cells.lists import CornerLists, means
from .differentiate import block_rows, blocks, outputs_and_codes, pattern_codes
from .maps import inner_points, vertex_values
from .neighbors import ProgramAtPoints

if TYPE_CHECKING:
    from ...network.program import Program
    from ..tiling import Tiling

_AREA_RTOL = 1e-9  # sums of up to millions of areas
_WIDE = 4096  # units: from here on the rows of many tiles are worked out together
_TOGETHER = 512  # tiles
_ROUNDED = 64  # tiles
_AFFINE_RTOL = 1e-9  # a vertex of a deep network carries the rounding of all layers before it


@dataclass(frozen=True, eq=False, repr=False)
class Report(OfTiling):
    """What `Tiling.check` found.

    Attributes:
        ok: All checks passed.
        passed: One sentence per invariant that was verified, with the measured number.
        failed: One sentence per invariant that does not hold.
        skipped: One sentence per invariant that could not be checked, and why.
        noted: Numbers worth knowing that decide nothing.
    """

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    skipped: tuple[str, ...]
    noted: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.failed

    def __repr__(self) -> str:
        return f"Report({len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped)"

    def summary(self) -> str:
        """One line per invariant."""
        return str(self) if self.certainty == "exact" else f"{self}\n{self.assurance}"

    def __str__(self) -> str:
        lines = [f"FAILED  {s}" for s in self.failed] + [f"ok      {s}" for s in self.passed]
        lines += [f"skipped {s}" for s in self.skipped] + [f"note    {s}" for s in self.noted]
        return "\n".join(lines)


def check_tiling(tiling: Tiling) -> Report:
    """See `Tiling.check`."""
    passed: list[str] = []
    failed: list[str] = []
    skipped: list[str] = []
    noted: list[str] = []

    def record(ok: bool, sentence: str) -> None:
        (passed if ok else failed).append(sentence)

    if tiling.count == 0:
        return Report(
            (), (), ("everything: the tiling is incomplete, a limit stopped the work before its first tile.",),
            certainty=tiling.certainty,
        )  # fmt: skip
    if tiling.complete:
        _check_topology(tiling, record, noted)
    else:
        skipped.append("Euler's formula and the sum of areas: the tiling is incomplete (a limit stopped the work).")
    smallest = float(tiling.areas.min(initial=np.inf))
    record(smallest > 0, f"every signed area is positive: the smallest is {smallest:.3g}.")
    error, tile, repeated = 0.0, 0, None
    if tiling.frozen is not None:
        error, tile, repeated = _against_network(tiling, tiling.frozen)
    elif tiling.values is not None:
        error, tile = _affine_error(tiling, tiling.values)
    if tiling.frozen is None and tiling.values is None:
        skipped.append("the map is affine on every tile: neither outputs nor the network are attached.")
    else:
        record(
            error <= _AFFINE_RTOL,
            f"the map is affine on every tile: largest relative error {error:.3g} (tile {tile}).",
        )
    if repeated is None:
        skipped.append("activation patterns differ between tiles: the network is not attached.")
    else:
        record(
            repeated == 0,
            f"activation patterns differ between tiles: {repeated} tiles repeat another's pattern.",
        )
    return Report(tuple(passed), tuple(failed), tuple(skipped), tuple(noted), certainty=tiling.certainty)


def _check_topology(tiling: Tiling, record, noted: list[str]) -> None:  # type: ignore[no-untyped-def]
    total, expected = float(tiling.areas.sum()), tiling.view.size
    record(
        abs(total - expected) <= _AREA_RTOL * expected,
        f"areas sum to the domain: {total:.15g} of {expected:.15g}.",
    )
    if tiling.dimension == 1:
        euler = len(tiling.vertices) - tiling.count
        record(euler == 1, f"vertices - tiles = 1: {len(tiling.vertices)} - {tiling.count} = {euler}.")
        return
    v, e, f = len(tiling.vertices), len(tiling.walls), tiling.count
    if tiling.dimension == 2:
        record(v - e + f == 1, f"vertices - edges + tiles = 1: {v} - {e} + {f} = {v - e + f}.")
    else:
        counts = face_counts(tiling)
        euler = sum((-1) ** k * n for k, n in enumerate(counts))
        record(euler == 1, f"the alternating sum of faces of all dimensions is 1: {counts} give {euler}.")
        degree = 2 * int((tiling.walls.tiles >= 0).all(1).sum()) / f
        noted.append(
            f"tiles have {degree:.4g} neighbours on average; arrangements have at most 2 d = {2 * tiling.dimension}."
        )
    one_sided = tiling.walls.tiles[:, 1] < 0
    stray = int((one_sided != (tiling.walls.cuts == -1)).sum())
    sides = np.bincount(tiling.walls.tiles[tiling.walls.tiles >= 0], minlength=f).sum()
    halves = tiling.tiles.side_offsets[-1]
    bad = stray + abs(int(halves - sides))
    record(bad == 0, f"every wall has a tile on both sides or lies on the domain's boundary: {bad} do not.")


def _against_network(tiling: Tiling, program: Program) -> tuple[float, int, int]:
    """How far the outputs in the middle of tiles are from the mean of their corners', and how many patterns repeat.

    One walk over the tiles: the middle of each goes through the network once, its corners only where the tiling does
    not hold their outputs. Wide networks are evaluated for many tiles together; tiles that then seem to repeat a
    pattern go through the network one by one. Returns the largest error relative to the largest output (or to the terms
    that cancel in it, if those are larger), its tile, and how many tiles have the activation pattern (in the middle) of
    another.
    """
    wide = sum(fold.site.cuts for fold in program.folds) > _WIDE
    codes = np.empty(tiling.count, np.uint64)
    scale, worst, where = float(np.finfo(float).tiny), 0.0, 0
    for block in stepping(list(blocks(tiling.count, _TOGETHER if wide else block_rows(program))), None, "check"):
        tiles = np.arange(block.start, block.stop)
        some = tiling.tiles.some(tiles)
        middles = some.corner_means(tiling.vertices)
        evaluate = _errors_together if wide else _errors
        errors, codes[block], size = evaluate(tiling, program, some, middles)
        scale = max(scale, size)
        if errors.max() > worst:
            worst, where = float(errors.max()), block.start + int(errors.argmax())
    if worst > _AFFINE_RTOL * scale:
        scale = max(scale, _cancelling_terms(tiling, program, where))
    repeated = tiling.count - len(np.unique(codes))
    if wide and repeated:
        _, group, sizes = np.unique(codes, return_inverse=True, return_counts=True)
        alike = np.flatnonzero(sizes[group] > 1)
        points = inner_points(tiling, alike)
        parts = blocks(len(alike), block_rows(program))
        again = [outputs_and_codes(program, tiling.view.inputs(points[part]))[1] for part in parts]
        repeated = len(alike) - len(np.unique(np.concatenate(again)))
    return worst / scale, where, repeated


def _cancelling_terms(tiling: Tiling, program: Program, worst: int) -> float:
    """How large the terms are that cancel in the outputs, in some tiles and the worst."""
    tiles = np.unique(np.append(np.linspace(0, tiling.count - 1, _ROUNDED).astype(int), worst))
    return cancelling_terms(program, torch.from_numpy(tiling.view.inputs(inner_points(tiling, tiles))))


def _errors(
    tiling: Tiling, program: Program, some: CornerLists, middles: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Per tile the error and the code of the pattern; and the largest output."""
    used, places = np.unique(some.corners, return_inverse=True)
    values = vertex_values(tiling, used)
    expected = means(values[places.reshape(-1)], some.offsets)
    found, codes = outputs_and_codes(program, tiling.view.inputs(middles))
    return np.abs(found - expected).max(1), codes, float(np.abs(values).max())


def _errors_together(
    tiling: Tiling, program: Program, some: CornerLists, middles: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """`errors` for a wide network; the largest output is that at some of the tiles."""
    count = len(middles)
    if tiling.values is not None:
        used, places = np.unique(some.corners, return_inverse=True)
        values = vertex_values(tiling, used)
        expected = means(values[places.reshape(-1)], some.offsets)
        together = ProgramAtPoints(program, tiling.view, middles)
        errors = np.abs(together.coefficients @ together.output - expected).max(1)
        return errors, pattern_codes(together.patterns, count), float(np.abs(values).max())
    used, places = np.unique(some.corners, return_inverse=True)
    together = ProgramAtPoints(program, tiling.view, np.concatenate([middles, tiling.vertices[used]]))
    coefficients = together.coefficients
    mean = means(coefficients[count:][places.reshape(-1)], some.offsets)
    output = together.output
    errors = np.abs((coefficients[:count] - mean) @ output).max(1)
    size = float(np.abs(coefficients[:count:16] @ output).max())
    return errors, pattern_codes([p[:count] for p in together.patterns], count), size


def _affine_error(tiling: Tiling, values: np.ndarray) -> tuple[float, int]:
    """Without the network: the largest distance of a tile's outputs from the plane nearest to them, and its tile.

    Relative to the largest output. Triangles and intervals have none.
    """
    offsets, corners = tiling.tiles.offsets, tiling.tiles.corners
    sizes = np.diff(offsets)
    worst, where = 0.0, 0
    for size in np.unique(sizes[sizes > tiling.dimension + 1]):
        tiles = np.flatnonzero(sizes == size)
        ids = corners[offsets[tiles][:, None] + np.arange(size)]
        points, outputs = tiling.vertices[ids], values[ids]
        frame = np.concatenate([points - points.mean(1, keepdims=True), np.ones((*ids.shape, 1))], 2)
        fit = frame @ np.linalg.pinv(frame) @ outputs
        errors = np.abs(outputs - fit).max((1, 2))
        if errors.max() > worst:
            worst, where = float(errors.max()), int(tiles[errors.argmax()])
    return worst / max(float(np.abs(values).max()), np.finfo(float).tiny), where
