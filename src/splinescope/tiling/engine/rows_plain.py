"""What the vertices of a chunk carry, and how it gets over a fold.

Vertices that were there before a fold go through the real torch ops; rows of those that the fold made follow from
their parents' by delta propagation. What stands beside a row never changes its bits, so chunks may be split at will.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .. import kernels
from .plan import Plan, run_in_blocks
from .segments import CUTS, Segment

_BENDS_EACH = 8  # room for units that bend between the parents of a new vertex; more where it is too little


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

    def some(self, chosen: np.ndarray) -> PlainRows:
        """The rows of some vertices."""
        values = {key: row[chosen] for key, row in self.values.items()}
        return replace(self, values=values, cuts=self.cuts[chosen])

    def value(self, segment: Segment, name: str) -> np.ndarray:
        """`[V, size]` of a value that the segment keeps."""
        return self.cuts if name in segment.aliases else self.values[name]


def first_rows(plan: Plan, inputs: np.ndarray, name: str, shape: tuple[int, ...]) -> PlainRows:
    """Rows at the first fold of vertices whose network inputs `[n, D]` are given."""
    segment = plan.segments[0]
    rows = empty_rows(plan, segment, len(inputs))
    run_in_blocks(segment, {name: inputs}, {name: shape}, plan.layout.rows_per_block[0], rows, len(inputs))
    return plain(plan, 0, rows, len(inputs))


def crossed(plan: Plan, stage: int, rows: PlainRows, vertices: kernels.Vertices, total: int) -> PlainRows:
    """Rows of all vertices at the end of the segment behind fold `stage`, from those of the old ones before it."""
    before, segment = plan.segments[stage], plan.segments[stage + 1]
    fold = segment.fold
    assert fold is not None
    result = empty_rows(plan, segment, total)
    old = len(rows)
    live = {name: rows.value(before, name) for name in before.kept}
    run_in_blocks(segment, live, before.shapes, plan.layout.rows_per_block[stage + 1], result, old)
    found = np.zeros(vertices.pos.shape[1], np.uint64)
    room, bends = _BENDS_EACH, None
    while bends is None:
        most = room * (total - old) + 64
        made = np.empty(total - old + 1, np.int64), np.empty(most, np.int64), np.empty(most)
        bends = made if kernels.list_bends(old, total, *vertices[2:], fold.gains, found, *made) >= 0 else None
        room *= 4
    fill_new(segment, before, old, vertices.parents, vertices.weights, found, bends, result)
    return plain(plan, stage + 1, result, total)


def fill_new(
    segment: Segment, before: Segment, old: int, parents: np.ndarray, weights: np.ndarray, found: np.ndarray,
    bends: tuple[np.ndarray, ...], rows: dict[str, np.ndarray],
) -> None:  # fmt: skip
    """Fill the rows of vertices that a segment's fold made, `old` and on: see `kernels.list_bends`."""
    fold = segment.fold
    assert fold is not None
    columns = segment.columns(before.shapes, found) if segment.bent and found.any() else {}
    for key, row in rows.items():
        store = columns.get(key)
        if store is None or store.count == 0:
            kernels.carry(old, len(row), parents, weights, row)
            continue
        given = (old, len(row), parents, weights, *bends, row, store.slots[fold.elements])
        if store.dense is not None:
            kernels.carry_dense(*given, store.dense)
        else:
            kernels.carry_sparse(*given, store.starts, store.indices, store.entries)


def plain(plan: Plan, stage: int, rows: dict[str, np.ndarray], count: int) -> PlainRows:
    """Rows of that many vertices by key, those of the pre-activations among them if a fold follows."""
    if CUTS not in rows:
        return PlainRows(rows, np.empty((count, 0)), np.zeros(0, np.int32), np.zeros(0))
    values = {key: row for key, row in rows.items() if key != CUTS}
    return PlainRows(values, rows[CUTS], plan.layout.labels[stage], plan.tolerances[stage])


def empty_rows(plan: Plan, segment: Segment, count: int) -> dict[str, np.ndarray]:
    """Room for the rows of that many vertices at the end of a segment."""
    return {key: plan.buffers.rows(count, segment.width(key)) for key in segment.keys}
