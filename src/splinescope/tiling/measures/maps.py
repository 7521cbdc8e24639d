"""The affine map of every tile: `f(t) = A t + c` on the slice, `f(x) = A x + c` in the input space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...support.checks import check_choice
from ...support.errors import InputError
from ...support.progress import Progress, stepping
from ..kernels.polygon_shapes import spanning_triangles
from ..kernels.polytope_corners import spanning_corners
from .differentiate import block_rows, blocks, directional_derivatives, jacobians, outputs

if TYPE_CHECKING:
    from ..tiling import Tiling

NORMS = ("spectral", "frobenius")
THIN = 1e-6
"""Tiles thinner than this times the slice's extent get their slope from the network, not from their corners:
the corners give it to about machine epsilon times extent over thickness."""

_NUMBERS_AT_ONCE = 1 << 21  # of outputs in one block
_MOST_AT_ONCE = 1 << 16  # tiles, walls or vertices in one block
_LARGEST_RESULT = 4 << 30  # bytes


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


def output_count(tiling: Tiling) -> int:
    """C, the numbers in one output of the network."""
    if tiling.values is not None:
        return tiling.values.shape[1]
    return int(np.prod(tiling.program("outputs").output_shape))


def output_blocks(tiling: Tiling, count: int, what: str, progress: Progress | bool | None = None) -> Iterator[slice]:
    """0..count (tiles, walls or vertices) in blocks whose outputs take little memory; tells how far it is."""
    each = output_count(tiling) if count else 1
    yield from stepping(list(blocks(count, int(np.clip(_NUMBERS_AT_ONCE // each, 1, _MOST_AT_ONCE)))), progress, what)


def iterate_vertex_values(tiling: Tiling) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(numbers of vertices, their outputs `[n, C]`) for all vertices, a block at a time."""
    for block in output_blocks(tiling, len(tiling.vertices), "outputs at vertices"):
        rows = np.arange(block.start, block.stop)
        yield rows, vertex_values(tiling, rows)


def inner_points(tiling: Tiling, tiles: np.ndarray | None = None) -> np.ndarray:
    """`[k, d]` a point inside each tile: the mean of its corners."""
    if tiles is None:
        return tiling.tiles.corner_means(tiling.vertices)
    return tiling.tiles.some(as_tiles(tiling, tiles)).corner_means(tiling.vertices)


def slopes(tiling: Tiling, tiles: Any = None) -> np.ndarray:
    """`[k, C, d]` slopes A of the maps `f(t) = A t + c` on the slice, in slice coordinates.

    From the outputs at three well-placed corners of each tile; tiles thinner than 1e-6 of the slice, whose
    corners hold too few digits, by differentiating the network where it is attached (without it, NaN where the
    corners lie on a line). Exact to rounding.

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", equation (5).
    """
    return np.concatenate([a for _, a, _ in _iterate_maps(tiling, as_tiles(tiling, tiles))])


def offsets(tiling: Tiling, tiles: Any = None) -> np.ndarray:
    """`[k, C]` offsets c of the maps `f(t) = A t + c` on the slice."""
    return np.concatenate([c for _, _, c in _iterate_maps(tiling, as_tiles(tiling, tiles))])


def iterate_slopes(
    tiling: Tiling, tiles: Any = None, progress: Progress | bool | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(tile numbers, slopes `[k, C, d]`) for all tiles, a block at a time."""
    for numbers, a, _ in _iterate_maps(tiling, as_tiles(tiling, tiles), progress):
        yield numbers, a


def _iterate_maps(
    tiling: Tiling, tiles: np.ndarray, progress: Progress | bool | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(tile numbers, slopes, offsets) a block at a time, at least one."""
    for block in output_blocks(tiling, len(tiles), "maps of tiles", progress):
        yield tiles[block], *_maps(tiling, tiles[block])
    if not len(tiles):
        yield tiles, *_maps(tiling, tiles)


def slope_norms(tiling: Tiling, kind: str = "spectral") -> np.ndarray:
    """`[K]` norms ("spectral" or "frobenius") of the slopes on the slice, a block at a time.

    The spectral norm is the Lipschitz constant of the network on the tile along the slice (for the orthonormal
    bases that the constructors of `Slice` make).
    """
    check_choice(kind, "kind", NORMS)
    norms = np.empty(tiling.count)
    for numbers, a in iterate_slopes(tiling):
        norms[numbers] = matrix_norms(a, kind)
    return norms


def singular_values(tiling: Tiling, tiles: Any = None, *, progress: Progress | bool | None = None) -> np.ndarray:
    """`[k, min(C, d)]` singular values of the slopes on the slice, largest first; `progress` as in `tessellate`."""
    parts = [np.linalg.svd(a, compute_uv=False) for _, a in iterate_slopes(tiling, tiles, progress)]
    return np.concatenate(parts)


def matrix_norms(matrices: np.ndarray, kind: str) -> np.ndarray:
    """`[k]` norms of `[k, m, n]` matrices; the spectral one by the Gram matrix of the shorter side."""
    if kind == "frobenius":
        return np.sqrt(np.einsum("kij,kij->k", matrices, matrices))
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
    elif tiling.dimension > 2:
        ends, thickness = _spanning_simplices(tiling, tiles)
    else:
        ends = np.empty((len(tiles), 3), np.int64)
        thickness = np.empty(len(tiles))
        spanning_triangles(tiling.tiles.offsets, tiling.tiles.corners, tiling.vertices, tiles, ends, thickness)
    used, rows = np.unique(ends, return_inverse=True)
    values = vertex_values(tiling, used)[rows.reshape(ends.shape)]
    points = tiling.vertices[ends]
    with np.errstate(all="ignore"):  # tiles without thickness
        slopes = _solid_slopes(points, values) if tiling.dimension > 2 else _flat_slopes(points, values)
    thin = np.flatnonzero(thickness < THIN * np.ptp(tiling.view.domain, axis=0).max())
    if len(thin) and tiling.frozen is not None:
        slopes[thin] = _slopes_by_network(tiling, tiles[thin])
    elif len(thin):  # nothing is known of what its corners do not tell
        slopes[thin[~np.isfinite(slopes[thin]).all((1, 2))]] = np.nan
    return slopes, values[:, 0] - np.einsum("kcd,kd->kc", slopes, points[:, 0])


def _flat_slopes(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Slopes `[k, C, d]` from values `[k, d + 1, C]` at points `[k, d + 1, d]` of a line or plane."""
    along = points[:, 1] - points[:, 0]
    length = np.linalg.norm(along, axis=1, keepdims=True)
    along = along / length
    rise = (values[:, 1] - values[:, 0]) / length
    slopes = rise[:, :, None] * along[:, None, :]
    if points.shape[2] == 2:
        third = points[:, 2] - points[:, 0]
        across = np.stack([-along[:, 1], along[:, 0]], 1)
        height = (third * across).sum(1, keepdims=True)
        rise = (values[:, 2] - values[:, 0] - rise * (third * along).sum(1, keepdims=True)) / height
        slopes += rise[:, :, None] * across[:, None, :]
    return slopes


def _slopes_by_network(tiling: Tiling, tiles: np.ndarray) -> np.ndarray:
    program = tiling.program("slopes")
    points = tiling.view.inputs(inner_points(tiling, tiles))
    basis = np.array(tiling.view.basis)
    return np.concatenate(
        [directional_derivatives(program, points[b], basis) for b in blocks(len(tiles), block_rows(program))]
    )


def iterate_input_slopes(tiling: Tiling, tiles: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`input_slopes` a block at a time: (tile numbers `[k]`, slopes `[k, C, D]`)."""
    numbers = as_tiles(tiling, tiles)
    program = tiling.program("slopes in the input space")
    size = int(np.prod(program.input_shape)) * int(np.prod(program.output_shape))
    rows = max(1, min(block_rows(program), (64 << 20) // (8 * size)))
    for block in stepping(list(blocks(len(numbers), rows)), None, "slopes in the input space"):
        points = tiling.view.inputs(inner_points(tiling, numbers[block]))
        yield numbers[block], jacobians(program, points)


def input_slopes(tiling: Tiling, tiles: Any) -> np.ndarray:
    """`[k, C, D]` slopes A of `f(x) = A x + c` in the full input space: Jacobians at a point of each tile.

    Exact. Cost: min(C, D) passes through the network per tile, in blocks. For more than memory holds see
    `iterate_input_slopes`.
    """
    numbers = as_tiles(tiling, tiles)
    program = tiling.program("slopes in the input space")
    shape = (int(np.prod(program.output_shape)), int(np.prod(program.input_shape)))
    if 8 * len(numbers) * shape[0] * shape[1] > _LARGEST_RESULT:
        raise InputError(
            f"{len(numbers)} matrices of {shape[0]} x {shape[1]} take over {_LARGEST_RESULT >> 30} GiB: "
            "ask for fewer tiles, or use iterate_input_slopes or input_slope_norms, which hold few at a time."
        )
    parts = [a for _, a in iterate_input_slopes(tiling, numbers)]
    return np.concatenate(parts) if parts else np.zeros((0, *shape))


def input_slope_norms(tiling: Tiling, tiles: Any = None, kind: str = "spectral") -> np.ndarray:
    """`[k]` norms of `input_slopes`, holding a block at a time: the local Lipschitz constants of the network."""
    check_choice(kind, "kind", NORMS)
    parts = [matrix_norms(a, kind) for _, a in iterate_input_slopes(tiling, tiles)]
    return np.concatenate(parts) if parts else np.zeros(0)


def input_singular_values(tiling: Tiling, tiles: Any = None) -> np.ndarray:
    """`[k, min(C, D)]` singular values of `input_slopes`, largest first, holding a block of matrices at a time."""
    parts = [np.linalg.svd(a, compute_uv=False) for _, a in iterate_input_slopes(tiling, tiles)]
    return np.concatenate(parts) if parts else np.zeros((0, 0))


def _spanning_simplices(tiling: Tiling, tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per tile d + 1 corners that span it well, `[k, d + 1]`, and how thin it is in its thinnest direction, `[k]`."""
    chosen = np.empty((len(tiles), tiling.dimension + 1), np.int64)
    thickness = np.empty(len(tiles))
    spanning_corners(tiling.tiles.offsets, tiling.tiles.corners, tiling.vertices, tiles, chosen, thickness)
    return chosen, thickness


def _solid_slopes(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Slopes `[k, C, d]` of the affine maps with values `[k, d + 1, C]` at points `[k, d + 1, d]`."""
    edges = points[:, 1:] - points[:, :1]
    rises = values[:, 1:] - values[:, :1]
    try:
        return np.linalg.solve(edges, rises).transpose(0, 2, 1)
    except np.linalg.LinAlgError:  # some lie in a plane to the last digit: they alone have no slope
        flat = np.linalg.slogdet(edges)[0] == 0
        slopes = np.full((len(points), values.shape[2], points.shape[2]), np.nan)
        slopes[~flat] = np.linalg.solve(edges[~flat], rises[~flat]).transpose(0, 2, 1)
        return slopes
