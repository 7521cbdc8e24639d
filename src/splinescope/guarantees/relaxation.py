"""The rest of a network behind every fold as layers, for bounds of a property's forms on tiles.

At the end of segment i let v be the pre-activations of the next fold and z what else is handed on that matters behind
it. A fold is affine plus gains times relu(v) (see `network.program`), so the next (v, z) is W (relu(v), z) + b with one
matrix, whatever the fold and the steps between: skips, clamps and maxima included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..tiling.cells.tiles import Tiles
from ..tiling.engine.plan import Plan
from ..tiling.engine.rows_plain import PlainRows
from ..tiling.engine.segments import CUTS, Segment
from ..tiling.measures.differentiate import blocks
from ..tiling.measures.tile_shapes import UNIT
from .forms import FORMS, Formed
from .kernels.tile_bounds import form_bounds

_MOST_NUMBERS = 1 << 25  # of all layers
_ROWS_TOGETHER = 512  # unit vectors that go through a step
_SCALE = 2.0**40  # of unit vectors: constants then cost columns no digits


Bands = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows of matrices without the zeros at their ends: their numbers, where each row starts among these (and the end of
the last), and in which column."""


@dataclass(frozen=True)
class Relaxation:
    """Layers as the kernel takes them (see `form_bounds`), and what is passed on beside the pre-activations."""

    passed: list[np.ndarray]  # per segment, which numbers of its state (its kept values one after the other)
    sizes: np.ndarray
    hinges: np.ndarray
    by_input: Bands
    by_output: Bands
    biases: np.ndarray

    def lows(self, plan: Plan, stage: int, rows: PlainRows, tiles: Tiles, points: np.ndarray) -> np.ndarray:
        """`[K, forms]` lower bounds on the tiles of a chunk."""
        values = rows.cuts
        if len(self.passed[stage]):
            state = np.concatenate([rows.value(plan.segments[stage], n) for n in plan.segments[stage].kept], 1)
            values = np.concatenate([values, state[:, self.passed[stage]]], 1)
        found = np.empty((len(tiles), int(self.sizes[-1])))
        form_bounds(
            tiles.offsets, tiles.corners, points, np.ascontiguousarray(values), stage, self.sizes, self.hinges,
            *self.by_input, *self.by_output, self.biases, found,
        )  # fmt: skip
        return found


def relaxation_of(plan: Plan, formed: Formed) -> Relaxation | None:
    """The layers behind every fold of the network, down to the forms; None if they have too many numbers."""
    folds = formed.folds
    segments = plan.segments[: folds + 1]
    if not folds:
        return None
    place, following = _place(segments[folds], FORMS), segments[folds].next_fold
    wanted = np.arange(place.start, place.stop) + (0 if following is None else following.site.units)
    layers, sizes = list[Entries](), [len(wanted)]
    biases, passed = list[np.ndarray](), list[np.ndarray]()
    for before, after, fold in reversed(list(zip(segments[:-1], segments[1:], plan.folds, strict=False))):
        (to, into, weights), constant = _layer(before, after, wanted)
        units = fold.site.units
        kept = np.unique(into[into >= units])  # what of the state matters behind its fold, beside the pre-activations
        wanted = np.concatenate([np.arange(units), kept])
        layers.append((to, np.searchsorted(wanted, into), weights))
        sizes, biases, passed = [len(wanted), *sizes], [constant, *biases], [kept - units, *passed]
        if sum(len(each[2]) for each in layers) > _MOST_NUMBERS:
            return None
    layers.reverse()
    by_input = _bands([(into, to, weights) for to, into, weights in layers], sizes[:-1])
    by_output = _bands(layers, sizes[1:])
    if len(by_input[0]) + len(by_output[0]) > _MOST_NUMBERS:
        return None
    hinges = np.array([fold.site.units for fold in plan.folds[:folds]])
    return Relaxation(passed, np.array(sizes), hinges, by_input, by_output, np.concatenate(biases))


Entries = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows, columns and values of the numbers of a matrix that are not zero."""


def _bands(matrices: list[Entries], heights: list[int]) -> Bands:
    """The rows of matrices, each from its first number that is not zero to its last."""
    starts = np.cumsum([0, *heights])
    rows = np.concatenate([start + row for start, (row, _, _) in zip(starts, matrices, strict=False)])
    columns, values = (np.concatenate([matrix[i] for matrix in matrices]) for i in (1, 2))
    first, last = np.full(starts[-1], columns.max(initial=0)), np.full(starts[-1], -1)
    np.minimum.at(first, rows, columns)
    np.maximum.at(last, rows, columns)
    ends = np.append(0, np.cumsum(np.maximum(last + 1 - first, 0)))
    band = np.zeros(ends[-1])
    band[(ends[:-1] - first)[rows] + columns] = values
    return band, ends, first


def _size(segment: Segment, name: str) -> int:
    return int(np.prod(segment.shapes[name], dtype=int))


def _place(segment: Segment, name: str) -> slice:
    """Where a kept value stands in the state."""
    before = segment.kept[: segment.kept.index(name)]
    start = sum(_size(segment, n) for n in before)
    return slice(start, start + _size(segment, name))


def _shaped(segment: Segment, state: np.ndarray) -> dict[str, Tensor]:
    return {
        name: torch.from_numpy(np.ascontiguousarray(state[:, _place(segment, name)])).reshape(-1, *segment.shapes[name])
        for name in segment.kept
    }


def _layer(before: Segment, after: Segment, wanted: np.ndarray) -> tuple[Entries, np.ndarray]:
    """From `relu(v)` and the state before a fold, by unit vectors, to some of the next pre-activations and state:
    weights `[wanted, in]` and constants `[wanted]`."""
    fold = after.fold
    assert fold is not None
    units, total = fold.site.units, sum(_size(before, name) for name in before.kept)
    gains, elements = torch.from_numpy(fold.gains), torch.from_numpy(fold.elements)

    def without_hinges(state: np.ndarray) -> Tensor:
        given = [_shaped(before, state)[name] for name in fold.inputs]
        bent = fold.cuts(*given).clamp_min(0) * gains
        return fold.run(*given).reshape(len(state), -1).clone().index_add_(1, elements, -bent)

    at_zero = without_hinges(np.zeros((1, total)))

    def run(rows: np.ndarray) -> np.ndarray:
        live = _shaped(before, rows[:, units:])
        if fold.at is None:
            value = without_hinges(rows[:, units:])
        else:  # on each number by itself: exactly what it is far below its hinges
            value = at_zero + live[fold.inputs[0]].flatten(1) * torch.from_numpy(before.slopes_below())
        value.index_add_(1, elements, torch.from_numpy(rows[:, :units]) * gains)
        live[fold.output] = value.reshape(-1, *fold.site.shape)
        values = after.affine_part(live)
        kept = [CUTS] * (after.next_fold is not None) + [CUTS if n in after.aliases else n for n in after.kept]
        return np.concatenate([values[name].flatten(1).numpy() for name in kept], 1)[:, wanted]

    constant = run(np.zeros((1, units + total)))[0]
    found = []
    for block in blocks(units + total, _ROWS_TOGETHER):
        unit = np.zeros((block.stop - block.start, units + total))
        unit[np.arange(len(unit)), np.arange(block.start, block.stop)] = _SCALE
        moved = run(unit) - constant
        moved[np.abs(moved) <= 64 * UNIT * np.abs(constant)] = 0.0  # the constant itself, rounded another way
        into, to = np.nonzero(moved)
        found.append((to, block.start + into, moved[into, to] / _SCALE))
    to, into, weights = (np.concatenate([each[i] for each in found]) for i in range(3))
    return (to, into, weights), constant
