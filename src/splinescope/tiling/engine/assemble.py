"""Puts finished chunks together into one mesh, and removes spurious walls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...support.errors import SplinescopeError
from .. import kernels
from ..cells.lists import connected
from ..cells.solids import Solids, kind_of, widened
from ..cells.tiles import OUTSIDE, Tiles
from .chunk import Leaf
from .mesh import Mesh, check_joined, half_edges, pair_half_edges, restored
from .partial import finished_tiles
from .spurious_facets import without_spurious_facets

_NEARLY_ALL = 0.9  # of an array: the rest is not worth a copy
_SAME_PLACE = 1e-6  # of the domain: farther apart, two vertices are not the same
_FIRST_TABLE = 1 << 20  # entries of the table of vertices, which grows with them
_FULL = 0.75  # of its entries


def assemble(leaves: list[Leaf], domain: np.ndarray, complete: bool = True) -> Mesh:
    """One mesh from all leaves: tiles in the order of their paths, vertices numbered as they first appear.

    The list is emptied, each leaf as soon as its tiles are in the mesh: memory holds them once. Without `complete`,
    leaves are missing, and tiles that may go on there are left out.
    """
    if not leaves:  # a limit stopped the work before the first tile was finished
        return Mesh(np.zeros((0, domain.shape[1])), None, kind_of(domain).whole(domain).part(0, 0))
    rows = LeafSizes.joined([LeafSizes.from_leaf(leaf) for leaf in leaves])
    join = Join(domain, rows, lambda name, kind: Held(kind, rows.most(name)))
    leaves.sort(key=lambda leaf: leaf.path, reverse=True)
    while leaves:
        join.add(leaves.pop())
    return join.mesh(complete)


@dataclass(frozen=True)
class LeafSizes:
    """How many rows the arrays of leaves have: of `names`, `tiles`, `corners` and `labels`; and columns of others."""

    names: int
    tiles: int
    corners: int
    labels: int
    outputs: int = 0
    words: int = 0

    @classmethod
    def from_leaf(cls, leaf: Leaf) -> LeafSizes:
        tiles = leaf.tiles
        outputs = 0 if leaf.values is None else leaf.values.shape[1]
        words = tiles.masks.shape[1] if isinstance(tiles, Solids) else 0
        return cls(len(leaf.names), len(tiles), len(tiles.corners), len(tiles.labels), outputs, words)

    @classmethod
    def joined(cls, parts: Sequence[LeafSizes]) -> LeafSizes:
        return cls(
            sum(part.names for part in parts), sum(part.tiles for part in parts), sum(part.corners for part in parts),
            sum(part.labels for part in parts), max(part.outputs for part in parts), max(part.words for part in parts),
        )  # fmt: skip

    def most(self, name: str) -> int:
        """Of an array of the mesh."""
        counts = {"points": self.names, "values": self.names, "corners": self.corners, "masks": self.corners}
        return counts.get(name, self.labels if name == "labels" else self.tiles + 1)

    def kinds(self, dimension: int) -> dict[str, tuple[type, tuple[int, ...]]]:
        """The arrays of the mesh: dtype, and shape of a row."""
        kinds: dict[str, tuple[type, tuple[int, ...]]] = {
            "points": (np.float64, (dimension,)), "offsets": (np.int64, ()), "corners": (np.int32, ()),
            "labels": (np.int32, ()),
        }  # fmt: skip
        if self.outputs:
            kinds["values"] = (np.float64, (self.outputs,))
        if self.words:
            kinds |= {"masks": (np.uint64, (self.words,)), "facet_offsets": (np.int64, ())}
        return kinds


class Held:
    """An array in memory that is written part by part."""

    def __init__(self, kind: tuple[type, tuple[int, ...]], most: int) -> None:
        self._rows: np.ndarray = np.empty((most, *kind[1]), kind[0])
        self._end = 0

    def write(self, part: np.ndarray) -> None:
        self._rows[self._end : self._end + len(part)] = part
        self._end += len(part)

    def written(self) -> np.ndarray:
        return self._rows[: self._end]

    def finished(self) -> np.ndarray:
        """What was written, without the room behind it."""
        self._rows.resize((self._end, *self._rows.shape[1:]), refcheck=False)
        return self._rows


class Join:
    """Leaves joined into one mesh, one after the other in the order of their paths.

    The same vertex has the same name in every chunk, so the mesh is watertight across chunks. Two vertices with
    one name at different places would be a collision of 64-bit hashes (odds of 3e-8 at a million vertices): refused.
    """

    def __init__(self, domain: np.ndarray, rows: LeafSizes, place: Callable[[str, Any], Any]) -> None:
        self._domain, self._words = domain, rows.words
        self._arrays = {name: place(name, kind) for name, kind in rows.kinds(domain.shape[1]).items()}
        size = 1 << int(np.ceil(np.log2(min(2 * rows.names + 16, _FIRST_TABLE))))
        self._table, self._known = np.empty(size, np.uint64), np.full(size, -1, np.int32)
        self._count, self._ends, self._spurious = 0, {"offsets": 0, "facet_offsets": 0}, False
        # rows in factored form depend on the chunk in their last bits
        self._apart = _SAME_PLACE * float(np.ptp(domain, axis=0).max())
        for name in self._ends.keys() & self._arrays.keys():
            self._arrays[name].write(np.zeros(1, np.int64))

    def add(self, leaf: Leaf) -> None:
        while self._count + len(leaf.names) > _FULL * len(self._table):
            old = self._table, self._known
            self._table, self._known = np.empty(2 * len(old[0]), np.uint64), np.full(2 * len(old[0]), -1, np.int32)
            kernels.enter_again(*old, self._table, self._known)
        numbers, firsts = np.full(len(leaf.names), -1, np.int32), np.empty(len(leaf.names), np.int64)
        count = kernels.number_vertices(
            leaf.names, leaf.tiles.corners, self._table, self._known, self._count, numbers, firsts
        )  # fmt: skip
        new = firsts[: count - self._count]
        self._count = count
        self._write("points", leaf.points[new])
        if leaf.values is not None:
            self._write("values", leaf.values[new])
        if kernels.farthest(self._arrays["points"].written(), numbers, leaf.points) > self._apart:
            raise SplinescopeError("two vertices got the same 64-bit name: please report this network and slice.")
        tiles = leaf.tiles
        if isinstance(tiles, Solids):  # whose masks may have waited in narrow form
            tiles = replace(tiles, masks=widened(tiles.masks, self._words)).finished(self._domain.shape[1])
        self._write("offsets", tiles.offsets)
        self._write("corners", numbers[tiles.corners])
        self._write("labels", tiles.labels)
        if isinstance(tiles, Solids):
            self._write("masks", tiles.masks)
            self._write("facet_offsets", tiles.facet_offsets)
        self._spurious = self._spurious or bool((tiles.labels < OUTSIDE).any())

    def mesh(self, complete: bool = True) -> Mesh:
        """The mesh of all leaves so far, without spurious walls."""
        del self._table, self._known
        arrays = {name: array.finished() for name, array in self._arrays.items()}
        lists = [arrays[name] for name in ("offsets", "corners", "labels", "masks", "facet_offsets") if name in arrays]
        tiles = kind_of(self._domain)(*lists)
        mesh = Mesh(arrays["points"], arrays.get("values"), tiles)
        return without_spurious(mesh, self._domain, complete) if self._spurious else mesh

    def _write(self, name: str, part: np.ndarray) -> None:
        if name in self._ends:
            part = part[1:] + self._ends[name]
            self._ends[name] = int(part[-1]) if len(part) else self._ends[name]
        self._arrays[name].write(part)


def without_spurious(mesh: Mesh, domain: np.ndarray, complete: bool = True) -> Mesh:
    """A mesh without the walls that are marked as none; where it is not complete, of its finished tiles alone."""
    if not complete:
        mesh = finished_tiles(mesh)
        if not (mesh.tiles.labels < OUTSIDE).any():
            return mesh
    if mesh.points.shape[1] == 1:
        return _without_spurious_ends(mesh)
    if mesh.points.shape[1] == 2:
        return _without_spurious_walls(mesh, domain, complete)
    return without_spurious_facets(mesh)


def _without_spurious_ends(mesh: Mesh) -> Mesh:
    """The 1-D case: join neighboring intervals at points that only losers of a max draw."""
    left, right = mesh.tiles.corners[::2], mesh.tiles.corners[1::2]
    spurious = mesh.tiles.labels < OUTSIDE
    joined = spurious[2::2] & spurious[1:-1:2] & (left[1:] == right[:-1])  # both sides must agree
    check_joined(mesh, np.flatnonzero(joined), np.flatnonzero(joined) + 1)
    starts, ends = np.append(True, ~joined), np.append(~joined, True)
    corners = np.stack([left[starts], right[ends]], 1).reshape(-1)
    labels = np.stack([mesh.tiles.labels[::2][starts], mesh.tiles.labels[1::2][ends]], 1).reshape(-1)
    used, ids = np.unique(corners, return_inverse=True)
    values = None if mesh.values is None else mesh.values[used]
    offsets = np.arange(0, len(corners) + 1, 2)
    return Mesh(mesh.points[used], values, Tiles(offsets, ids.astype(np.int32), restored(labels)))


def _without_spurious_walls(mesh: Mesh, domain: np.ndarray, complete: bool) -> Mesh:
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
    """Tiles joined across their spurious walls, in the order of the first member of each; and who those are."""
    tiles = mesh.tiles
    first, second = pair_half_edges(tiles.offsets, tiles.corners)
    _, tile_of = half_edges(tiles.offsets, tiles.corners)
    spurious = (tiles.labels[first] < OUTSIDE) & (second >= 0) & (tiles.labels[second] < OUTSIDE)  # by both
    n = len(tiles)
    joined = tile_of[first[spurious]], tile_of[second[spurious]]
    check_joined(mesh, *joined)
    component = connected(n, *joined)
    inner = np.zeros(len(tiles.corners), bool)
    inner[first[spurious]] = inner[second[spurious]] = True
    # members of a component side by side, at the place of its first member
    _, leaders = np.unique(component, return_index=True)
    order = np.lexsort((np.arange(n), leaders[component]))
    outlines = kernels.chain_boundaries(
        order, leaders[component][order], tiles.offsets, tiles.corners, tiles.labels, inner
    )  # fmt: skip
    return Tiles(*outlines), np.sort(leaders)


def _corners_left(part: Tiles, merged: Tiles, tiles: Tiles, points: np.ndarray, domain: np.ndarray) -> np.ndarray:
    """`[V]`: the vertices that are corners still once the tiles `part` of `tiles` have become `merged`.

    Of those that `part` has, one where only two walls meet is no vertex, unless it is a corner of the domain.
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
