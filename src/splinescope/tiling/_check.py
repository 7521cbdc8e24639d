"""The invariants of a tiling, each with the sentence that says it failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from .faces import face_counts

if TYPE_CHECKING:
    from .tiling import Tiling

_AREA_RTOL = 1e-9  # sums of up to millions of areas
_AFFINE_RTOL = 1e-9  # a vertex of a deep network carries the rounding of all layers before it
_BLOCK = 256  # points that run through the network together: wide image networks hold megabytes for each


@dataclass(frozen=True)
class Report:
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
            (), (), ("everything: the tiling is incomplete, a limit stopped the work before its first tile.",)
        )
    if tiling.complete:
        _check_topology(tiling, record, noted)
    else:
        skipped.append("Euler's formula and the sum of areas: the tiling is incomplete (a limit stopped the work).")
    smallest = float(tiling.areas.min(initial=np.inf))
    record(smallest > 0, f"every signed area is positive: the smallest is {smallest:.3g}.")
    if tiling.values is None and tiling.network is None:
        skipped.append("the map is affine on every tile: neither outputs nor the network are attached.")
    else:
        error, tile = _affine_error(tiling)
        record(
            error <= _AFFINE_RTOL,
            f"the map is affine on every tile: largest relative error {error:.3g} (tile {tile}).",
        )
    if tiling.network is None:
        skipped.append("activation patterns differ between tiles: the network is not attached.")
    else:
        repeated = _repeated_patterns(tiling)
        record(
            repeated == 0,
            f"activation patterns differ between tiles: {repeated} tiles repeat another's pattern.",
        )
    return Report(tuple(passed), tuple(failed), tuple(skipped), tuple(noted))


def _check_topology(tiling: Tiling, record, noted: list[str]) -> None:  # type: ignore[no-untyped-def]
    total, expected = float(tiling.areas.sum()), tiling.slice.size
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
    stray = int((one_sided != (tiling.walls.units == -1)).sum())
    sides = np.bincount(tiling.walls.tiles[tiling.walls.tiles >= 0], minlength=f).sum()
    halves = tiling.tiles.side_offsets[-1]
    bad = stray + abs(int(halves - sides))
    record(bad == 0, f"every wall has a tile on both sides or lies on the domain's boundary: {bad} do not.")


def _affine_error(tiling: Tiling) -> tuple[float, int]:
    """Largest distance of outputs at corners from the affine map through three of them, relative to their size.

    The three corners are spread around the tile. A point inside each tile is tried as well where the network is
    attached, so that triangles are checked too.
    """
    values = tiling.values
    if values is None:
        values = np.concatenate(
            [_outputs(tiling, tiling.vertices[i : i + _BLOCK]) for i in range(0, len(tiling.vertices), _BLOCK)]
        )
    scale = max(float(np.abs(values).max()), np.finfo(float).tiny)
    offsets, corners = tiling.tiles.offsets, tiling.tiles.corners
    sizes = np.diff(offsets)
    worst, where = 0.0, 0
    if tiling.network is not None:
        for start in range(0, tiling.count, _BLOCK):
            span = slice(offsets[start], offsets[min(start + _BLOCK, tiling.count)])
            n = sizes[start : start + _BLOCK]
            starts = offsets[start : start + len(n)] - offsets[start]
            mean_points = np.add.reduceat(tiling.vertices[corners[span]], starts) / n[:, None]
            mean_values = np.add.reduceat(values[corners[span]], starts) / n[:, None]
            errors = np.abs(_outputs(tiling, mean_points) - mean_values).max(1)
            if errors.max() > worst:
                worst, where = float(errors.max()), start + int(errors.argmax())
    elif tiling.dimension >= 2:
        for size in np.unique(sizes[sizes > tiling.dimension + 1]):
            tiles = np.flatnonzero(sizes == size)
            ids = corners[offsets[tiles][:, None] + np.arange(size)]
            points, outputs = tiling.vertices[ids], values[ids]
            frame = np.concatenate([points - points.mean(1, keepdims=True), np.ones((*ids.shape, 1))], 2)
            fit = frame @ np.linalg.pinv(frame) @ outputs
            errors = np.abs(outputs - fit).max((1, 2))
            if errors.max() > worst:
                worst, where = float(errors.max()), int(tiles[errors.argmax()])
    return worst / scale, where


def _outputs(tiling: Tiling, t: np.ndarray) -> np.ndarray:
    network = tiling.require_network("evaluating outputs")
    with torch.no_grad():
        return network(torch.from_numpy(tiling.slice.inputs(t))).reshape(len(t), -1).numpy()


def _repeated_patterns(tiling: Tiling) -> int:
    """How many tiles share the activation pattern (at their centre) of another tile."""
    network = tiling.require_network("activation patterns")
    program = network.program()
    offsets, corners = tiling.tiles.offsets, tiling.tiles.corners
    centres = np.add.reduceat(tiling.vertices[corners], offsets[:-1]) / np.diff(offsets)[:, None]
    generator = np.random.default_rng(0)
    codes = np.zeros(tiling.count, np.uint64)
    keys = [generator.integers(0, 2**63, fold.site.units, np.int64).astype(np.uint64) for fold in program.folds]
    for start in range(0, tiling.count, _BLOCK):
        x = torch.from_numpy(tiling.slice.inputs(centres[start : start + _BLOCK]))
        for key, pattern in zip(keys, program.patterns(x), strict=True):
            codes[start : start + len(x)] += np.where(pattern, key, np.uint64(0)).sum(1, dtype=np.uint64)
    return tiling.count - len(np.unique(codes))
