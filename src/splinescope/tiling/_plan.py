"""What is fixed before any tile is cut: segments, shapes, tolerances and sizes for one program on one slice."""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from ..network._program import Affine, Fold, Program, depends_on_input
from ._segments import Segment, cut_into_segments

_PROBES = 16
_PROBES_IF_WIDE = 2
_ROWS_TOGETHER = 8
# Blocks are filled up to a multiple of this. The last bits of a row of a matrix product must not depend on the rows
# beside it: the kernels of a BLAS for whole groups of rows are alike, those for the rest of a matrix are not (and see
# `network.affine_ops.aligned_product` for the length of rows).
_BLOCK_NUMBERS = 1 << 22  # in a block of very wide rows: larger temporaries are fresh memory at every step
_WIDE = 2048  # numbers in a row from which factored rows pay
_KEEP_OUTPUTS_UP_TO = 64  # larger outputs (images) are recomputed from the vertices when asked for


@dataclass(frozen=True)
class Plan:
    """Attributes:
    segments: One more than there are folds.
    tolerances: Per fold, `[U]`: a pre-activation of at most this size is zero.
    seal_tolerances: Per segment and seal, `[windows]`: the same for ties in a tournament.
    first_labels: Per fold, the label of its first unit; labels number all units of all folds.
    labels: Per fold, `[U]` the labels of its units.
    rows_per_block: Per segment, how many rows run through the torch ops together, at most.
    factored: How many folds a chunk meets with rows in factored form; see `_factored`.
    row_bytes: Per segment, bytes that one vertex holds while the segment is being worked on.
    basis_bytes: Per segment, bytes of a whole basis row at its end.
    folds: The folds in order: fold i ends segment i and starts segment i + 1.
    """

    segments: list[Segment]
    tolerances: list[np.ndarray]
    seal_tolerances: list[list[np.ndarray]]
    first_labels: list[int]
    rows_per_block: list[int]
    row_bytes: list[int]
    basis_bytes: list[int]
    factored: int

    labels: list[np.ndarray] = field(init=False)
    folds: list[Fold] = field(init=False)

    def __post_init__(self) -> None:
        folds = [segment.next_fold for segment in self.segments if segment.next_fold is not None]
        object.__setattr__(self, "folds", folds)
        labels = [np.arange(a, a + f.site.units, dtype=np.int32) for a, f in zip(self.first_labels, folds, strict=True)]
        object.__setattr__(self, "labels", labels)

    @property
    def keeps_output(self) -> bool:
        return bool(self.segments[-1].keys)


_SEGMENTS: WeakKeyDictionary[Program, list[Segment]] = WeakKeyDictionary()


def segments_of(program: Program) -> list[Segment]:
    """The segments of a program, with the columns they have learned: kept as long as the program is."""
    if program not in _SEGMENTS:
        keep_output = int(np.prod(program.output_shape)) <= _KEEP_OUTPUTS_UP_TO
        _SEGMENTS[program] = cut_into_segments(program, keep_output)
    return _SEGMENTS[program]


_CONNECTED: WeakKeyDictionary[Program, bool] = WeakKeyDictionary()


def is_connected(program: Program) -> bool:
    """Whether any weight connects the output to the input; worked out once per program."""
    if program not in _CONNECTED:
        _CONNECTED[program] = depends_on_input(program)
    return _CONNECTED[program]


def make_plan(program: Program, probes: Tensor, rtol: float, rows: str = "auto") -> Plan:
    """Run the probes once: learn shapes and the size of the terms that each pre-activation is summed from.

    A unit is zero where it is below `rtol` times the largest sum of absolute terms, |W| |x| + |b|, that it has
    at any probe: that is the scale of its rounding error, and it is the same for every chunk. (The row of the
    vertex itself would not do: where all folds meet, the whole row is rounding noise.)
    """
    segments = segments_of(program)
    tolerances: list[np.ndarray] = []
    seal_tolerances: list[list[np.ndarray]] = []
    first_labels = [0]
    live = {program.input: probes}
    for segment in segments:
        values = dict(live)
        if segment.fold is not None:
            values[segment.fold.output] = segment.fold.run(*(values[name] for name in segment.fold.inputs))
        sizes = {name: value.abs() for name, value in values.items()}
        for step in segment.steps:
            values[step.output] = step.run(*(values[name] for name in step.inputs))
            sizes[step.output] = step.magnitude(*(sizes[name] for name in step.inputs))
        if segment.next_fold is not None:
            fold = segment.next_fold
            cuts = fold.cuts(*(values[name] for name in fold.inputs))
            for name in fold.inputs:
                same = values[name].data_ptr() == cuts.data_ptr() and values[name].numel() == cuts.numel()
                if same and name in segment.kept:
                    segment.aliases.add(name)
            magnitude = fold.cut_magnitude(*(sizes[name] for name in fold.inputs))
            tolerances.append(rtol * magnitude.amax(0).numpy())
            first_labels.append(first_labels[-1] + fold.site.units)
        seal_tolerances.append([rtol * sizes[s.final].flatten(1).amax(0).numpy() for s in segment.seals])
        live = segment.learn_shapes(values)
    widths = [sum(segment.width(key) for key in segment.keys) for segment in segments]
    entering = [int(np.prod(program.input_shape)), *widths[:-1]]
    return Plan(
        segments,
        tolerances,
        seal_tolerances,
        first_labels[:-1],
        rows_per_block=[_block(max(pair)) for pair in zip(entering, widths, strict=True)],
        factored=_factored_folds(widths[:-1], rows),
        row_bytes=[8 * (a + b) for a, b in zip(widths, [*widths[1:], widths[-1]], strict=True)],
        basis_bytes=[8 * segment.basis_width for segment in segments],
    )


def learn_shapes(segments: list[Segment], program: Program) -> None:
    """Run one row: what segments must know of their values."""
    live = {program.input: torch.zeros(1, *program.input_shape, dtype=torch.float64)}
    for segment in segments:
        values = dict(live)
        steps: list[Affine | Fold] = [*segment.steps]
        if segment.fold is not None:
            steps.insert(0, segment.fold)
        for step in steps:
            values[step.output] = step.run(*(values[name] for name in step.inputs))
        live = segment.learn_shapes(values)


def _factored_folds(widths: list[int], rows: str) -> int:
    """How many folds to meet with factored rows, by the widths of rows before them: up to the last wide one.

    Decided by sizes alone, so that equal calls have equal results.
    """
    if rows != "auto":
        return len(widths) if rows == "factored" else 0
    return max((i + 1 for i, width in enumerate(widths) if width >= _WIDE), default=0)


def _block(width: int) -> int:
    """Rows of this width that run through the torch ops together: what caches hold, and few calls if narrow."""
    if width > 4096:
        return min(32, max(2, _BLOCK_NUMBERS // width))
    return 256 if width > 512 else 2048


def probe_points(program: Program, domain: np.ndarray) -> np.ndarray:
    """Fixed points of a convex domain `[n, d]`: its corners and a spread of points inside.

    Fewer for wide networks: there a pre-activation has many terms, whose sum varies little, and a probe costs more.
    """
    wide = max((site.units for site in program.sites), default=0) >= _WIDE
    weights = np.random.default_rng(0).dirichlet(np.ones(len(domain)), size=_PROBES_IF_WIDE if wide else _PROBES)
    return np.concatenate([domain, weights @ domain])


def run_in_blocks(segment: Segment, values: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]],
                  block: int, out: dict[str, np.ndarray], count: int) -> None:  # fmt: skip
    """Fill `out[key][:count]` with the segment's rows for the vertices whose flat values are given."""
    for start in range(0, count, block):
        stop = min(start + block, count)
        inputs = {}
        for name, rows in values.items():
            part = torch.from_numpy(rows[start:stop])
            missing = -(stop - start) % _ROWS_TOGETHER
            if missing:
                part = torch.cat([part, part.new_zeros(missing, part.shape[1])])
            inputs[name] = part.reshape(len(part), *shapes[name])
        for key, result in segment.run(inputs).items():
            out[key][start:stop] = result[: stop - start].numpy()
