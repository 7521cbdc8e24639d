"""Puts finished chunks together into one mesh, and takes out the walls that are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...support.errors import SplinescopeError
from .. import kernels
from ..cells.lists import connected
from ..cells.solids import kind_of
from ..cells.tiles import OUTSIDE, Tiles
from .chunk import Leaf
from .mesh import Mesh, check_joined, half_edges, pair_half_edges, restored
from .partial import finished_tiles
from .spurious_facets import without_unreal_facets

_NEARLY_ALL = 0.9  # of an array: the rest is not worth a copy
SAME_PLACE = 1e-6  # of the domain: farther apart, two vertices are not the same
SAME_NAME = "two vertices got the same 64-bit name: please report this network and slice."


def assemble(leaves: list[Leaf], domain: np.ndarray, complete: bool = True) -> Mesh:
    """One mesh from all leaves: tiles in the order of their paths, vertices numbered as they first appear.

    The same vertex has the same name in every chunk, so the mesh is watertight across chunks. Two vertices with
    one name at different places would be a collision of 64-bit hashes (odds of 3e-8 at a million vertices): refused.
    Without `complete`, leaves are missing, and tiles that may go on there are left out.
    """
    if not leaves:  # a limit stopped the work before the first tile was finished
        return Mesh(np.zeros((0, domain.shape[1])), None, kind_of(domain).whole(domain).part(0, 0))
    leaves = sorted(leaves, key=lambda leaf: leaf.path)
    size = 1 << int(np.ceil(np.log2(2 * sum(len(leaf.names) for leaf in leaves) + 16)))
    table, known = np.empty(size, np.uint64), np.full(size, -1, np.int32)
    numbers: list[np.ndarray] = []  # per leaf, those of its vertices
    firsts: list[np.ndarray] = []  # per leaf, the vertices that no leaf before it has
    count = 0
    for leaf in leaves:
        own, new = np.full(len(leaf.names), -1, np.int32), np.empty(len(leaf.names), np.int64)
        more = kernels.number_vertices(leaf.names, leaf.tiles.corners, table, known, count, own, new)
        numbers.append(own)
        firsts.append(new[: more - count])
        count = more
    points = np.concatenate([leaf.points[new] for leaf, new in zip(leaves, firsts, strict=True)])
    apart = SAME_PLACE * np.ptp(domain, axis=0).max()  # rows in factored form depend on the chunk in their last bits
    for leaf, own in zip(leaves, numbers, strict=True):
        if kernels.farthest(points, own, leaf.points) > apart:
            raise SplinescopeError(SAME_NAME)
    parts = [leaf.tiles.renumbered(own) for leaf, own in zip(leaves, numbers, strict=True)]
    kept = [leaf.values[new] for leaf, new in zip(leaves, firsts, strict=True) if leaf.values is not None]
    values = np.concatenate(kept) if kept else None
    tiles = parts[0] if len(parts) == 1 else type(parts[0]).joined(parts)
    mesh = Mesh(points, values, tiles.finished(points.shape[1]))
    return without_unreal(mesh, domain, complete) if (tiles.labels < OUTSIDE).any() else mesh


def without_unreal(mesh: Mesh, domain: np.ndarray, complete: bool = True) -> Mesh:
    """A mesh without the walls that are marked as none; where it is not complete, of its finished tiles alone."""
    if not complete:
        mesh = finished_tiles(mesh)
        if not (mesh.tiles.labels < OUTSIDE).any():
            return mesh
    if mesh.points.shape[1] == 1:
        return _without_unreal_ends(mesh)
    if mesh.points.shape[1] == 2:
        return _without_unreal_walls(mesh, domain, complete)
    return without_unreal_facets(mesh)


def _without_unreal_ends(mesh: Mesh) -> Mesh:
    """The 1-D case: join neighbouring intervals at points that only losers of a max draw."""
    left, right = mesh.tiles.corners[::2], mesh.tiles.corners[1::2]
    unreal = mesh.tiles.labels < OUTSIDE
    joined = unreal[2::2] & unreal[1:-1:2] & (left[1:] == right[:-1])  # both sides must agree
    check_joined(mesh, np.flatnonzero(joined), np.flatnonzero(joined) + 1)
    starts, ends = np.append(True, ~joined), np.append(~joined, True)
    corners = np.stack([left[starts], right[ends]], 1).reshape(-1)
    labels = np.stack([mesh.tiles.labels[::2][starts], mesh.tiles.labels[1::2][ends]], 1).reshape(-1)
    used, ids = np.unique(corners, return_inverse=True)
    values = None if mesh.values is None else mesh.values[used]
    offsets = np.arange(0, len(corners) + 1, 2)
    return Mesh(mesh.points[used], values, Tiles(offsets, ids.astype(np.int32), restored(labels)))


def _without_unreal_walls(mesh: Mesh, domain: np.ndarray, complete: bool) -> Mesh:
    """Merge tiles across walls that only losers of a max draw, and drop vertices that are then no corners.

    Tiles without such a wall stay as they are, but for those vertices.
    """
    tiles = mesh.tiles
    marked = np.zeros(len(tiles), bool)
    marked[np.searchsorted(tiles.offsets, np.flatnonzero(tiles.labels < OUTSIDE), side="right") - 1] = True
    part = tiles.chosen(marked)
    merged, leaders = _merged(replace(mesh, tiles=part))
    used = _corners_left(part, merged, tiles, mesh.points, domain)
    if not complete:  # where tiles are missing, two that meet do not make a straight wall
        first, second = pair_half_edges(tiles.offsets, tiles.corners)
        edge = first[second < 0]
        used[tiles.corners[edge]] = used[half_edges(tiles.offsets, tiles.corners)[0][edge]] = True
    ids = np.where(used, np.cumsum(used, dtype=np.int32) - np.int32(1), np.int32(-1))
    become = np.where(marked, np.int32(-2), np.int32(-1))  # gone, or itself
    become[np.flatnonzero(marked)[leaders]] = np.arange(len(merged), dtype=np.int32)
    size = len(tiles.corners)  # at most
    offsets, corners, labels = np.empty(len(tiles) + 1, np.int64), np.empty(size, np.int32), np.empty(size, np.int32)
    count = kernels.replace_tiles(
        tiles.offsets, tiles.corners, tiles.labels, become, merged.offsets, merged.corners, restored(merged.labels),
        ids, offsets, corners, labels,
    )  # fmt: skip
    end = offsets[count]
    arrays = offsets[: count + 1], corners[:end], labels[:end]
    rebuilt = Tiles(*(array if end > _NEARLY_ALL * size else array.copy() for array in arrays))
    return Mesh(mesh.points[used], None if mesh.values is None else mesh.values[used], rebuilt)


def _merged(mesh: Mesh) -> tuple[Tiles, np.ndarray]:
    """Tiles joined across their unreal walls, in the order of the first member of each; and who those are."""
    tiles = mesh.tiles
    first, second = pair_half_edges(tiles.offsets, tiles.corners)
    _, tile_of = half_edges(tiles.offsets, tiles.corners)
    unreal = (tiles.labels[first] < OUTSIDE) & (second >= 0) & (tiles.labels[second] < OUTSIDE)  # both sides must agree
    n = len(tiles)
    joined = tile_of[first[unreal]], tile_of[second[unreal]]
    check_joined(mesh, *joined)
    component = connected(n, *joined)
    inner = np.zeros(len(tiles.corners), bool)
    inner[first[unreal]] = inner[second[unreal]] = True
    # members of a component side by side, at the place of its first member
    _, leaders = np.unique(component, return_index=True)
    order = np.lexsort((np.arange(n), leaders[component]))
    outlines = kernels.chain_boundaries(
        order, leaders[component][order], tiles.offsets, tiles.corners, tiles.labels, inner
    )  # fmt: skip
    return Tiles(*outlines), np.sort(leaders)


def _corners_left(part: Tiles, merged: Tiles, tiles: Tiles, points: np.ndarray, domain: np.ndarray) -> np.ndarray:
    """`[V]`: the vertices that are corners still once the tiles `part` of `tiles` have become `merged`.

    Of those that `part` has, one where only two walls meet is none, unless it is a corner of the domain.
    """
    n = len(points)
    touched = part.used(n)
    around, at_boundary = np.zeros(n, np.int32), np.zeros(n, bool)
    kernels.tiles_around(tiles.offsets, tiles.corners, tiles.labels, touched, around, at_boundary)
    np.subtract.at(around, part.corners, 1)
    np.add.at(around, merged.corners, 1)
    ids = np.flatnonzero(touched)
    straight = np.where(at_boundary[ids], around[ids] == 1, around[ids] == 2)
    alone = np.flatnonzero(at_boundary[ids] & straight)
    straight[alone] = ~(points[ids[alone], None, :] == domain[None]).all(2).any(1)
    left = np.ones(n, bool)
    left[ids] = (around[ids] > 0) & ~straight
    return left
