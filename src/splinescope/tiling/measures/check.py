"""The invariants of a tiling, each with the sentence that says it failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ...network.ranges import cancelling_terms
from ...support.progress import stepping
from ..approximation import TilingResult
from ..cells.lists import CornerLists, distinct, means
from ..cells.polytopes import Facets
from .differentiate import block_rows, blocks, outputs_and_codes, pattern_codes
from .maps import corner_values, inner_points, vertex_values
from .points_together import ProgramAtPoints, points_together

if TYPE_CHECKING:
    from ..tiling import Tiling

_AREA_RTOL = 1e-9  # sums of up to millions of areas
_ROUNDED = 64  # tiles whose terms tell how large rounding is
_AFFINE_RTOL = 1e-9  # a vertex of a deep network carries the rounding of all layers before it


@dataclass(frozen=True, eq=False, repr=False)
class TilingCheck(TilingResult):
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
        return f"TilingCheck({len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped)"

    def summary(self) -> str:
        """One line per invariant."""
        marks = {"FAILED ": self.failed, "ok     ": self.passed, "skipped": self.skipped, "note   ": self.noted}
        lines = [f"{mark} {sentence}" for mark, sentences in marks.items() for sentence in sentences]
        return "\n".join(lines if self.certainty == "exact" else [*lines, self.assurance])

    __str__ = summary


def check_tiling(tiling: Tiling) -> TilingCheck:
    """See `Tiling.check`."""
    if tiling.count == 0:
        nothing = "everything: the tiling is incomplete, a limit stopped the work before its first tile."
        return TilingCheck((), (), (nothing,), certainty=tiling.certainty)
    found: list[tuple[bool, str]] = []
    skipped: list[str] = []
    noted: list[str] = []
    if tiling.complete:
        found += _topology(tiling, noted)
    else:
        skipped.append("Euler's formula and the sum of areas: the tiling is incomplete (a limit stopped the work).")
    smallest = float(tiling.areas.min(initial=np.inf))
    found.append((smallest > 0, f"every signed area is positive: the smallest is {smallest:.3g}."))
    if tiling.frozen is not None or tiling.values is not None:
        error, tile, repeated = _affine_error(tiling) if tiling.frozen is None else _against_network(tiling)
        words = f"the map is affine on every tile: largest relative error {error:.3g} (tile {tile})."
        found.append((error <= _AFFINE_RTOL, words))
    else:
        skipped.append("the map is affine on every tile: neither outputs nor the network are attached.")
    if tiling.frozen is not None:
        words = f"activation patterns differ between tiles: {repeated} tiles repeat another's pattern."
        found.append((repeated == 0, words))
    else:
        skipped.append("activation patterns differ between tiles: the network is not attached.")
    passed, failed = (tuple(words for ok, words in found if bool(ok) is side) for side in (True, False))
    return TilingCheck(passed, failed, tuple(skipped), tuple(noted), certainty=tiling.certainty)


def _topology(tiling: Tiling, noted: list[str]) -> list[tuple[bool, str]]:
    """What is found of areas, faces and walls of a complete tiling."""
    total, expected = float(tiling.areas.sum()), tiling.view.size
    sum_is_right = abs(total - expected) <= _AREA_RTOL * expected
    found = [(sum_is_right, f"areas sum to the domain: {total:.15g} of {expected:.15g}.")]
    v, f = len(tiling.vertices), tiling.count
    if tiling.dimension == 1:
        return [*found, (v - f == 1, f"vertices - tiles = 1: {v} - {f} = {v - f}.")]
    walls = tiling.walls
    if tiling.dimension == 2:
        euler = v - len(walls) + f
        found.append((euler == 1, f"vertices - edges + tiles = 1: {v} - {len(walls)} + {f} = {euler}."))
    else:
        if tiling.dimension == 3:
            assert isinstance(walls, Facets)
            ends = CornerLists(walls.offsets, walls.vertices).edges().T.astype(np.int64)  # around each wall
            e = len(distinct(np.minimum(*ends) * v + np.maximum(*ends)))
            euler = v - e + len(walls) - f
            words = f"vertices - edges + walls - cells = 1: {v} - {e} + {len(walls)} - {f} = {euler}."
            found.append((euler == 1, words))
        degree = 2 * int((walls.tiles >= 0).all(1).sum()) / f
        noted.append(
            f"tiles have {degree:.4g} neighbors on average; arrangements have at most 2 d = {2 * tiling.dimension}."
        )
    stray = int(((walls.tiles[:, 1] < 0) != (walls.cuts == -1)).sum())
    bad = stray + abs(int(tiling.tiles.side_offsets[-1] - np.count_nonzero(walls.tiles >= 0)))
    words = f"every wall has a tile on both sides or lies on the domain's boundary: {bad} do not."
    return [*found, (bad == 0, words)]


def _against_network(tiling: Tiling) -> tuple[float, int, int]:
    """How far the outputs in the middle of tiles are from the mean of their corners', and how many patterns repeat.

    The middle of each tile goes through the network once, its corners only where the tiling does not hold their
    outputs. Returns the largest error relative to the largest output (or to the terms that cancel in it, if those are
    larger), its tile, and how many tiles have the activation pattern (in the middle) of another.
    """
    program = tiling.program("checks")
    codes = np.empty(tiling.count, np.uint64)
    scale, worst, where = float(np.finfo(float).tiny), 0.0, 0
    together = points_together(program, tiling.view)
    for block in stepping(list(blocks(tiling.count, together or block_rows(program))), None, "check"):
        some = tiling.tiles.some(np.arange(block.start, block.stop))
        values = corner_values(tiling, some.corners)
        expected = means(values, some.offsets)
        middles = some.corner_means(tiling.vertices)
        if together:
            near = ProgramAtPoints(program, tiling.view, middles)
            found, codes[block] = near.coefficients @ near.output, pattern_codes(near.patterns, len(middles))
        else:
            found, codes[block] = outputs_and_codes(program, tiling.view.inputs(middles))
        errors = np.abs(found - expected).max(1)
        scale = max(scale, float(np.abs(values).max()))
        if errors.max() > worst:
            worst, where = float(errors.max()), block.start + int(errors.argmax())
    if worst > _AFFINE_RTOL * scale:
        tiles = np.unique(np.append(np.linspace(0, tiling.count - 1, _ROUNDED).astype(int), where))
        inputs = torch.from_numpy(tiling.view.inputs(inner_points(tiling, tiles)))
        scale = max(scale, cancelling_terms(program, inputs))
    if together:  # units near zero are told apart less finely: tiles that seem alike go one by one
        _, group, sizes = np.unique(codes, return_inverse=True, return_counts=True)
        alike = np.flatnonzero(sizes[group] > 1)
        points = inner_points(tiling, alike)
        codes = np.zeros(len(alike), np.uint64)
        for part in blocks(len(alike), block_rows(program)):
            codes[part] = outputs_and_codes(program, tiling.view.inputs(points[part]))[1]
    return worst / scale, where, len(codes) - len(distinct(codes))


def _affine_error(tiling: Tiling) -> tuple[float, int, int]:
    """Without the network: the largest distance of a tile's outputs from the plane nearest to them, and its tile.

    Relative to the largest output. Triangles and intervals have none. Nothing is known of patterns.
    """
    values = vertex_values(tiling, np.arange(len(tiling.vertices)))
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
    return worst / max(float(np.abs(values).max()), np.finfo(float).tiny), where, 0
