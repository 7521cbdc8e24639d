"""Bounds of one output on every tile of a chunk, while folds are still to come: which tiles a level set can meet.

On a tile every value is affine, known by its numbers at the corners, up to an error. A unit that may be positive or
negative there is replaced by the chord of its hinge, which errs by at most half its height in either direction; errors
grow through affine steps by the absolute weights. Behind the last fold the bounds are the exact range.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ...network.ops import operation
from ...network.program import Fold
from ..cells.tiles import Tiles
from ..kernels.hinge_chords import chords, tile_ranges
from .plan import Plan
from .rows_plain import PlainRows

_TOGETHER = 4096  # corners that are bounded at once: their rows stay in the cache, and no fresh memory is touched


def output_range(
    plan: Plan, stage: int, rows: PlainRows, tiles: Tiles, output: str, index: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Lower and upper bounds `[K]` of output number `index` on each tile, or None if a fold to come is not a hinge."""
    bounds = value_range(plan, stage, rows, tiles, output, len(plan.folds))
    return None if bounds is None else (bounds[0][:, index], bounds[1][:, index])


def value_range(
    plan: Plan, stage: int, rows: PlainRows, tiles: Tiles, name: str, folds: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Bounds `[K, size]` of a value behind that many folds; None if one of those still to come is not a hinge."""
    if not all(_is_ramp(fold) for fold in plan.folds[stage:folds]):
        return None
    size = int(np.prod(plan.segments[folds].shapes[name], dtype=int))
    lows, highs = np.empty((len(tiles), size)), np.empty((len(tiles), size))
    ends = [*np.flatnonzero(np.diff(tiles.offsets[:-1] // _TOGETHER)) + 1, len(tiles)]
    for start, stop in zip([0, *ends[:-1]], ends, strict=True):
        part = slice(start, stop)
        lows[part], highs[part] = _range(plan, stage, rows, tiles.offsets[start : stop + 1], tiles, name, folds)
    return lows, highs


def _range(
    plan: Plan, stage: int, rows: PlainRows, offsets: np.ndarray, tiles: Tiles, output: str, folds: int
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds on the tiles whose corners those offsets tell."""
    segment = plan.segments[stage]
    corners, offsets = tiles.corners[offsets[0] : offsets[-1]], offsets - offsets[0]
    count = len(offsets) - 1
    values: dict[str, Tensor] = {}
    errors: dict[str, Tensor] = {}
    for name in segment.kept:
        row = rows.value(segment, name)[corners]
        values[name] = torch.from_numpy(row).reshape(len(row), *segment.shapes[name])
        errors[name] = torch.zeros(count, *segment.shapes[name], dtype=torch.float64)
    for segment in plan.segments[stage + 1 : folds + 1]:
        fold = segment.fold
        assert fold is not None
        name = fold.inputs[0]
        values[fold.output], errors[fold.output] = _chord(fold, values[name], errors[name], offsets)
        for step in segment.steps:
            values[step.output] = step.run(*(values[i] for i in step.inputs))
            grown = step.magnitude(*(errors[i] for i in step.inputs))
            constant = step.magnitude(*(torch.zeros_like(errors[i][:1]) for i in step.inputs))
            errors[step.output] = grown - constant
        values = {name: values[name] for name in segment.kept}
        errors = {name: errors[name] for name in segment.kept}
    heights = values[output].reshape(len(corners), -1).numpy()
    error = errors[output].reshape(count, -1).numpy()
    lows, highs = np.empty_like(error), np.empty_like(error)
    for j in range(error.shape[1]):
        tile_ranges(offsets, np.ascontiguousarray(heights[:, j]), low := np.empty(count), high := np.empty(count))
        lows[:, j], highs[:, j] = low, high
    return lows - error, highs + error


def _is_ramp(fold: Fold) -> bool:
    """Whether it has slope 1 above zero and 1 - gain below, number by number."""
    size = int(np.prod(fold.site.shape))
    each = len(fold.elements) == size and bool((fold.elements == np.arange(size)).all())
    return operation(fold.site.op).ramp and len(fold.inputs) == 1 and each


def _chord(fold: Fold, x: Tensor, error: Tensor, offsets: np.ndarray) -> tuple[Tensor, Tensor]:
    """The fold's output at corners, affine on every tile, and how far it may be off there."""
    flat, off = x.reshape(len(x), -1).numpy(), error.reshape(len(error), -1).numpy()
    bent, bent_off = np.empty_like(flat), np.empty_like(off)
    chords(offsets, flat, off, np.asarray(fold.gains, np.float64), bent, bent_off)
    return torch.from_numpy(bent).reshape(x.shape), torch.from_numpy(bent_off).reshape(error.shape)
