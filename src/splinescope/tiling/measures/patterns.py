"""Outputs, classes and activations tile by tile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...support.checks import as_points, check_index
from ...support.progress import stepping
from ..cells import lists
from . import maps
from .differentiate import block_rows, blocks, outputs

if TYPE_CHECKING:
    from ..tiling import Tiling


def outputs_at(tiling: Tiling, points: Any) -> np.ndarray:
    """`[N, C]` outputs (before any ending) at slice coordinates `[N, d]`, by the network."""
    points = as_points(points, tiling.dimension)
    program = tiling.program("outputs at points")
    parts = [outputs(program, tiling.view.inputs(points[b])) for b in blocks(len(points), block_rows(program))]
    return np.concatenate(parts) if parts else np.zeros((0, int(np.prod(program.output_shape))))


def output_ranges(tiling: Tiling, output: int = 0) -> np.ndarray:
    """`[K, 2]` least and largest value of one output on each tile. Exact: an affine map is extreme at corners."""
    check_index(output, "output", maps.output_count(tiling))
    parts = [values[:, output].copy() for _, values in maps.iterate_vertex_values(tiling)]
    if not parts:
        return np.zeros((0, 2))
    return tiling.tiles.corner_ranges(np.concatenate(parts))


def classes(tiling: Tiling) -> np.ndarray:
    """`[K]` winning output in the middle of each tile (one output: 1 where it is positive, else 0)."""
    winners = np.empty(tiling.count, np.int64)
    for block in maps.output_blocks(tiling, tiling.count, "classes"):
        some = tiling.tiles.some(np.arange(block.start, block.stop))
        if tiling.values is not None:
            values = tiling.values[some.corners]
        else:  # the network runs on every vertex, so each only once
            used, rows = np.unique(some.corners, return_inverse=True)
            values = maps.vertex_values(tiling, used)[rows.reshape(-1)]
        means = lists.means(values, some.offsets)
        winners[block] = means.argmax(1) if means.shape[1] > 1 else means[:, 0] > 0
    return winners


def active_units(tiling: Tiling) -> np.ndarray:
    """`[K]` number of units on the positive side of their fold on each tile."""
    program = tiling.program("activation patterns")
    counts = np.zeros(tiling.count, np.int64)
    points = maps.inner_points(tiling)
    for block in stepping(list(blocks(tiling.count, block_rows(program))), None, "activation patterns"):
        x = torch.from_numpy(tiling.view.inputs(points[block]))
        with torch.no_grad():
            counts[block] = sum(pattern.sum(1) for pattern in program.patterns(x))
    return counts
