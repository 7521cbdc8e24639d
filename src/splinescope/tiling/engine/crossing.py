"""Carries basis rows from one fold to the next: the first by the ops themselves, the others by their linear parts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ...network.patches import Patches, units
from ...network.program import Fold
from .. import kernels
from .basis import Basis, Group, stacked, with_fewer_groups
from .buffers import Buffers
from .segments import CUTS, Segment

_SCALE = 2.0**40  # linear parts are (f(scale x) - f(0)) / scale: the constants of f cost no digits
_NUMBERS_TOGETHER = 1 << 18  # in the widest value of a block of rows: what a cache holds, and no fresh pages
_ROWS_TOGETHER = 32
_BORN_BYTES = 1 << 27  # of rows that start at a fold, nearly all zeros, before the segment makes them narrower

Values = dict[str, Patches | None]


def first_basis(segment: Segment, rows: np.ndarray, name: str, buffers: Buffers) -> Basis:
    """The basis at the first fold; `rows` `[1 + d, *shape]` are the input at the center and the directions."""
    shape, tensor = rows.shape[1:], torch.from_numpy(rows)
    first = _first_row(segment, {name: tensor[:1]})
    return Basis(first, (_through(segment, {name: Patches(tensor[1:], shape)}, len(rows) - 1, None, buffers),))


def crossed_basis(
    before: Segment, segment: Segment, basis: Basis, positive: np.ndarray, mixed: np.ndarray, buffers: Buffers
) -> Basis:
    """The basis behind a fold: the old rows carried over it, and one row for each unit that bends (`mixed`).

    `positive` `[U]` are the signs of the other units.
    """
    fold = segment.fold
    assert fold is not None
    bend = _Straight(fold, before, positive)
    first = {name: torch.from_numpy(basis.first[key]).reshape(1, *before.shapes[name]) for name, key in before.stored}
    first[fold.output] = bend.first([first[name] for name in fold.inputs])
    groups = []
    for group in basis.groups:
        values = {name: group.values[key] for name, key in before.stored}
        if before.next_fold is not None and before.next_fold.at is None:  # rows of cuts are flat
            values = {name: _shaped(rows, before.shapes[name]) for name, rows in values.items()}
        groups.append(_through(segment, values, group.count, bend, buffers))
    values = dict.fromkeys(name for name, _ in before.stored)
    windows = len(fold.site.shape) == 3  # a unit of an image starts as a pixel
    together = len(mixed) if windows else max(1, _BORN_BYTES // (8 * math.prod(fold.site.shape)))
    for start in range(0, len(mixed), max(1, together)):
        some = mixed[start : start + together]
        born: Values = {**values, fold.output: units(fold.elements[some], fold.gains[some], fold.site.shape)}
        groups.append(_through(segment, born, len(some), None, buffers))
    return Basis(_first_row(segment, first), with_fewer_groups(groups))


def linear_parts(function: Callable[..., Tensor], basis: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The basis `[r, n]` of an affine function of one value, from the value's basis `[r, size]`."""
    still = function(torch.zeros(1, *shape, dtype=torch.float64))
    first = function(torch.from_numpy(basis[:1]).reshape(1, *shape))
    out = np.empty((len(basis), first.shape[1]))
    out[0] = first.numpy()
    for start in range(1, len(basis), _ROWS_TOGETHER):
        block = torch.from_numpy(basis[start : start + _ROWS_TOGETHER])
        out[start : start + len(block)] = _linear(function, [block.reshape(-1, *shape)], still).numpy()
    return out


class _Straight:
    """The affine map that a fold is where its units have given signs: 1 on the positive side, 0 on the other."""

    def __init__(self, fold: Fold, before: Segment, positive: np.ndarray) -> None:
        self._fold = fold
        self._shapes = [before.shapes[name] for name in fold.inputs]
        self._signs = positive.astype(np.float64)
        self._slopes: Tensor | None = None
        self._still: Tensor | None = None
        if fold.at is not None:
            self._slopes = torch.from_numpy(before.slopes_below().copy())
            bent = torch.from_numpy(fold.elements[positive])
            self._slopes.index_add_(0, bent, torch.from_numpy(fold.gains[positive]))
            self._slopes = self._slopes.reshape(fold.site.shape)
        else:
            self._still = self.first([torch.zeros(1, *shape, dtype=torch.float64) for shape in self._shapes])

    def first(self, inputs: list[Tensor]) -> Tensor:
        """The map on rows with constants."""
        z = self._fold.cuts(*inputs)
        out = self._fold.run(*inputs).reshape(len(z), -1).contiguous()
        kernels.straighten(z.contiguous().numpy(), self._signs, self._fold.gains, self._fold.elements, out.numpy())
        return out.reshape(-1, *self._fold.site.shape)

    def linear(self, inputs: list[Patches | None], count: int) -> Patches | None:
        """Its linear part."""
        if all(value is None for value in inputs):
            return None
        if self._slopes is not None:
            assert inputs[0] is not None
            return inputs[0].times(self._slopes)
        assert self._still is not None
        shape = self._fold.site.shape
        whole = [_whole(value, count, like) for value, like in zip(inputs, self._shapes, strict=True)]
        return Patches(_linear(lambda *x: self.first(list(x)), whole, self._still), shape)


def _first_row(segment: Segment, live: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """The row with constants at the end of a segment."""
    for step, needed in zip(segment.steps, segment.needed, strict=True):
        live[step.output] = step.run(*(live[name] for name in step.inputs))
        live = {name: value for name, value in live.items() if name in needed}
    row = {name: live[name].reshape(-1).numpy() for name, key in segment.stored if key != CUTS}
    if segment.stores_cuts:
        assert segment.next_fold is not None
        row[CUTS] = segment.next_fold.cuts(*(live[name] for name in segment.next_fold.inputs)).reshape(-1).numpy()
    return row


def _through(segment: Segment, values: Values, count: int, bend: _Straight | None, buffers: Buffers) -> Group:
    """Linear parts of rows at the end of a segment, from those at its start (before its fold, if `bend` is given)."""
    kept = {key for name, key in segment.stored if key in values}  # these pass unchanged
    out: Values = {key: values[key] for key in kept}
    widest = max((rows.values[0].numel() for rows in values.values() if rows is not None), default=1)
    small = any(rows is not None and rows.start is not None for rows in values.values())
    together = max(1, _NUMBERS_TOGETHER // max(widest * (8 if small else 1), 1 if small else segment.widest))
    blocks: list[Values] = []
    filled: dict[str, Tensor] = {}
    for start in range(0, count, together):
        stop = min(start + together, count)
        block = {name: None if rows is None else rows.part(start, stop) for name, rows in values.items()}
        if bend is not None and segment.fold is not None:
            fold = segment.fold
            block[fold.output] = bend.linear([block[name] for name in fold.inputs], stop - start)
        done = {name: rows for name, rows in _linear_steps(segment, block, stop - start).items() if name not in kept}
        for name, rows in done.items():  # whole rows go where they will stay: they may be all the memory there is
            if rows is not None and rows.start is None and together < count:
                if name not in filled:
                    room = buffers.rows(count, math.prod(rows.shape))
                    filled[name] = torch.from_numpy(room).reshape(count, *rows.shape)
                filled[name][start:stop] = rows.values
                done[name] = Patches(filled[name][start:stop], rows.shape)
        blocks.append(done)
    for name in blocks[0]:
        parts = [rows for block in blocks if (rows := block[name]) is not None]
        if not parts:
            out[name] = None
        elif name in filled and all(rows.start is None for rows in parts):
            out[name] = Patches(filled[name], parts[0].shape)
        else:
            out[name] = stacked(parts)
    return Group(count, out)


def _linear_steps(segment: Segment, live: Values, count: int) -> Values:
    for step, needed in zip(segment.steps, segment.needed, strict=True):
        given = [live[name] for name in step.inputs]
        if all(rows is None for rows in given):
            live[step.output] = None
        elif step.linear is not None:
            live[step.output] = step.linear(*given)
        else:
            still = segment.still(step)
            whole = [
                _whole(rows, count, segment.all_shapes[name]) for name, rows in zip(step.inputs, given, strict=True)
            ]
            made = _linear(step.run, whole, still)
            live[step.output] = Patches(made, tuple(made.shape[1:]))
        live = {name: rows for name, rows in live.items() if name in needed}
    result: Values = {name: live[name] for name, key in segment.stored if key != CUTS}
    if segment.stores_cuts:
        fold = segment.next_fold
        assert fold is not None
        given = [live[name] for name in fold.inputs]
        shapes = [segment.all_shapes[name] for name in fold.inputs]
        zeros = [torch.zeros(1, *shape, dtype=torch.float64) for shape in shapes]
        whole = [_whole(rows, count, shape) for rows, shape in zip(given, shapes, strict=True)]
        made = _linear(fold.cuts, whole, fold.cuts(*zeros))
        result[CUTS] = None if all(rows is None for rows in given) else Patches(made, tuple(made.shape[1:]))
    return result


def _whole(rows: Patches | None, count: int, shape: tuple[int, ...]) -> Tensor:
    return torch.zeros(count, *shape, dtype=torch.float64) if rows is None else rows.whole().values


def _shaped(rows: Patches | None, shape: tuple[int, ...]) -> Patches | None:
    if rows is None or rows.shape == shape:
        return rows
    return Patches(rows.values.reshape(len(rows), *shape), shape)


def _linear(function: Callable[..., Tensor], rows: list[Tensor], still: Tensor) -> Tensor:
    """The linear part of an affine function, whose value at zero is `still`."""
    if not still.any():
        return function(*rows)
    return (function(*(_SCALE * row for row in rows)) - still) * (1.0 / _SCALE)
