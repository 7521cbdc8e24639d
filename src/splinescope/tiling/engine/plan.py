"""What is fixed before any tile is cut: segments, shapes, tolerances and sizes for one program on one slice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from ...network.program import Fold, Product, Program, Tournament, depends_on_input
from .. import kernels
from .buffers import Buffers, missing, whole_groups
from .segments import Segment, cut_into_segments

WIDE = 2048
"""Numbers in a row that make a network wide."""
_LEAST = 512  # narrower layers than this are no wider than the basis of a chunk
_TOO_WIDE = 16384  # numbers in any row: whole rows take too much memory
_UNITS_PER_PRODUCT = 1e-4  # units that may bend for each product of two numbers that plain rows take
_CONVOLUTION_TIMES = 8  # what a product costs in a convolution
_IMAGES_ON_LINES = 4  # wide ones: fewer do not make up for the basis
_PROBES = 16
_PROBES_IF_WIDE = 2
_PROBES_ON_LINES = 2
_BLOCK_NUMBERS = 1 << 22  # in a block of very wide rows: larger temporaries are fresh memory at every step
_NARROW_BLOCK = 1 << 17  # in a block of narrow rows: what the nearest large cache holds
_VERTEX_BYTES = 256  # about what a vertex and its share of tiles take while they are cut, whatever their rows
_KEEP_OUTPUTS_UP_TO = 64  # larger outputs (images) are recomputed from the vertices when asked for


@dataclass(frozen=True)
class Layout:
    """What a program fixes, whatever the slice.

    Attributes:
        segments: One more than there are folds.
        folds: The folds in order: fold i ends segment i and starts segment i + 1.
        first_labels: Per fold, the label of its first unit; labels number all units of all folds.
        labels: Per fold, `[U]` the labels of its units.
        is_stage: Per fold, whether it is a stage of a tournament.
        widths: Per segment, how many numbers a row has at its end.
        rows_per_block: Per segment, how many rows run through the torch ops together, at most.
        row_bytes: Per segment, bytes that one vertex holds while the segment is being worked on.
        basis_bytes: Per segment, bytes of a whole basis row at its end.
        work: Products of two numbers by which plain rows of an old vertex get through the layers (see
            `factored_folds`).
    """

    segments: list[Segment]
    folds: list[Fold]
    first_labels: list[int]
    labels: list[np.ndarray]
    is_stage: list[bool]
    widths: list[int]
    rows_per_block: list[int]
    row_bytes: list[int]
    basis_bytes: list[int]
    work: float


@dataclass(frozen=True)
class Plan:
    """A program's layout, and what belongs to the slice.

    Attributes:
        layout: What the program fixes.
        tolerances: Per fold, `[U]`: a pre-activation of at most this size is zero.
        tie_tolerances: Per segment and tournament, `[windows]`: the same for ties in a tournament.
        factored: How many folds a chunk meets with rows in factored form; see `rows_factored` and `factored_folds`.
        first: `[probes, U]` their rows at the first fold, where a product makes them.
        buffers: Memory for rows.
    """

    layout: Layout
    tolerances: list[np.ndarray]
    tie_tolerances: list[list[np.ndarray]]
    factored: int
    first: np.ndarray | None

    segments: list[Segment] = field(init=False)
    folds: list[Fold] = field(init=False)
    buffers: Buffers = field(default_factory=Buffers, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", self.layout.segments)
        object.__setattr__(self, "folds", self.layout.folds)

    @property
    def keeps_output(self) -> bool:
        return bool(self.segments[-1].keys)


_SEGMENTS: WeakKeyDictionary[Program, list[Segment]] = WeakKeyDictionary()
_LAYOUTS: WeakKeyDictionary[Program, Layout] = WeakKeyDictionary()


def segments_of(program: Program, keep_output: bool = False) -> list[Segment]:
    """The segments of a program, with the columns they have learned: kept as long as the program is.

    Args:
        keep_output: Let vertices carry the output however large it is; looked at when segments are made.
    """
    if program not in _SEGMENTS:
        small = int(np.prod(program.output_shape)) <= _KEEP_OUTPUTS_UP_TO
        _SEGMENTS[program] = cut_into_segments(program, keep_output or small)
    return _SEGMENTS[program]


def _layout_of(program: Program) -> Layout:
    """The layout of a program whose segments have learned their shapes; worked out once per program."""
    if program not in _LAYOUTS:
        segments = segments_of(program)
        folds = [segment.next_fold for segment in segments if segment.next_fold is not None]
        ends = [0, *accumulate(fold.site.units for fold in folds)]
        stages = {name for segment in segments for tournament in segment.tournaments for name, _ in tournament.stages}
        widths = [sum(segment.width(key) for key in segment.keys) for segment in segments]
        entering = [int(np.prod(program.input_shape)), *widths[:-1]]
        _LAYOUTS[program] = Layout(
            segments,
            folds,
            first_labels=ends[:-1],
            labels=[np.arange(a, b, dtype=np.int32) for a, b in pairwise(ends)],
            is_stage=[fold.output in stages for fold in folds],
            widths=widths,
            rows_per_block=[_block(max(pair)) for pair in zip(entering, widths, strict=True)],
            row_bytes=[_VERTEX_BYTES + 8 * (a + b) for a, b in zip(widths, [*widths[1:], widths[-1]], strict=True)],
            basis_bytes=[8 * segment.basis_width for segment in segments],
            work=_work(segments),
        )
    return _LAYOUTS[program]


def _work(segments: Sequence[Segment]) -> float:
    """The work of a layout: behind the first fold nearly all vertices are new, and no matrix product runs on those.

    Half as much beside a max, where factored rows take more to tell its losers.
    """
    matrices = (step.run for segment in segments[2:-1] for step in segment.steps)
    images = (step.convolution for segment in segments[1:-1] for step in segment.steps)
    work = sum(run.weight.numel() for run in matrices if isinstance(run, Product)) + _CONVOLUTION_TIMES * sum(images)
    return work / 2 if any(segment.tournaments for segment in segments) else float(work)


_CONNECTED: WeakKeyDictionary[Program, bool] = WeakKeyDictionary()


def is_connected(program: Program) -> bool:
    """Whether any weight connects the output to the input; worked out once per program."""
    if program not in _CONNECTED:
        _CONNECTED[program] = depends_on_input(program)
    return _CONNECTED[program]


def make_plan(
    program: Program, probes: Tensor, rtol: float, rows: str = "auto", dimension: int = 2, lines: int | None = None
) -> Plan:
    """Run the probes once, to learn the size of the terms that each pre-activation is summed from.

    A unit is zero where it is below `rtol` times its sum of absolute terms, |W| |x| + |b|, where |x| is the largest
    that each number is at any probe: that is the scale of its rounding error, and it is the same for every chunk. (The
    row of the vertex itself would not do: where all folds meet, the whole row is rounding noise.) If the probes are
    those of so many `lines`, one line after the other, each has tolerances of its own; not for programs with a
    tournament.
    """
    layout = _layout_of(program)
    tolerances: list[np.ndarray] = []
    tie_tolerances: list[list[np.ndarray]] = []
    crossing: list[int] = []
    counted = rows == "auto" and dimension > 1
    first: np.ndarray | None = None
    live = {program.input: probes}
    for segment in layout.segments:
        # behind the last fold nothing is compared with zero
        if segment.next_fold is None and not segment.tournaments:
            break
        if segment.only_product is not None:
            step, known = segment.steps[0], live[segment.entry]
            if segment.small is not None:
                value, limits = _small_probes(segment.small, known.numpy(), lines)
            elif segment.fold is not None:
                x = segment.fold.run(known)
                value, limits = step.run(x), step.magnitude(_largest(x, lines))
            else:  # in whole groups: with the bits that rows of the engine have
                value = step.run(torch.constant_pad_nd(known, (0, 0, 0, missing(len(known)))))[: len(known)]
                limits = step.magnitude(_largest(known, lines))
            first = value.numpy() if segment.fold is None else first
            tolerances.append(_above_zero(rtol * _flat(limits, lines), tolerances))
            tie_tolerances.append([])
            live = {step.output: value}
            if counted and value.shape[1] >= _LEAST:
                crossing.append(_both_signs(value))
            continue
        values = dict(live)
        if segment.fold is not None:
            values[segment.fold.output] = segment.fold.run(*(values[name] for name in segment.fold.inputs))
        sizes = {name: _largest(value, lines) for name, value in values.items()}
        for step in segment.steps:
            values[step.output] = step.run(*(values[name] for name in step.inputs))
            sizes[step.output] = step.magnitude(*(sizes[name] for name in step.inputs))
        if segment.next_fold is not None:
            fold = segment.next_fold
            limits = fold.cut_magnitude(*(sizes[name] for name in fold.inputs))
            tolerances.append(_above_zero(rtol * _flat(limits, lines), tolerances))
            if counted and fold.site.units >= _LEAST:
                crossing.append(_both_signs(fold.cuts(*(values[name] for name in fold.inputs))))
        zeros = dict(zip((fold.output for fold in layout.folds), tolerances, strict=False))
        tie_tolerances.append([_ties(tournament, zeros) for tournament in segment.tournaments])
        live = {name: values[name] for name in segment.kept}
    tie_tolerances += [[] for _ in range(len(layout.segments) - len(tie_tolerances))]
    bending = float(np.mean(crossing)) if crossing else 0.0
    factored = factored_folds(layout.folds, layout.widths[:-1], rows, dimension, layout.work, bending)
    return Plan(layout, tolerances, tie_tolerances, factored, first)


def _small_probes(
    product: tuple[bool, np.ndarray, np.ndarray], x: np.ndarray, lines: int | None
) -> tuple[Tensor, Tensor]:
    """Values `[probes, U]` behind a small product, and the largest sums of absolute terms at any probe (of a line)."""
    size, units = product[1].shape
    values, limits = np.empty((len(x), units)), np.zeros((lines or 1, units))
    kernels.multiply_probes(x, *product, np.empty(size + 1, np.int64), np.empty(units), values, limits)
    return torch.from_numpy(values), torch.from_numpy(limits)


def _both_signs(cuts: Tensor) -> int:
    """How many units of pre-activations `[probes, U]` take both signs."""
    return int(((cuts.amin(0) < 0) & (cuts.amax(0) > 0)).sum())


def _above_zero(tolerance: np.ndarray, before: list[np.ndarray]) -> np.ndarray:
    """Where terms are zero at every probe (sums or minima of ReLUs), what they are made of still rounds elsewhere."""
    return tolerance if not before or tolerance.all() else np.where(tolerance > 0.0, tolerance, before[-1].max())


def _largest(values: Tensor, lines: int | None) -> Tensor:
    """`[lines or 1, ...]` the largest size of each number at any probe (of a line)."""
    return values.reshape(lines or 1, -1, *values.shape[1:]).abs().amax(1)


def _flat(limits: Tensor, lines: int | None) -> np.ndarray:
    """`[U]` or `[lines, U]` as an array."""
    return limits.numpy() if lines is not None else limits[0].numpy()


def factored_folds(
    folds: Sequence[Fold], widths: Sequence[int], rows: str, dimension: int, work: float, bending: float
) -> int:
    """How many folds to meet with factored rows, by the widths of rows before them.

    A model of sizes and signs, so that equal calls have equal results. What plain rows cost is passes through the
    layers (`work`): behind a fold they run over the vertices that were there before it. What factored rows cost is a
    product with the basis per vertex, which has a row for each unit that bends (`bending`, by the probes: the mean over
    layers that are not narrow): so they pay where few units bend, and never where layers are narrower than a basis. On
    a line there are as many basis rows as vertices: there they pay for several images alone, whose basis rows are small
    windows at first, and where memory is short. `python -m benchmarks.rows` measures both kinds and the choice.

    If they pay before any fold, up to the last one that is not narrow: where rows are handed over, every vertex is an
    old one, which is dear while rows are wide.
    """
    if rows != "auto":
        return len(widths) if rows == "factored" else 0
    if dimension == 1:
        images = sum(width >= WIDE and len(fold.site.shape) == 3 for fold, width in zip(folds, widths, strict=True))
        pays = images >= _IMAGES_ON_LINES or any(width >= _TOO_WIDE for width in widths)
    else:
        pays = any(width >= _TOO_WIDE for width in widths) or bending < _UNITS_PER_PRODUCT * work
    return max((i + 1 for i, width in enumerate(widths) if pays and width >= min(_LEAST, WIDE)), default=0)


def always_factored_on_lines(program: Program, rows: str) -> bool:
    """Whether `factored_folds` will say so whatever a plan finds, which for such networks costs a second to make."""
    images = sum(site.units >= WIDE and len(site.shape) == 3 for site in program.sites)
    wide = images >= _IMAGES_ON_LINES or any(site.units >= _TOO_WIDE for site in program.sites)
    return rows == "factored" or (rows == "auto" and wide)


def _ties(tournament: Tournament, tolerances: dict[str, np.ndarray]) -> np.ndarray:
    """`[windows]`: how far two values of a tournament may be apart that are the same, by all that met in it.

    Not by the size of its result: a minimum of ReLUs may be zero at every probe, and is rounded as its values are.
    """
    ties = np.zeros(math.prod(tournament.shape))
    for name, windows in tournament.stages:
        np.maximum.at(ties, windows, tolerances[name])
    return ties


def _block(width: int) -> int:
    """Rows of this width that run through the torch ops together: what caches hold, and few calls if narrow."""
    if width > 4096:
        return min(32, max(2, _BLOCK_NUMBERS // width))
    return min(2048, max(256, _NARROW_BLOCK // width))


def probe_points(program: Program, domain: np.ndarray) -> np.ndarray:
    """Fixed points of a convex domain `[n, d]`: its corners and a spread of points inside."""
    return np.concatenate([domain, probe_weights(program, *domain.shape) @ domain])


def probe_weights(program: Program, corners: int, dimension: int) -> np.ndarray:
    """`[count, corners]` weights of the corners in the probes inside a domain.

    Fewer on lines, and for wide networks: there a pre-activation has many terms, whose sum varies little, and a probe
    costs more.
    """
    wide = max((site.units for site in program.sites), default=0) >= WIDE
    count = _PROBES_IF_WIDE if wide else _PROBES_ON_LINES if dimension == 1 else _PROBES
    return spread(corners, count)


@cache
def spread(corners: int, count: int) -> np.ndarray:
    """`[count, corners]` weights of corners in fixed points of a convex domain."""
    return np.random.default_rng(0).dirichlet(np.ones(corners), size=count)


def run_in_blocks(segment: Segment, values: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]],
                  block: int, out: dict[str, np.ndarray], count: int) -> None:  # fmt: skip
    """Fill `out[key][:count]` with the segment's rows for the vertices whose flat values are given."""
    if segment.small is not None:
        bent, weight, bias = segment.small
        flat, (result,) = values[segment.entry], out.values()
        kernels.multiply(flat[:count], bent, weight, bias, np.empty(len(weight) + 1, np.int64), result)
        return
    product = segment.only_product
    for start in range(0, count, block):
        stop = min(start + block, count)
        more = missing(stop - start)
        inputs = {}
        for name, rows in values.items():
            whole = whole_groups(rows) if more else rows
            part = torch.from_numpy(whole[start : stop + more])
            if part.shape[0] < stop - start + more:
                part = torch.constant_pad_nd(part, (0, 0, 0, stop - start + more - part.shape[0]))
            inputs[name] = part if len(shapes[name]) == 1 else part.reshape(part.shape[0], *shapes[name])
        if product is not None:
            whole = whole_groups(next(iter(out.values())))
            if len(whole) >= stop + more:
                product.into(segment.start(inputs), torch.from_numpy(whole[start : stop + more]))
                continue
        for key, found in segment.run(inputs).items():
            out[key][start:stop] = found[: stop - start].numpy()
