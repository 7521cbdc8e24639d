"""`Tiling`: the exact tiles of a network on a slice."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import InputError
from . import kernels
from ._check import Report, check_tiling
from ._measures import Measures
from ._mesh import half_edges, pair_half_edges
from .slice import Slice

if TYPE_CHECKING:
    from geopandas import GeoDataFrame
    from matplotlib.axes import Axes

    from ..network import Program, Site, SplineNetwork


@dataclass(frozen=True)
class Cells:
    """Tiles as lists of vertex numbers, counter-clockwise (1-D: left, right), in CSR form.

    Tile i has the corners `corners[offsets[i]:offsets[i + 1]]`, which is also `cells[i]`.
    """

    offsets: np.ndarray
    corners: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, tile: int) -> np.ndarray:
        if not -len(self) <= tile < len(self):
            raise IndexError(f"tile must be in [0, {len(self)}), got {tile}")
        tile %= len(self)
        return self.corners[self.offsets[tile] : self.offsets[tile + 1]]


@dataclass(frozen=True)
class Walls:
    """The walls between tiles; each names what made it.

    Attributes:
        ends: `[E, 2]` vertex numbers (1-D: the one vertex, twice).
        tiles: `[E, 2]` the tiles on its two sides, -1 for outside the domain.
        units: `[E]` number of the unit whose fold it lies on, counted over all sites; -1 for the domain's boundary.
            Where several folds coincide, the first in execution order.
        sites: `[E]` index into `Tiling.sites`; -1 for the domain's boundary.
    """

    ends: np.ndarray
    tiles: np.ndarray
    units: np.ndarray
    sites: np.ndarray

    def __len__(self) -> int:
        return len(self.ends)


@dataclass(frozen=True, eq=False, repr=False)
class Tiling(Measures):
    """The exact set of tiles of a network on a slice (exact up to float64 and the stated tolerance).

    Attributes:
        slice: The slice.
        vertices: `[V, d]` slice coordinates, float64.
        tiles: `Cells`, counter-clockwise lists of vertex numbers.
        values: `[V, C]` network outputs at the vertices, flattened; None if the output has over 64 numbers.
        sites: The network's sites in execution order; `Walls.sites` points into it.
        rtol: A pre-activation below rtol times the sum of the absolute terms it is made of counts as zero.
            Near-degenerate counts (duplicated neurons, folds through one point) depend on it.
        ending: Non-linearity after the last affine step that the tiling leaves out (e.g. "softmax"), or None.
        fingerprint: Hash of the network's structure and parameters.
        complete: False for what was found before a limit stopped the work: tiles are missing then.
    """

    slice: Slice
    vertices: np.ndarray
    tiles: Cells
    values: np.ndarray | None
    sites: tuple[Site, ...]
    rtol: float
    ending: str | None
    fingerprint: str
    complete: bool
    corner_labels: np.ndarray = field(repr=False)
    network: SplineNetwork | None = field(repr=False)

    def __post_init__(self) -> None:
        for array in (self.vertices, self.tiles.offsets, self.tiles.corners, self.values, self.corner_labels):
            if array is not None:
                array.flags.writeable = False

    def __repr__(self) -> str:
        state = "" if self.complete else ", INCOMPLETE"
        what = f"{self.count} tiles, {len(self.vertices)} vertices, {self.dimension}-D, {len(self.sites)} sites"
        return f"Tiling({what}{state})"

    @property
    def count(self) -> int:
        """Number of tiles."""
        return len(self.tiles)

    @property
    def dimension(self) -> int:
        """1 or 2."""
        return self.slice.dimension

    @cached_property
    def areas(self) -> np.ndarray:
        """`[K]` areas (1-D: lengths) of the tiles, in slice coordinates. Exact to rounding."""
        if self.dimension == 1:
            ends = self.vertices[self.tiles.corners, 0].reshape(-1, 2)
            return ends[:, 1] - ends[:, 0]
        areas = np.empty(self.count)
        kernels.polygon_areas(self.tiles.offsets, self.tiles.corners, self.vertices, areas)
        return areas

    @cached_property
    def walls(self) -> Walls:
        """Every wall once, with its sides and what made it."""
        offsets, corners, labels = self.tiles.offsets, self.tiles.corners, self.corner_labels
        if self.dimension == 1:
            ends, units, tiles = _walls_of_intervals(corners, labels)
        else:
            following, tile_of = half_edges(offsets, corners)
            first, second = pair_half_edges(offsets, corners)
            ends = np.stack([corners[first], following[first]], 1)
            units = labels[first]
            tiles = np.stack([tile_of[first], np.where(second >= 0, tile_of[second], -1)], 1)
        starts = np.cumsum([0, *(site.units for site in self.sites)])
        sites = np.searchsorted(starts, units, side="right") - 1
        return Walls(ends, tiles.astype(np.int32), units, np.where(units < 0, -1, sites).astype(np.int32))

    def tile(self, index: int) -> np.ndarray:
        """`[n, d]` corners of one tile in slice coordinates."""
        return self.vertices[self.tiles[index]]

    def check(self) -> Report:
        """Verify the invariants; the report says in words what failed.

        Checked: vertices - edges + tiles = 1; every signed area is positive; areas sum to the domain; every wall
        has two sides or is on the domain's boundary; the map is affine on every tile; activation patterns differ
        between tiles (the last two need the network, or its outputs).

        Example:
            >>> tiling.check().ok    # doctest: +SKIP
            True
        """
        return check_tiling(self)

    def require_network(self, what: str) -> SplineNetwork:
        """The network the tiling came from; an error that says what needs it if it is not attached."""
        if self.network is None:
            raise InputError(
                f"the network is needed for {what}, and a file does not carry it: give it to "
                "load_tiling(path, network=...)."
            )
        return self.network

    def program(self, what: str) -> Program:
        """The float64 program of the network, refused if its parameters are no longer those that were tiled."""
        network = self.require_network(what)
        if network.fingerprint() != self.fingerprint:
            raise InputError(
                f"the network is needed for {what} as it was when it was tiled, but its parameters have changed since: "
                "tile it again, or keep a copy of the model."
            )
        return network.program()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tiling as one safetensors file, by atomic replacement; `load_tiling` reads it back.

        The network itself is not stored, only its fingerprint. The layout is in `splinescope.tiling.storage`.
        """
        from .storage import save_tiling

        save_tiling(self, path)

    def to_geopandas(self) -> GeoDataFrame:
        """The tiles as a GeoDataFrame (extra "geo"): polygons in slice coordinates (1-D: segments on y = 0).

        Columns: the quantities of `quantity` that this tiling can give (`slope`, `area`, `depth`, `class`, `sides`,
        `eccentricity`, `inradius`; `active` with its network), and `value_0`, `value_1`, ... (outputs at the mean of
        the corners) if outputs are stored.
        """
        from .geometries import to_geopandas

        return to_geopandas(self)

    def to_html(self, path: str | os.PathLike[str], *, title: str = "Tiling", color: str | None = None) -> None:
        """Write one self-contained page with pan, zoom and hover; it opens without a network connection.

        Every tile is in the file (some 60 to 100 bytes each), however many there are; those below two pixels are
        drawn together as the mean of their colours, and one by one as the reader zooms in.

        Args:
            path: The file, written by atomic replacement.
            title: Heading of the page.
            color: What tiles are coloured by at first, as in `plot`; the others can be chosen on the page, but for
                "active" beyond 20,000 tiles, which runs the network on each of them and is only there if named here.
        """
        from ..plot.page import write_page

        write_page(self, path, title=title, color=color)

    def plot(self, color: str | None = "slope", ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the tiles (extra "plot"); `options` are those of `splinescope.plot.plot_tiles`.

        A 1-D tiling is drawn as the graph of its function, with the options of `splinescope.plot.plot_graph`.

        Example:
            >>> ax = tiling.plot(color="slope")    # doctest: +SKIP
        """
        from ..plot import plot_graph, plot_tiles

        if self.dimension == 1:
            given = options if color in (None, "slope") else {"color": color, **options}
            if odd := sorted(given.keys() - {"outputs", "boundary"}):
                raise InputError(
                    "a 1-D tiling is drawn as the graph of its function: plot takes ax, outputs and boundary, "
                    f"got {', '.join(odd)}."
                )
            return plot_graph(self, ax=ax, **options)
        return plot_tiles(self, color=color, ax=ax, **options)


def _walls_of_intervals(corners: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The end points of intervals as walls: (ends, units, tiles)."""
    points, first, inverse = np.unique(corners, return_index=True, return_inverse=True)
    tiles = np.full((len(points), 2), -1, np.int64)
    numbers = np.arange(len(corners)) // 2
    right_end = np.arange(len(corners)) % 2 == 1
    tiles[inverse[right_end], 0] = numbers[right_end]
    tiles[inverse[~right_end], 1] = numbers[~right_end]
    return np.stack([points, points], 1), labels[first], tiles
