"""The affine map `f(t) = A t + c` of every tile, its norm, its outputs, classes and activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...support.checks import as_points, check_index
from ...support.errors import InputError
from ...support.progress import stepping
from ..cells.lists import means
from ..kernels.polygon_shapes import spanning_triangles
from ..kernels.polytope_corners import spanning_corners
from .differentiate import BLOCK_BYTES, block_rows, blocks, directional_derivatives, jacobians, outputs
from .points_together import ProgramAtPoints, points_together

if TYPE_CHECKING:
    from ..tiling import Tiling

THIN = 1e-6
"""Tiles thinner than this times the slice's extent get their slope from the network, not from their corners:
the corners give it to about machine epsilon times extent over thickness."""

_NUMBERS_AT_ONCE = 1 << 21  # of outputs in one block
_MOST_AT_ONCE = 1 << 16  # tiles, walls or vertices in one block


def as_tiles(tiling: Tiling, tiles: Any) -> np.ndarray:
    """Tile numbers as an int64 array, all of them for None; refused if out of range."""
    if tiles is None:
        return np.arange(tiling.count)
    numbers = np.atleast_1d(np.asarray(tiles))
    if numbers.dtype == bool and numbers.shape == (tiling.count,):
        return np.flatnonzero(numbers)
    if numbers.ndim != 1 or not (np.issubdtype(numbers.dtype, np.integer) or numbers.size == 0):
        raise InputError(f"tiles must be tile numbers of shape (k,), got {numbers.dtype} of shape {numbers.shape}.")
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < tiling.count):
        raise InputError(
            f"tiles must be numbers in [0, {tiling.count}), got values from {numbers.min()} to {numbers.max()}."
        )
    return numbers.astype(np.int64)


def vertex_values(tiling: Tiling, rows: np.ndarray) -> np.ndarray:
    """`[n, C]` outputs at some vertices: those kept by the tiling, or computed by the network where it keeps none."""
    if tiling.values is not None:
        return tiling.values[rows]
    program = tiling.program("outputs of over 64 numbers")
    size = block_rows(program)
    return np.concatenate(
        [outputs(program, tiling.view.inputs(tiling.vertices[rows[b]])) for b in blocks(len(rows), size)]
        or [np.zeros((0, int(np.prod(program.output_shape))))]
    )


def corner_values(tiling: Tiling, corners: np.ndarray) -> np.ndarray:
    """`[M, C]` outputs at some corners, which may repeat; where the network computes them, each vertex only once."""
    if tiling.values is not None:
        return tiling.values[corners]
    used, rows = np.unique(corners, return_inverse=True)
    return vertex_values(tiling, used)[rows.reshape(-1)]


def output_count(tiling: Tiling) -> int:
    """C, the numbers in one output of the network."""
    if tiling.values is not None:
        return tiling.values.shape[1]
    return int(np.prod(tiling.program("outputs").output_shape))


def output_blocks(tiling: Tiling, count: int, what: str) -> Iterator[slice]:
    """0..count (tiles, walls or vertices) in blocks whose outputs take little memory; tells how far it is."""
    each = output_count(tiling) if count else 1
    yield from stepping(list(blocks(count, int(np.clip(_NUMBERS_AT_ONCE // each, 1, _MOST_AT_ONCE)))), None, what)


def iterate_vertex_values(tiling: Tiling) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(numbers of vertices, their outputs `[n, C]`) for all vertices, a block at a time."""
    for block in output_blocks(tiling, len(tiling.vertices), "outputs at vertices"):
        rows = np.arange(block.start, block.stop)
        yield rows, vertex_values(tiling, rows)


def largest_output(tiling: Tiling) -> float:
    """Largest absolute output at a vertex."""
    return max((float(np.abs(values).max()) for _, values in iterate_vertex_values(tiling)), default=0.0)


def output_at_vertices(tiling: Tiling, output: int) -> np.ndarray:
    """`[V]` one output at all vertices."""
    check_index(output, "output", output_count(tiling))
    return np.concatenate([values[:, output].copy() for _, values in iterate_vertex_values(tiling)] or [np.zeros(0)])


def inner_points(tiling: Tiling, tiles: np.ndarray | None = None) -> np.ndarray:
    """`[k, d]` a point inside each tile: the mean of its corners."""
    if tiles is None:
        return tiling.tiles.corner_means(tiling.vertices)
    return tiling.tiles.some(as_tiles(tiling, tiles)).corner_means(tiling.vertices)


def slopes(tiling: Tiling, tiles: Any = None) -> np.ndarray:
    """`[k, C, d]` slopes A of the maps `f(t) = A t + c` on the slice, in slice coordinates.

    From the outputs at d + 1 well-placed corners of each tile; tiles thinner than 1e-6 of the slice, whose corners
    hold too few digits, by differentiating the network (without it, NaN where the corners lie on a line). Exact to
    rounding.

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", equation (5).
    """
    return np.concatenate([a for _, a, _ in _iterate_maps(tiling, as_tiles(tiling, tiles))])


def offsets(tiling: Tiling, tiles: Any = None) -> np.ndarray:
    """`[k, C]` offsets c of the maps `f(t) = A t + c` on the slice."""
    return np.concatenate([c for _, _, c in _iterate_maps(tiling, as_tiles(tiling, tiles))])


def iterate_slopes(tiling: Tiling) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(tile numbers, slopes `[k, C, d]`) for all tiles, a block at a time."""
    for numbers, a, _ in _iterate_maps(tiling, np.arange(tiling.count)):
        yield numbers, a


def _iterate_maps(tiling: Tiling, tiles: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(tile numbers, slopes, offsets) a block at a time, at least one."""
    for block in output_blocks(tiling, len(tiles), "maps of tiles"):
        yield tiles[block], *_maps(tiling, tiles[block])
    if not len(tiles):
        yield tiles, *_maps(tiling, tiles)


def slope_norms(tiling: Tiling) -> np.ndarray:
    """`[K]` spectral norms of the slopes on the slice.

    It is the Lipschitz constant of the network on the tile along the slice (for the orthonormal bases that the
    constructors of `Slice` make).
    """
    norms = np.empty(tiling.count)
    for numbers, a in iterate_slopes(tiling):
        norms[numbers] = spectral_norms(a)
    return norms


def spectral_norms(matrices: np.ndarray) -> np.ndarray:
    """`[k]` norms of `[k, m, n]` matrices, by the Gram matrix of the shorter side."""
    if matrices.shape[1] < matrices.shape[2]:
        matrices = matrices.transpose(0, 2, 1)
    gram = np.einsum("kij,kil->kjl", matrices, matrices, optimize=True)
    if gram.shape[1] == 1:
        return np.sqrt(gram[:, 0, 0])
    if gram.shape[1] == 2:
        half = (gram[:, 0, 0] - gram[:, 1, 1]) / 2
        return np.sqrt((gram[:, 0, 0] + gram[:, 1, 1]) / 2 + np.hypot(half, gram[:, 0, 1]))
    return np.sqrt(np.linalg.eigvalsh(gram)[:, -1].clip(0))


def _maps(tiling: Tiling, tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes `[k, C, d]` and offsets `[k, C]` of some tiles."""
    if not len(tiles):
        count = 0 if tiling.values is None else tiling.values.shape[1]
        return np.zeros((0, count, tiling.dimension)), np.zeros((0, count))
    if tiling.dimension == 1:
        ends = tiling.tiles.corners.reshape(-1, 2)[tiles]
        thickness = np.diff(tiling.vertices[ends, 0], axis=1)[:, 0]
    else:
        ends, thickness = np.empty((len(tiles), tiling.dimension + 1), np.int64), np.empty(len(tiles))
        span, points = spanning_triangles, tiling.vertices
        if tiling.dimension > 2:  # by axes of one length: coordinates have as many digits however long theirs is
            extents = np.ptp(tiling.view.domain, axis=0)
            span, points = spanning_corners, tiling.vertices * (extents.max() / extents)
        span(tiling.tiles.offsets, tiling.tiles.corners, points, tiles, ends, thickness)
    values = corner_values(tiling, ends.reshape(-1)).reshape(*ends.shape, -1)
    points = tiling.vertices[ends]
    with np.errstate(all="ignore"):  # tiles without thickness
        slopes = _slopes_between(points, values)
    thin = np.flatnonzero(thickness < THIN * np.ptp(tiling.view.domain, axis=0).max())
    if len(thin) and tiling.frozen is not None:
        places, basis = tiling.view.inputs(inner_points(tiling, tiles[thin])), np.array(tiling.view.basis)
        for block in blocks(len(thin), block_rows(tiling.frozen)):
            slopes[thin[block]] = directional_derivatives(tiling.frozen, places[block], basis)
    elif len(thin):  # nothing is known of what its corners do not tell
        slopes[thin[~np.isfinite(slopes[thin]).all((1, 2))]] = np.nan
    return slopes, values[:, 0] - np.einsum("kcd,kd->kc", slopes, points[:, 0])


def input_slopes(tiling: Tiling, tiles: Any) -> np.ndarray:
    """`[k, C, D]` slopes A of `f(x) = A x + c` in the full input space: Jacobians at a point of each tile.

    Exact. Cost: min(C, D) passes through the network per tile, in blocks. The result takes 8 k C D bytes; for norms
    alone, `input_slope_norms` holds few matrices at a time.
    """
    program = tiling.program("slopes in the input space")
    shape = (int(np.prod(program.output_shape)), int(np.prod(program.input_shape)))
    return np.concatenate([np.empty((0, *shape)), *(a for _, a in _iterate_input_slopes(tiling, tiles))])


def input_slope_norms(tiling: Tiling, tiles: Any = None) -> np.ndarray:
    """`[k]` spectral norms of `input_slopes`: local Lipschitz constants of the network. Exact."""
    norms = np.empty(len(as_tiles(tiling, tiles)))
    for block, matrices in _iterate_input_slopes(tiling, tiles):
        norms[block] = spectral_norms(matrices)
    return norms


def _iterate_input_slopes(tiling: Tiling, tiles: Any) -> Iterator[tuple[slice, np.ndarray]]:
    numbers = as_tiles(tiling, tiles)
    program = tiling.program("slopes in the input space")
    size = int(np.prod(program.input_shape)) * int(np.prod(program.output_shape))
    rows = max(1, min(block_rows(program), BLOCK_BYTES // (8 * size)))
    for block in stepping(list(blocks(len(numbers), rows)), None, "slopes in the input space"):
        yield block, jacobians(program, tiling.view.inputs(inner_points(tiling, numbers[block])))


def _slopes_between(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Slopes `[k, C, d]` of the affine maps with values `[k, d + 1, C]` at points `[k, d + 1, d]`."""
    edges = points[:, 1:] - points[:, :1]
    rises = values[:, 1:] - values[:, :1]
    try:
        return np.linalg.solve(edges, rises).transpose(0, 2, 1)
    except np.linalg.LinAlgError:  # some lie in one plane (on one line) to the last digit: they alone have no slope
        flat = np.linalg.slogdet(edges)[0] == 0
        slopes = np.full((len(points), values.shape[2], points.shape[2]), np.nan)
        slopes[~flat] = np.linalg.solve(edges[~flat], rises[~flat]).transpose(0, 2, 1)
        return slopes


def outputs_at(tiling: Tiling, points: Any) -> np.ndarray:
    """`[N, C]` outputs (before any ending) at slice coordinates `[N, d]`, by the network."""
    points = as_points(points, tiling.dimension)
    program = tiling.program("outputs at points")
    parts = [outputs(program, tiling.view.inputs(points[b])) for b in blocks(len(points), block_rows(program))]
    return np.concatenate(parts) if parts else np.zeros((0, int(np.prod(program.output_shape))))


def output_ranges(tiling: Tiling, output: int = 0) -> np.ndarray:
    """`[K, 2]` least and largest value of one output on each tile. Exact: an affine map is extreme at corners."""
    return tiling.tiles.corner_ranges(output_at_vertices(tiling, output))


def classes(tiling: Tiling) -> np.ndarray:
    """`[K]` winning output in the middle of each tile (one output: 1 where it is positive, else 0)."""
    winners = np.empty(tiling.count, np.int64)
    for block in output_blocks(tiling, tiling.count, "classes"):
        some = tiling.tiles.some(np.arange(block.start, block.stop))
        middles = means(corner_values(tiling, some.corners), some.offsets)
        winners[block] = middles.argmax(1) if middles.shape[1] > 1 else middles[:, 0] > 0
    return winners


def active_units(tiling: Tiling) -> np.ndarray:
    """`[K]` number of units on the positive side of their fold on each tile."""
    program = tiling.program("activation patterns")
    counts = np.zeros(tiling.count, np.int64)
    points = inner_points(tiling)
    together = points_together(program, tiling.view)
    for block in stepping(list(blocks(tiling.count, together or block_rows(program))), None, "activation patterns"):
        if together:
            patterns = ProgramAtPoints(program, tiling.view, points[block]).patterns
        else:
            with torch.no_grad():
                patterns = list(program.patterns(torch.from_numpy(tiling.view.inputs(points[block]))))
        counts[block] = sum(pattern.sum(1) for pattern in patterns)
    return counts
