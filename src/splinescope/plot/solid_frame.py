"""What the 3-D viewer draws, as a frame: `web/space.js` reads it."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ..support.checks import check_whole
from ..support.errors import InputError
from ..tiling import Tiling
from ..tiling.cells.lists import places_of
from ..tiling.cells.polytopes import Facets
from ..tiling.measures.quantities import tile_quantity
from ..tiling.measures.surfaces import SurfaceMesh
from .frame import chosen_quantities, marks, notes_of, quantity_frame

MOST_CELLS = 400_000
"""A frame of more would not fit into what browsers take (some 150 bytes a cell): the largest are sent."""


def solid_frame(
    tiling: Tiling, *, title: str = "Tiling", color: str | None = None, only: Sequence[str] | None = None,
    x: Any = None, y: Any = None, max_tiles: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """What the viewer draws of a 3-D tiling, ready for `pack`; arguments as in `tiling_frame`."""
    walls = tiling.walls
    if tiling.dimension != 3 or not isinstance(walls, Facets):
        raise InputError(f"solid_frame needs a 3-D tiling, got a {tiling.dimension}-D one.")
    places, classes = marks(tiling, x, y)
    kept = np.arange(tiling.count)
    most = MOST_CELLS if max_tiles is None else check_whole(max_tiles, "max_tiles")
    if tiling.count > most:
        kept = np.sort(np.argpartition(tiling.areas, -most)[-most:])
    number = np.full(tiling.count + 1, -1, np.int32)  # the last for "no tile"
    number[kept] = np.arange(len(kept))
    sides = number[walls.tiles]
    seen = np.flatnonzero((sides >= 0).any(1))
    sides = np.where(sides[seen, :1] < 0, sides[seen, ::-1], sides[seen])  # the first is a tile
    offsets, of_walls = places_of(walls.offsets, seen)
    used, corners = np.unique(walls.vertices[of_walls], return_inverse=True)
    depths = np.array([*(site.depth for site in tiling.sites), 0])[walls.sites[seen]]
    notes = notes_of(tiling)
    if len(kept) < tiling.count:
        share = tiling.areas[kept].sum() / tiling.areas.sum()
        notes.insert(1, ("shown", f"the largest {len(kept):,}, {share:.4%} of the volume"))
    values = tiling.values
    return {
        "title": title,
        "notes": notes,
        "count": len(kept),
        "numbers": None if len(kept) == tiling.count else kept.astype(np.uint32),
        "vertices": tiling.vertices[used],
        "walls": {
            "offsets": offsets.astype(np.uint32),
            "corners": corners.reshape(-1).astype(np.uint32),
            "tiles": sides.astype(np.int32),
            "depths": np.minimum(depths, 254).astype(np.uint8),
        },
        "values": np.zeros(0) if values is None else values[used],
        "domain": tiling.view.domain.ravel().tolist(),
        "outline": _edges(tiling).ravel().tolist(),
        "surface": None if values is None else _surface(tiling, number),
        "points": places.ravel(),
        "labels": classes,
        "quantities": [
            quantity_frame(tile_quantity(tiling, name), kept) for name in chosen_quantities(tiling, color, only)
        ],
    }


def _edges(tiling: Tiling) -> np.ndarray:
    """`[m, 2]` edges of the domain: pairs of its corners that share two facets."""
    on = tiling.view.hull.on
    pairs = [pair for pair in combinations(range(len(on)), 2) if (on[pair[0]] & on[pair[1]]).sum() >= 2]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _surface(tiling: Tiling, number: np.ndarray) -> dict[str, Any] | None:
    """The decision boundary in the tiles that are sent."""
    mesh = tiling.decision_boundary()
    assert isinstance(mesh, SurfaceMesh)  # that of a 3-D tiling
    faces = number[mesh.tiles] >= 0
    if not faces.any():
        return None
    kept = mesh.faces.some(np.flatnonzero(faces))
    return {
        "vertices": mesh.vertices,
        "offsets": kept.offsets.astype(np.uint32),
        "corners": kept.corners.astype(np.uint32),
        "tiles": number[mesh.tiles[faces]].astype(np.uint32),
    }
