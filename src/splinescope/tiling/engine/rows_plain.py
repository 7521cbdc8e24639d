"""What the vertices of a chunk carry, and how it gets over a fold.

Vertices that were there before a fold go through the real torch ops; rows of those that the fold made follow from
their parents' by delta propagation. What stands beside a row never changes its bits, so chunks may be split at will.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .. import kernels
from .plan import Plan, empty_rows, run_in_blocks
from .segments import CUTS, Columns, Segment


@dataclass(frozen=True)
class PlainRows:
    """Flat values of vertices at a segment's end: key to `[V, size]`.

    `cuts` `[V, U]` are the pre-activations of the fold that follows (none: no columns), `labels` and `tolerances`
    `[U]` what its units are called and what counts as zero. Names in `Segment.aliases` have no rows of their own:
    theirs are the pre-activations.
    """

    values: dict[str, np.ndarray]
    cuts: np.ndarray
    labels: np.ndarray
    tolerances: np.ndarray

    def __len__(self) -> int:
        return len(self.cuts)

    def of(self, chosen: np.ndarray) -> PlainRows:
        """The rows of some vertices."""
        values = {key: row[chosen] for key, row in self.values.items()}
        return replace(self, values=values, cuts=self.cuts[chosen])

    def value(self, segment: Segment, name: str) -> np.ndarray:
        """`[V, size]` of a value that the segment keeps."""
        return self.cuts if name in segment.aliases else self.values[name]


def first_rows(plan: Plan, inputs: np.ndarray, name: str, shape: tuple[int, ...]) -> PlainRows:
    """Rows at the first fold of vertices whose network inputs `[n, D]` are given."""
    segment = plan.segments[0]
    rows = _empty(segment, len(inputs))
    run_in_blocks(segment, {name: inputs}, {name: shape}, plan.layout.rows_per_block[0], rows, len(inputs))
    return plain(plan, 0, rows, len(inputs))


def crossed(plan: Plan, stage: int, rows: PlainRows, vertices: kernels.Vertices, total: int) -> PlainRows:
    """Rows of all vertices at the end of the segment behind fold `stage`, from those of the old ones before it."""
    before, segment = plan.segments[stage], plan.segments[stage + 1]
    fold = segment.fold
    assert fold is not None
    result = _empty(segment, total)
    old = len(rows)
    live = {name: rows.value(before, name) for name in before.kept}
    run_in_blocks(segment, live, before.shapes, plan.layout.rows_per_block[stage + 1], result, old)
    if total > old:
        found = np.zeros(vertices.pos.shape[1], np.uint64)
        kernels.conflicting_units(old, total, *vertices[2:], found)
        columns = segment.columns(before.shapes, found) if segment.bent else {}
        for key in segment.keys:
            _carry(segment, vertices, old, total, result[key], columns.get(key))
    return plain(plan, stage + 1, result, total)


def _carry(
    segment: Segment, vertices: kernels.Vertices, old: int, total: int, rows: np.ndarray, columns: Columns | None
) -> None:
    """Fill the rows of the vertices that the fold made."""
    fold = segment.fold
    assert fold is not None
    if columns is None or columns.count == 0:
        kernels.carry(old, total, vertices.parents, vertices.weights, rows)
        return
    bends = (*vertices[2:-1], rows, fold.gains, columns.slots[fold.elements])
    if columns.dense is not None:
        kernels.carry_dense(old, total, *bends, columns.dense)
    else:
        kernels.carry_sparse(old, total, *bends, columns.starts, columns.indices, columns.entries)


def plain(plan: Plan, stage: int, rows: dict[str, np.ndarray], count: int) -> PlainRows:
    """Rows of that many vertices by key, those of the pre-activations among them if a fold follows."""
    if CUTS not in rows:
        return PlainRows(rows, np.empty((count, 0)), np.zeros(0, np.int32), np.zeros(0))
    values = {key: row for key, row in rows.items() if key != CUTS}
    return PlainRows(values, rows[CUTS], plan.layout.labels[stage], plan.tolerances[stage])


def _empty(segment: Segment, count: int) -> dict[str, np.ndarray]:
    return {key: empty_rows(count, segment.width(key)) for key in segment.keys}
