"""Betti numbers of the regions of a 2-D or 3-D tiling: components, holes and voids, from the exact cells.

Tiles are cut once more, along the ties of outputs (or along a level), so that every region is a union of closed cells.
Components are counted by union-find over shared corners, enclosed parts of the complement over shared walls, and holes
follow from Euler's number: b0 - b1 + b2 = vertices - edges + faces - cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from splinescope.support.checks import as_float64_array, check_index
from splinescope.support.display import table
from splinescope.support.errors import InputError
from splinescope.tiling import kernels
from splinescope.tiling.approximation import TilingResult
from splinescope.tiling.cells.lists import CornerLists, connected, places_of, reduced
from splinescope.tiling.cells.polytopes import Facets, Polytopes, cells_of
from splinescope.tiling.cells.solids import Solids
from splinescope.tiling.cells.tiles import Tiles
from splinescope.tiling.measures import maps
from splinescope.tiling.measures.folds import need_dimension

if TYPE_CHECKING:
    from splinescope.tiling import Tiling


@dataclass(frozen=True, eq=False, repr=False)
class Topology(TilingResult):
    """Betti numbers of closed regions. Exact for the region as tiled: ties below `Tiling.rtol` count as ties.

    Attributes:
        regions: What each row is about: a class, or "below" and "above" a level.
        betti: `[R, d]` numbers b0 (connected parts), b1 (holes through it; on a plane: enclosed gaps) and, in 3-D, b2
            (enclosed voids).
        sizes: `[R]` area or volume of each region.
    """

    regions: tuple[str, ...]
    betti: np.ndarray
    sizes: np.ndarray

    def __getitem__(self, region: str | int) -> tuple[int, ...]:
        """The Betti numbers of one region, by its name (classes also by their number)."""
        name = str(region)
        if name not in self.regions:
            raise KeyError(f"region must be one of {', '.join(self.regions)}, got {name!r}")
        return tuple(int(b) for b in self.betti[self.regions.index(name)])

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {self[name]}" for name in self.regions[:4])
        more = ", ..." if len(self.regions) > 4 else ""
        return f"Topology({parts}{more}, {self.certainty})"

    def summary(self) -> str:
        """A table of regions."""
        heads = ("region", "size", "components", "holes", "voids")[: 3 + self.betti.shape[1] - 1]
        rows = [heads]
        for name, numbers, size in zip(self.regions, self.betti, self.sizes, strict=True):
            rows.append((name, f"{size:.6g}", *map(str, numbers)))
        return f"{table(rows)}\n{self.assurance}"


def topology(tiling: Tiling, level: float | None = None, output: int = 0) -> Topology:
    """Components, holes and voids (Betti numbers) of each class's region of a 2-D or 3-D tiling. Exact.

    Args:
        level: Instead of classes, where one output is at most ("below") or at least ("above") this; for a network
            with a single output zero is the default.
        output: Which output.

    Example:
        >>> import torch, splinescope as ss
        >>> view = ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)
        >>> topology(ss.tessellate(torch.nn.Linear(2, 3), view)).betti.shape
        (3, 2)
    """
    need_dimension(tiling, "Betti numbers", 2, 3)
    if not tiling.complete:
        raise InputError("topology needs a complete tiling; a limit stopped this one.")
    values = maps.vertex_values(tiling, np.arange(len(tiling.vertices)))
    if level is not None or values.shape[1] == 1:
        check_index(output, "output", values.shape[1])
        height = as_float64_array(0.0 if level is None else level, "level")
        if height.ndim:
            raise InputError(f"level must be one number, got shape {height.shape}.")
        heights = values[:, output] - height
        values = np.stack([np.zeros(len(heights)), heights], 1)
        names: tuple[str, ...] = ("below", "above")
    else:
        names = tuple(map(str, range(values.shape[1])))
    cells = refined(tiling, values)
    assert cells.values is not None
    owner = _leaders(cells, tiling.rtol * float(np.abs(values).max(initial=0)))
    numbers = np.array([_betti(cells, owner == c) for c in range(len(names))])
    sizes = np.bincount(owner, cells.areas, minlength=len(names))
    return Topology(names, numbers, sizes, certainty=tiling.certainty)


def _leaders(cells: Tiling, tolerance: float) -> np.ndarray:
    """Per tile of `refined` the lowest output that is behind another one at no corner.

    Where two tie on a whole tile, the lower one has it, and a plateau at a level is below; no rounding decides.
    """
    assert cells.values is not None
    leads = cells.values - cells.values.max(1, keepdims=True)
    worst = reduced(np.minimum, leads[cells.tiles.corners], cells.tiles.offsets)
    return np.asarray((worst >= np.minimum(worst.max(1, keepdims=True), -tolerance)).argmax(1))


def refined(tiling: Tiling, values: np.ndarray) -> Tiling:
    """The tiling cut once more wherever two of the values `[V, C]`, affine on every tile, tie; with those as values."""
    pairs = list(combinations(range(values.shape[1]), 2))
    cuts = np.stack([values[:, i] - values[:, j] for i, j in pairs], 1)
    tolerances = np.full(len(pairs), tiling.rtol * float(np.abs(values).max(initial=0)))
    old, words = len(cuts), (len(pairs) + 63) // 64
    pos, neg = np.empty((old, words), np.uint64), np.empty((old, words), np.uint64)
    kernels.sign_bits(cuts, tolerances, 0, old, pos, neg)
    tiles: Tiles = Tiles(tiling.tiles.offsets, tiling.tiles.corners, tiling.corner_labels)
    if isinstance(tiling.tiles, Polytopes):
        tiles = Solids(tiles.offsets, tiles.corners, tiles.labels, tiling.tiles.facet_bits, tiling.tiles.facet_offsets)
    first_label = sum(site.cuts for site in tiling.sites)  # what is drawn here is no unit's fold
    labels = np.arange(first_label, first_label + len(pairs), dtype=np.int32)
    room = tiles.room(old, len(pairs), 2 * len(tiles))
    while True:
        most = room.vertices
        vertices = kernels.Vertices(
            names=_grown(np.arange(1, old + 1, dtype=np.uint64), most), points=_grown(tiling.vertices, most),
            parents=np.empty((most, 2), np.int32), weights=np.empty((most, 2)), pos=_grown(pos, most),
            neg=_grown(neg, most), cuts=cuts, new_cuts=np.empty((most - old, len(pairs))),
            filled=np.zeros((most - old, words), np.bool_),
        )  # fmt: skip
        status, total, cut = room.cut(vertices, old, 0, len(pairs), labels, tolerances)
        if cut is not None:
            break
        room.enlarge(status)
    rows = _grown(values, total)
    kernels.carry(old, total, vertices.parents, vertices.weights, rows)
    return replace(
        tiling, vertices=vertices.points[:total].copy(), tiles=cells_of(cut.finished(tiling.dimension)), values=rows,
        corner_labels=cut.labels.copy(),
    )  # fmt: skip


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    grown = np.empty((size, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def _betti(cells: Tiling, inside: np.ndarray) -> tuple[int, ...]:
    """Betti numbers of the union of some closed cells of a 2-D or 3-D tiling of a convex domain."""
    if not inside.any():
        return (0,) * cells.dimension
    parts = _components_by_corners(cells, inside)
    enclosed = _enclosed(cells, ~inside)
    if cells.dimension == 2:
        return parts, enclosed
    return parts, parts + enclosed - _euler(cells, inside), enclosed


def _components_by_corners(cells: Tiling, inside: np.ndarray) -> int:
    """Parts of a closed union: cells that share a corner belong together."""
    tile = cells.tiles.owners()
    chosen = inside[tile]
    n = cells.count + len(cells.vertices)
    group = connected(n, tile[chosen], cells.count + cells.tiles.corners[chosen].astype(np.int64))
    return len(np.unique(group[: cells.count][inside]))


def _enclosed(cells: Tiling, inside: np.ndarray) -> int:
    """Parts of an open union, joined across walls, that do not reach the domain's boundary."""
    sides = cells.walls.tiles
    outer = np.unique(sides[(sides < 0).any(1)].max(1))
    inner = sides[(sides >= 0).all(1)]
    inner = inner[inside[inner].all(1)]
    group = connected(cells.count, inner[:, 0], inner[:, 1])
    return len(np.setdiff1d(group[inside], group[outer[inside[outer]]]))


def _euler(cells: Tiling, inside: np.ndarray) -> int:
    """Vertices - edges + walls - cells of a union of closed cells in 3-D."""
    sides = cells.walls.tiles
    walls = np.flatnonzero((inside[sides] & (sides >= 0)).any(1))
    assert isinstance(cells.walls, Facets)
    offsets, places = places_of(cells.walls.offsets, walls)
    corners = cells.walls.vertices[places]  # they go around each wall
    edges = np.unique(np.sort(CornerLists(offsets, corners).edges(), 1), axis=0)
    return len(np.unique(corners)) - len(edges) + len(walls) - int(inside.sum())
