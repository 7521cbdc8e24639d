"""The rest of a network behind every fold as dense layers, for bounds of a property's forms on tiles.

At the end of segment i let v be the pre-activations of the next fold and z what else is handed on that matters behind
it. A fold is affine plus gains times relu(v) (see `network.program`), so the next (v, z) is W (relu(v), z) + b with one
matrix, whatever the fold and the steps between: skips, clamps and maxima included.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ..tiling.cells.tiles import Tiles
from ..tiling.engine.plan import Plan
from ..tiling.engine.rows_plain import PlainRows
from ..tiling.engine.segments import CUTS, Segment
from .forms import FORMS, Formed
from .kernels.tile_bounds import form_bounds

_WIDEST = 2048  # wider layers would not pay as dense matrices
_SCALE = 2.0**40  # of unit vectors: constants then cost columns no digits


@dataclass(frozen=True)
class Relaxation:
    """Layers as the kernel takes them (see `form_bounds`), and what is passed on beside the pre-activations."""

    passed: list[np.ndarray]  # per segment, which numbers of its state (its kept values one after the other)
    sizes: np.ndarray
    hinges: np.ndarray
    starts: np.ndarray
    bias_starts: np.ndarray
    by_input: np.ndarray
    by_output: np.ndarray
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
            self.starts, self.bias_starts, self.by_input, self.by_output, self.biases, found,
        )  # fmt: skip
        return found


def relaxation_of(plan: Plan, formed: Formed) -> Relaxation | None:
    """The layers behind every fold of the network, down to the forms; None if they are too wide for it."""
    folds = formed.folds
    segments = plan.segments[: folds + 1]
    widths = [sum(_size(s, name) for name in s.kept) + f.site.units for s, f in zip(segments, plan.folds, strict=False)]
    if not folds or max(widths) > _WIDEST:
        return None
    steps = [_step(before, after) for before, after in pairwise(segments)]
    heads = [_cuts(segment) for segment in segments[:folds]]
    # what of each state matters behind its fold, beside the pre-activations
    passed = [np.flatnonzero(through.any(0)) for _, through, _ in steps]
    layers = []
    for i, (gained, through, constant) in enumerate(steps):
        weight = np.concatenate([gained, through[:, passed[i]]], 1)
        if i + 1 < folds:
            cut, cut_constant = heads[i + 1]
            weight, constant = (
                np.concatenate([cut @ weight, weight[passed[i + 1]]]),
                np.concatenate([cut @ constant + cut_constant, constant[passed[i + 1]]]),
            )
        else:
            place = _place(segments[folds], FORMS)
            weight, constant = weight[place], constant[place]
        layers.append((weight, constant))
    sizes = [layers[0][0].shape[1], *(len(weight) for weight, _ in layers)]
    starts = np.cumsum([0, *(weight.size for weight, _ in layers)])[:-1]
    bias_starts = np.cumsum([0, *(len(weight) for weight, _ in layers)])[:-1]
    return Relaxation(
        passed, np.array(sizes), np.array([fold.site.units for fold in plan.folds[:folds]]), starts, bias_starts,
        np.concatenate([weight.T.reshape(-1) for weight, _ in layers]),
        np.concatenate([weight.reshape(-1) for weight, _ in layers]), np.concatenate([b for _, b in layers]),
    )  # fmt: skip


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


def _cuts(segment: Segment) -> tuple[np.ndarray, np.ndarray]:
    """`[U, state]` and `[U]`: the pre-activations of the next fold as a function of the state."""
    fold = segment.next_fold
    assert fold is not None
    total = sum(_size(segment, name) for name in segment.kept)
    states = np.concatenate([_SCALE * np.eye(total), np.zeros((1, total))])
    values = fold.cuts(*(_shaped(segment, states)[name] for name in fold.inputs)).numpy()
    return ((values[:-1] - values[-1]) / _SCALE).T, values[-1]


def _step(before: Segment, after: Segment) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From the state before a fold to that at the next: `G relu(v) + A z + b`, as G, A and b."""
    fold = after.fold
    assert fold is not None
    total = sum(_size(before, name) for name in before.kept)
    size = int(np.prod(fold.site.shape, dtype=int))
    # the affine part behind the fold, by unit vectors of the fold's output and of the state
    unit = np.zeros((size + total + 1, size + total))
    unit[: size + total] = _SCALE * np.eye(size + total)
    live = _shaped(before, unit[:, size:])
    live[fold.output] = torch.from_numpy(np.ascontiguousarray(unit[:, :size])).reshape(-1, *fold.site.shape)
    columns = _state(after, live)
    linear, constant = ((columns[:-1] - columns[-1]) / _SCALE).T, columns[-1]
    behind, direct = linear[:, :size], linear[:, size:]
    gained = behind[:, fold.elements] * fold.gains
    below, at_zero = _affine_part(before, after, total, size)
    return gained, direct + behind @ below, constant + behind @ at_zero


def _affine_part(before: Segment, after: Segment, total: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """`[size, state]` and `[size]`: a fold without its hinges."""
    fold = after.fold
    assert fold is not None

    def rest(states: np.ndarray) -> np.ndarray:
        shaped = _shaped(before, states)
        given = [shaped[name] for name in fold.inputs]
        value = fold.run(*given).reshape(len(states), -1).numpy().copy()
        np.add.at(value.T, fold.elements, -(np.maximum(fold.cuts(*given).numpy(), 0.0) * fold.gains).T)
        return value

    if fold.at is not None:  # on each number by itself: exactly what it is far below its hinges
        slopes = before.slopes_below()
        below = np.zeros((size, total))
        place = _place(before, fold.inputs[0])
        below[np.arange(size), np.arange(place.start, place.stop)] = slopes
        return below, rest(np.zeros((1, total)))[0]
    values = rest(np.concatenate([_SCALE * np.eye(total), np.zeros((1, total))]))
    return ((values[:-1] - values[-1]) / _SCALE).T, values[-1]


def _state(segment: Segment, live: dict[str, Tensor]) -> np.ndarray:
    """The state at a segment's end, from the values live behind its fold."""
    rows = segment.affine_part(live)
    kept = [rows[CUTS] if name in segment.aliases else rows[name] for name in segment.kept]
    return np.concatenate([row.reshape(len(row), -1).numpy() for row in kept], 1)
