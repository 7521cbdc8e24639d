"""Of a mesh with tiles missing, those that are whole.

Beside a max, a tile is drawn in pieces until walls between losers are taken out; where the piece beyond such a wall is
missing, nobody knows how far the tile reaches.
"""

from __future__ import annotations

import numpy as np

from ..cells.lists import connected, owners
from ..cells.solids import Solids
from ..cells.tiles import OUTSIDE
from .mesh import Mesh, pair_half_edges
from .spurious_facets import twin_facets


def finished_tiles(mesh: Mesh) -> Mesh:
    """The mesh without pieces whose tile goes on beyond the mesh; other walls stay marked as they are."""
    tiles = mesh.tiles
    first, second, owner = _twins(mesh)
    spurious = tiles.labels < OUTSIDE
    alone = spurious.copy()
    alone[first] = alone[second] = False
    joined = spurious[first] & spurious[second]
    component = connected(len(tiles), owner[first[joined]], owner[second[joined]])
    goes_on = np.zeros(len(tiles), bool)
    goes_on[component[owner[alone]]] = True
    return _with(mesh, ~goes_on[component])


def at_most(max_tiles: int | None, mesh: Mesh, stopped: str | None) -> tuple[Mesh, str | None]:
    """The mesh, cut to its first tiles if it has more than are wanted; and which limit stopped the work.

    For tilings by parts, which are joined before anyone knows how many tiles they have together.
    """
    count = len(mesh.tiles)
    if max_tiles is None or count <= max_tiles:
        return mesh, stopped
    why = stopped or f"max_tiles={max_tiles} reached: the slice has at least {count} tiles"
    return _with(mesh, np.arange(count) < max_tiles), why


def _with(mesh: Mesh, chosen: np.ndarray) -> Mesh:
    """The mesh with the chosen tiles alone and the vertices they need."""
    kept = mesh.tiles.chosen(chosen)
    used = kept.used(len(mesh.points))
    ids = np.cumsum(used, dtype=np.int32) - np.int32(1)
    values = None if mesh.values is None else mesh.values[used]
    return Mesh(mesh.points[used], values, kept.renumbered(ids))


def _twins(mesh: Mesh) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two sides of every wall that has two, as places in the labels; and the tile of each side."""
    tiles = mesh.tiles
    if isinstance(tiles, Solids):
        return *twin_facets(tiles), owners(tiles.facet_offsets)
    if mesh.points.shape[1] == 1:
        order = np.argsort(tiles.corners, kind="stable")
        twin = np.flatnonzero(np.diff(tiles.corners[order]) == 0)
        return order[twin], order[twin + 1], owners(tiles.offsets)
    first, second = pair_half_edges(tiles.offsets, tiles.corners)
    paired = second >= 0
    return first[paired], second[paired], owners(tiles.offsets)
