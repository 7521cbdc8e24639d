"""The rest of a network behind every fold as layers, for bounds of a property's forms on tiles.

At the end of segment i let v be the pre-activations of the next fold and z what else is handed on that matters behind
it. A fold is affine plus gains times relu(v) (see `network.program`), so the next (v, z) is W (relu(v), z) + b with one
matrix, whatever the fold and the steps between: skips, clamps and maxima included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from scipy.sparse import csr_matrix, hstack, vstack
from torch import Tensor

from ..tiling.cells.tiles import Tiles
from ..tiling.engine.plan import Plan
from ..tiling.engine.rows_plain import PlainRows
from ..tiling.engine.segments import CUTS, Segment
from ..tiling.measures.differentiate import blocks
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
    steps = [_step(before, after) for before, after in pairwise(segments)]
    heads = [_cuts(segment) for segment in segments[:folds]]
    # what of each state matters behind its fold, beside the pre-activations
    passed = [np.flatnonzero(np.diff(through.tocsc().indptr)) for _, through, _ in steps]
    layers = []
    for i, (gained, through, constant) in enumerate(steps):
        weight = hstack([gained, through[:, passed[i]]]).tocsr()
        if i + 1 < folds:
            cut, cut_constant = heads[i + 1]
            weight = vstack([cut @ weight, weight[passed[i + 1]]]).tocsr()
            constant = np.concatenate([cut @ constant + cut_constant, constant[passed[i + 1]]])
        else:
            place = _place(segments[folds], FORMS)
            weight, constant = weight[place], constant[place]
        layers.append((weight, constant))
    by_input, by_output = (_bands(matrices) for matrices in ([w.T.tocsr() for w, _ in layers], [w for w, _ in layers]))
    if len(by_input[0]) + len(by_output[0]) > _MOST_NUMBERS:
        return None
    return Relaxation(
        passed, np.array([layers[0][0].shape[1], *(weight.shape[0] for weight, _ in layers)]),
        np.array([fold.site.units for fold in plan.folds[:folds]]), by_input, by_output,
        np.concatenate([b for _, b in layers]),
    )  # fmt: skip


def _bands(matrices: list[csr_matrix]) -> Bands:
    """The rows of matrices, each from its first number that is not zero to its last."""
    numbers, sizes, firsts = [], [], []
    for matrix in matrices:
        matrix.sort_indices()
        counts = np.diff(matrix.indptr)
        some = counts > 0
        first, size = np.zeros((2, len(counts)), np.int64)
        first[some] = matrix.indices[matrix.indptr[:-1][some]]
        size[some] = matrix.indices[matrix.indptr[1:][some] - 1] + 1 - first[some]
        band = np.zeros(size.sum())
        band[np.repeat(np.cumsum(size) - size - first, counts) + matrix.indices] = matrix.data
        numbers.append(band)
        sizes.append(size)
        firsts.append(first)
    return np.concatenate(numbers), np.append(0, np.cumsum(np.concatenate(sizes))), np.concatenate(firsts)


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


def _linear(run: Callable[[np.ndarray], np.ndarray], total: int) -> tuple[csr_matrix, np.ndarray]:
    """`[out, total]` and `[out]`: an affine function of rows, by unit vectors."""
    constant = run(np.zeros((1, total)))[0]
    rows = []
    for block in blocks(total, _ROWS_TOGETHER):
        unit = np.zeros((block.stop - block.start, total))
        unit[np.arange(len(unit)), np.arange(block.start, block.stop)] = _SCALE
        rows.append(csr_matrix((run(unit) - constant) / _SCALE))
    return (vstack(rows).T if rows else csr_matrix((len(constant), 0))).tocsr(), constant


def _cuts(segment: Segment) -> tuple[csr_matrix, np.ndarray]:
    """`[U, state]` and `[U]`: the pre-activations of the next fold as a function of the state."""
    fold = segment.next_fold
    assert fold is not None

    def run(states: np.ndarray) -> np.ndarray:
        shaped = _shaped(segment, states)
        return np.asarray(fold.cuts(*(shaped[name] for name in fold.inputs)).numpy())

    return _linear(run, sum(_size(segment, name) for name in segment.kept))


def _step(before: Segment, after: Segment) -> tuple[csr_matrix, csr_matrix, np.ndarray]:
    """From the state before a fold to that at the next: `G relu(v) + A z + b`, as G, A and b."""
    fold = after.fold
    assert fold is not None
    total = sum(_size(before, name) for name in before.kept)
    size = int(np.prod(fold.site.shape, dtype=int))

    def run(rows: np.ndarray) -> np.ndarray:
        """The affine part behind the fold, from the fold's output and the state to that at the end."""
        live = _shaped(before, rows[:, size:])
        live[fold.output] = torch.from_numpy(np.ascontiguousarray(rows[:, :size])).reshape(-1, *fold.site.shape)
        values = after.affine_part(live)
        kept = [values[CUTS] if name in after.aliases else values[name] for name in after.kept]
        return np.concatenate([row.reshape(len(row), -1).numpy() for row in kept], 1)

    linear, constant = _linear(run, size + total)
    behind, direct = linear[:, :size], linear[:, size:]
    gained = behind[:, fold.elements].multiply(fold.gains).tocsr()
    below, at_zero = _affine_part(before, after, total, size)
    return gained, (direct + behind @ below).tocsr(), constant + behind @ at_zero


def _affine_part(before: Segment, after: Segment, total: int, size: int) -> tuple[csr_matrix, np.ndarray]:
    """`[size, state]` and `[size]`: a fold without its hinges."""
    fold = after.fold
    assert fold is not None

    def rest(states: np.ndarray) -> np.ndarray:
        shaped = _shaped(before, states)
        given = [shaped[name] for name in fold.inputs]
        value = fold.run(*given).reshape(len(states), -1).numpy().copy()
        np.add.at(value.T, fold.elements, -(np.maximum(fold.cuts(*given).numpy(), 0.0) * fold.gains).T)
        return np.asarray(value)

    if fold.at is None:
        return _linear(rest, total)
    # on each number by itself: exactly what it is far below its hinges
    place = _place(before, fold.inputs[0])
    below = csr_matrix((before.slopes_below(), (np.arange(size), np.arange(place.start, place.stop))), (size, total))
    return below, rest(np.zeros((1, total)))[0]
