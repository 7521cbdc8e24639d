"""`Tiling`: the exact tiles of a network on a slice."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..network.program import units_of_cuts
from ..support.display import Certainty, box, counted, table
from ..support.drawing import drawing
from ..support.errors import InputError
from .cells.polygons import Cells, Walls
from .cells.polytopes import Facets, Polytopes
from .cells.solids import measured
from .files.storage import save_tiling
from .measures.check import TilingCheck, check_tiling
from .methods import Measures
from .slice import Slice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..network import SplineNetwork
    from ..network.program import Program, Site
    from .approximation import Approximation

_WALLS_TOGETHER = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Tiling(Measures):
    """The exact set of tiles of a network on a slice (exact up to float64 and the stated tolerance).

    Attributes:
        view: The slice.
        vertices: `[V, d]` slice coordinates, float64.
        tiles: `Cells`, counter-clockwise lists of vertex numbers.
        values: `[V, C]` network outputs at the vertices, flattened; None if the output has over 64 numbers.
        sites: The network's sites in execution order; `Walls.sites` points into it.
        rtol: A pre-activation below rtol times the sum of the absolute terms it is made of counts as zero.
        ending: Non-linearity after the last affine step that the tiling leaves out (e.g. "softmax"), or None.
        fingerprint: Hash of the network's structure and parameters.
        complete: False for what was found before a limit stopped the work: tiles are missing then.
        frozen: The float64 program that was tiled, its constants included: whatever becomes of the model, this tiling
            speaks of the network as it was. None if it came from a file that was opened without its network.
        network: The network itself, which goes on following its model.
        approximation: Of a tiling made within a tolerance: how far it is from the smooth network; None if exact.
    """

    view: Slice
    vertices: np.ndarray
    tiles: Cells
    values: np.ndarray | None
    sites: tuple[Site, ...]
    rtol: float
    ending: str | None
    fingerprint: str
    complete: bool
    corner_labels: np.ndarray = field(repr=False)
    frozen: Program | None = field(repr=False)
    network: SplineNetwork | None = field(repr=False)
    approximation: Approximation | None = None

    def __post_init__(self) -> None:
        for array in (self.vertices, self.tiles.offsets, self.tiles.corners, self.values, self.corner_labels):
            if array is not None:
                array.flags.writeable = False
        if self.tiles.certainty != self.certainty:  # tiles know nothing of what they approximate
            object.__setattr__(self, "tiles", replace(self.tiles, certainty=self.certainty))

    def __repr__(self) -> str:
        state = "" if self.complete else ", INCOMPLETE"
        tiles = f"{self.count} {'tile' if self.count == 1 else 'tiles'}, {len(self.vertices)} vertices"
        what = f"{tiles}, {self.dimension}-D, {counted(len(self.sites), 'site')}"
        near = "" if self.approximation is None else f", within {self.tolerance:g} by {self.approximation.basis}"
        return f"Tiling({what}{near}{state})"

    @property
    def certainty(self) -> Certainty:
        """ "exact", or that of the approximation of a smooth network; what is read off the tiling has it too."""
        return "exact" if self.approximation is None or not self.bound else self.approximation.certainty

    @property
    def tolerance(self) -> float | None:
        """What was asked of a tiling of a smooth network; None for an exact one."""
        return None if self.approximation is None else self.approximation.tolerance

    @property
    def bound(self) -> float:
        """Proven bound on how far the tiled network is from the model on the slice, in any output; 0 if exact."""
        return 0.0 if self.approximation is None else self.approximation.bound

    @property
    def deviation(self) -> float:
        """How far the tiled network was measured to be from the model, at vertices and random points; 0 if exact."""
        return 0.0 if self.approximation is None else self.approximation.deviation

    def _repr_html_(self) -> str:
        """For notebooks: what costs next to nothing to tell."""
        rows = [("slice", repr(self.view)), ("ending left out", self.ending or "none")]
        around = ", to_html() lets you look around" if self.dimension in (2, 3) else ""
        note = f"summary() tells more, plot() draws it{around}."
        return box(f"<b>{escape(repr(self))}</b> <i>({self.certainty})</i>", f"{table(rows)}\n{note}")

    @property
    def count(self) -> int:
        """Number of tiles."""
        return len(self.tiles)

    @property
    def dimension(self) -> int:
        """That of the slice, 1 to 8."""
        return self.view.dimension

    @cached_property
    def areas(self) -> np.ndarray:
        """`[K]` areas (of a line lengths, from 3-D on volumes) of the tiles in slice coordinates; exact to rounding."""
        if self.dimension > 2:
            return self.moments[0]
        return self.tiles.sizes(self.vertices)

    @cached_property
    def walls(self) -> Walls | Facets:
        """Every wall once, with its sides and what made it: `Walls`, or `Facets` in three and more dimensions."""

        def site_of(cuts: np.ndarray) -> np.ndarray:
            sites = np.empty(len(cuts), np.int32)
            for start in range(0, len(cuts), _WALLS_TOGETHER):
                part = slice(start, start + _WALLS_TOGETHER)
                sites[part] = units_of_cuts(self.sites, cuts[part])[0]
            return sites

        walls = self.tiles.walls(self.corner_labels, self.vertices, site_of)
        return replace(walls, certainty=self.certainty)

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Volumes `[K]` and centers of mass `[K, d]` of tiles of three and more dimensions."""
        if not isinstance(self.tiles, Polytopes):
            raise InputError(f"moments need 3 or more dimensions, got {self.dimension}: use areas and centroids().")
        volumes, middles, *_ = measured(self.tiles.lists, self.vertices)
        return volumes, middles

    def tile(self, index: int) -> np.ndarray:
        """`[n, d]` corners of one tile in slice coordinates."""
        return self.vertices[self.tiles[index]]

    def check(self) -> TilingCheck:
        """Verify the invariants; the report says in words what failed.

        Checked: vertices - edges + tiles = 1 (in space: vertices - edges + walls - cells = 1; not in more dimensions);
        every signed area is positive; areas sum to the domain; every wall has two sides or is on the domain's
        boundary; the map is affine on every tile; activation patterns differ between tiles (the last two need the
        network, or its outputs).
        """
        return check_tiling(self)

    def program(self, what: str) -> Program:
        """The program that was tiled; an error that says what needs it if it is not attached."""
        if self.frozen is None:
            raise InputError(
                f"the network is needed for {what}, and a file does not carry it: give it to "
                "load_tiling(path, model=...)."
            )
        return self.frozen

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tiling as one safetensors file, by atomic replacement; `load_tiling` reads it back.

        The network itself is not stored, only its fingerprint. The layout is in `splinescope.tiling.files.storage`.
        """
        save_tiling(self, path)

    def to_html(
        self, path: str | os.PathLike[str], *, title: str | None = None, color: str | None = None, x: Any = None,
        y: Any = None, max_tiles: int | None = None,
    ) -> None:  # fmt: skip
        """Write one self-contained page to explore, of a 2-D or a 3-D tiling; it opens without a network connection.

        On a plane every tile is in the file (some 60 to 100 bytes each), of over two million those that reach furthest
        and the largest in each cell of a raster. In space (some 150 bytes a cell) there are a plane to cut with, cells
        to pull apart and the decision boundary, of at most the 400,000 largest cells. The page says how much it shows.

        Args:
            path: The file, written by atomic replacement.
            title: Heading of the page; by default the name of the model's class.
            color: What tiles are colored by at first, as in `plot`; the others can be chosen on the page ("active"
                beyond 20,000 tiles only if named here: it runs the network on each of them).
            x: `[N, ...]` inputs to mark; by default the points that the slice was laid through.
            y: `[N]` classes of the points, for their colors.
            max_tiles: The most tiles that the file has, for a smaller one.
        """
        drawing("page.write_page")(self, path, title=title, color=color, x=x, y=y, max_tiles=max_tiles)

    def plot(self, color: str | None = "slope", ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the tiles (extra "plot"); `options` are those of `splinescope.plot.plot_tiles`.

        A 1-D tiling is drawn as the graph of its function, with the options of `splinescope.plot.plot_graph`; a 3-D one
        as cells, with those of `splinescope.plot.plot_cells`.
        """
        if self.dimension == 2:
            return drawing("tiling.plot_tiles")(self, color=color, ax=ax, **options)
        as_what, name = ("cells", "solid.plot_cells") if self.dimension > 2 else ("a graph", "tiling.plot_graph")
        options["ax"] = ax
        if self.dimension > 2 or color not in (None, "slope"):
            options["color"] = color or "slope"
        known = inspect.signature(draw := drawing(name)).parameters.keys() - {"tiling"}
        if odd := sorted(options.keys() - known):
            raise InputError(
                f"a {self.dimension}-D tiling is drawn as {as_what}: plot takes {', '.join(sorted(known))}; got "
                f"{', '.join(odd)}."
            )
        return draw(self, **options)
