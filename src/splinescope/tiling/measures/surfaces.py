"""Level sets and decision boundaries of 3-D tilings: exact polygon meshes, each face in one tile."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...support.checks import as_points, check_choice, require
from ...support.drawing import drawn
from ...support.errors import InputError, SplinescopeError
from ...support.files import replacing
from ..approximation import TilingResult
from ..cells.lists import CornerLists, backward, connected, offsets_of, owners, reduced
from ..cells.polytopes import Polytopes
from ..kernels.tie_surfaces import ROOM, trace_surfaces, triangle_distances
from . import maps
from .folds import need_dimension

if TYPE_CHECKING:
    from ..tiling import Tiling

_WELD = 1e-11  # of the extent

FORMATS = (".ply", ".obj", ".stl", ".glb")


@dataclass(frozen=True, eq=False, repr=False)
class SurfaceMesh(TilingResult):
    """A surface in a 3-D slice as convex polygons. Exact to rounding for the tiled network.

    Faces that meet share their vertices: no gaps but where the surface leaves the domain. Corners go counter-clockwise
    as seen from where the function is larger (the second class): normals of a signed distance's zero set point outward.

    Attributes:
        vertices: `[n, 3]` slice coordinates.
        offsets: `[F + 1]` face i has the corners `corners[offsets[i]:offsets[i + 1]]`.
        corners: Vertex numbers.
        tiles: `[F]` the tile that each face lies in.
        classes: `[F, 2]` the outputs that tie there, lower number first; for a level set 0 is below, 1 above.
    """

    vertices: np.ndarray
    offsets: np.ndarray
    corners: np.ndarray
    tiles: np.ndarray
    classes: np.ndarray

    def __len__(self) -> int:
        return len(self.tiles)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        size = f"{len(self)} faces, {len(self.vertices)} vertices, area {self.area:.6g}"
        return f"SurfaceMesh({size}, {state}, {self.certainty})"

    def around(self, c: int) -> SurfaceMesh:
        """The faces between one class and all others, with normals out of its region."""
        mesh = self._chosen((self.classes == c).any(1))
        inward = (mesh.classes[:, 1] == c)[owners(mesh.offsets)]
        order = np.where(inward, backward(mesh.offsets), np.arange(len(mesh.corners)))
        return replace(mesh, corners=mesh.corners[order])

    @property
    def faces(self) -> CornerLists:
        """The faces as lists of vertex numbers."""
        return CornerLists(self.offsets, self.corners)

    def _chosen(self, faces: np.ndarray) -> SurfaceMesh:
        kept = self.faces.some(np.flatnonzero(faces))
        used, ids = np.unique(kept.corners, return_inverse=True)
        return replace(
            self, vertices=self.vertices[used], offsets=kept.offsets, corners=ids.reshape(-1), tiles=self.tiles[faces],
            classes=self.classes[faces],
        )  # fmt: skip

    @cached_property
    def triangles(self) -> tuple[np.ndarray, np.ndarray]:
        """Corners `[T, 3]` of fans that fill the faces, and the face `[T]` of each."""
        return self.faces.fans()

    @cached_property
    def vectors(self) -> np.ndarray:
        """`[F, 3]` areas times unit normals."""
        triangles, faces = self.triangles
        a, b, c = (self.vertices[triangles[:, k]] for k in range(3))
        cross = np.cross(b - a, c - a) / 2
        return np.stack([np.bincount(faces, cross[:, x], minlength=len(self)) for x in range(3)], 1)

    @property
    def areas(self) -> np.ndarray:
        """`[F]` areas of the faces, in slice coordinates."""
        return np.linalg.norm(self.vectors, axis=1)

    @property
    def area(self) -> float:
        """Area of all faces."""
        return float(self.areas.sum())

    def centroids(self) -> np.ndarray:
        """`[F, 3]` mean of each face's corners: a point of the face."""
        return self.faces.corner_means(self.vertices)

    @cached_property
    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Every edge once, `[m, 2]` vertex numbers, and how many faces meet there `[m]`."""
        return np.unique(np.sort(self.faces.edges(), 1), axis=0, return_counts=True)

    @property
    def closed(self) -> bool:
        """Whether it bounds a solid: an even number of faces meets in every edge."""
        return len(self) > 0 and bool((self.edges[1] % 2 == 0).all())

    @property
    def euler(self) -> int:
        """Vertices - edges + faces: 2 for a sphere, 0 for a torus, added up over components."""
        return len(self.vertices) - len(self.edges[0]) + len(self)

    @property
    def components(self) -> int:
        """How many connected parts it has."""
        edges, n = self.edges[0], len(self.vertices)
        return int(connected(n, edges[:, 0], edges[:, 1]).max()) + 1 if n else 0

    @property
    def volume(self) -> float:
        """Volume that a closed surface encloses, positive if its normals point outward."""
        if not self.closed:
            raise InputError("only a closed surface encloses a volume; this one is open (or empty).")
        middle = self.vertices.mean(0)
        return float(((self.centroids() - middle) * self.vectors).sum() / 3)

    def distances(self, points: Any) -> np.ndarray:
        """`[N]` Euclidean distances from points `[N, 3]` to the surface; infinite if there is none. Cost N x faces."""
        return triangle_distances(as_points(points, 3), self.vertices, self.triangles[0])

    plot = drawn("solid.plot_mesh")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the mesh as PLY, OBJ, STL or binary glTF, by the ending of the name (extra "mesh").

        OBJ has every digit; the others hold single precision, 1e-7 of the size.
        """
        ending = check_choice(Path(path).suffix.lower(), "the file's ending", FORMATS)
        digits = {"digits": 17} if ending == ".obj" else {}
        mesh = require("trimesh", "mesh").Trimesh(self.vertices, self.triangles[0], process=False)
        content = mesh.export(file_type=ending[1:], **digits)
        with replacing(path) as partial:
            Path(partial).write_bytes(content.encode() if isinstance(content, str) else content)


def decision_surface(tiling: Tiling) -> SurfaceMesh:
    """See `Tiling.decision_boundary`."""
    values = maps.vertex_values(tiling, np.arange(len(tiling.vertices)))
    if values.shape[1] == 1:
        return level_surface(tiling, 0.0, values[:, 0])
    return _mesh(tiling, values, tiling.rtol * float(np.abs(values).max(initial=0)))


def level_surface(tiling: Tiling, value: float, heights: np.ndarray) -> SurfaceMesh:
    """Where heights `[V]`, affine on every tile, take a value."""
    tolerance = tiling.rtol * max(abs(value), float(np.abs(heights).max(initial=0)))
    return _mesh(tiling, np.stack([np.full(len(heights), value), heights], 1), tolerance)


def _mesh(tiling: Tiling, values: np.ndarray, tolerance: float) -> SurfaceMesh:
    points, offsets, tiles, classes = _trace(tiling, values, tolerance)
    vertices, corners = _shared_vertices(points)
    if values.shape[1] > 2:
        corners = _welded(vertices, float(np.ptp(tiling.view.domain, axis=0).max()))[corners]
    offsets, corners, kept = _without_repeats(offsets, corners)
    used, ids = np.unique(corners, return_inverse=True)
    corners = ids.reshape(-1)
    return SurfaceMesh(vertices[used], offsets, corners, tiles[kept], classes[kept], certainty=tiling.certainty)


def _trace(
    tiling: Tiling, values: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Polygons where two of the values `[V, C]` tie and none is larger: points `[m, 3]`, offsets, tiles, classes."""
    need_dimension(tiling, "surfaces", 3)
    tiles = tiling.tiles
    assert isinstance(tiles, Polytopes)
    table = np.ascontiguousarray(np.concatenate([tiling.vertices, values], 1))
    chosen = _mixed_tiles(tiling, values, tolerance)
    room = 2 * len(chosen) + 16
    while True:
        points, offsets = np.empty((5 * room, 3)), np.empty(room + 1, np.int64)
        owners, classes = np.empty(room, np.int64), np.empty((room, 2), np.int64)
        found = trace_surfaces(
            chosen, *tiles.lists, table, values.shape[1], tolerance, points, offsets, owners, classes
        )
        if found >= 0:
            return points[: offsets[found]], offsets[: found + 1], owners[:found], classes[:found]
        if found == -2:
            raise SplinescopeError(f"a face has over {ROOM} corners: please report this network and slice.")
        room *= 2


def _mixed_tiles(tiling: Tiling, values: np.ndarray, tolerance: float) -> np.ndarray:
    """Tiles on which no output is ahead of all others at every corner."""
    if not tiling.count:
        return np.zeros(0, np.int64)
    top = values.max(1)
    sure = np.zeros(tiling.count, bool)
    for c in range(values.shape[1]):
        others = np.delete(values, c, 1).max(1)
        lead = np.where(values[:, c] >= top, values[:, c] - others, -1.0)
        sure |= reduced(np.minimum, lead[tiling.tiles.corners], tiling.tiles.offsets) > tolerance
    return np.flatnonzero(~sure)


def _shared_vertices(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points `[m, w]` that are equal to the last bit, once each; and which one each was."""
    keys = np.ascontiguousarray(points[:, :3]).view(np.dtype((np.void, 24))).reshape(-1)
    _, first, ids = np.unique(keys, return_index=True, return_inverse=True)
    return points[first], ids.reshape(-1)


def _welded(points: np.ndarray, extent: float) -> np.ndarray:
    """`[m]` one number for points that differ by rounding: where three outputs tie, each pair computes its own."""
    from scipy.spatial import cKDTree  # a seventh of a second that tilings do not need

    pairs = cKDTree(points).query_pairs(_WELD * extent, output_type="ndarray") if len(points) else np.zeros((0, 2), int)
    group = connected(len(points), pairs[:, 0], pairs[:, 1])
    _, first = np.unique(group, return_index=True)
    return first[group]


def _without_repeats(offsets: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Polygons without corners that equal the one before, and only those that have three left (their numbers)."""
    previous = np.arange(-1, len(corners) - 1)
    if len(offsets) > 1:
        previous[offsets[:-1]] = offsets[1:] - 1
    keep = corners != corners[previous]
    sizes = reduced(np.add, keep.astype(np.int64), offsets)
    good = sizes >= 3
    keep &= good[owners(offsets)]
    return offsets_of(sizes[good]), corners[keep], np.flatnonzero(good)
