"""What a `Tiling` tells, as methods: each is one call of a function in the module that explains it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .._checks import as_points
from . import (
    _patterns,
    boundary,
    folds,
    graph,
    locate,
    maps,
    margin,
    pieces,
    quantities,
    section,
    shapes,
    statistics,
    topology,
)
from ._solid_maps import make_boxes

if TYPE_CHECKING:
    from ._solid_maps import Boxes
    from .boundary import Boundary
    from .folds import Bends, Folds, Raster
    from .graph import DualGraph
    from .locate import Grid
    from .margin import InputMargin
    from .pieces import Pieces
    from .quantities import Quantity
    from .statistics import Growth, Histogram, Summary
    from .tiling import Tiling
    from .topology import Topology


class Measures:
    """Derived quantities of a tiling. `tiles=` takes tile numbers or a mask; None means all."""

    @property
    def _tiling(self) -> Tiling:
        return cast("Tiling", self)

    # ---- affine maps

    def slopes(self, tiles: Any = None) -> np.ndarray:
        """`[k, C, d]` slopes A of the maps `f(t) = A t + c` on the slice, in slice coordinates.

        From the outputs at three well-placed corners of each tile; tiles thinner than 1e-6 of the slice, whose
        corners hold too few digits, by differentiating the network where it is attached (without it, NaN where the
        corners lie on a line). Exact to rounding.

        Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", equation (5).
        """
        return maps.slopes(self._tiling, tiles)

    def offsets(self, tiles: Any = None) -> np.ndarray:
        """`[k, C]` offsets c of the maps `f(t) = A t + c` on the slice."""
        return maps.offsets(self._tiling, tiles)

    def slope_norms(self, kind: str = "spectral") -> np.ndarray:
        """`[K]` norms ("spectral" or "frobenius") of the slopes on the slice, a block at a time.

        The spectral norm is the Lipschitz constant of the network on the tile along the slice (for the orthonormal
        bases that the constructors of `Slice` make).
        """
        return maps.slope_norms(self._tiling, kind)

    def singular_values(self, tiles: Any = None) -> np.ndarray:
        """`[k, min(C, d)]` singular values of the slopes on the slice, largest first."""
        return maps.singular_values(self._tiling, tiles)

    def input_slopes(self, tiles: Any) -> np.ndarray:
        """`[k, C, D]` slopes A of `f(x) = A x + c` in the full input space: Jacobians at a point of each tile.

        Exact. Cost: min(C, D) passes through the network per tile, in blocks. For more than memory holds see
        `iterate_input_slopes`.
        """
        return maps.input_slopes(self._tiling, tiles)

    def iterate_input_slopes(self, tiles: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """`input_slopes` a block at a time: (tile numbers `[k]`, slopes `[k, C, D]`)."""
        return maps.iterate_input_slopes(self._tiling, tiles)

    def input_slope_norms(self, tiles: Any = None, kind: str = "spectral") -> np.ndarray:
        """`[k]` norms of `input_slopes`, holding a block at a time: the local Lipschitz constants of the network."""
        return maps.input_slope_norms(self._tiling, tiles, kind)

    def input_singular_values(self, tiles: Any = None) -> np.ndarray:
        """`[k, min(C, D)]` singular values of `input_slopes`, largest first, holding a block of matrices at a time."""
        return maps.input_singular_values(self._tiling, tiles)

    def outputs(self, points: Any) -> np.ndarray:
        """`[N, C]` outputs (before any ending) at slice coordinates `[N, d]`, by the network."""
        return _patterns.outputs_at(self._tiling, points)

    def output_ranges(self, output: int = 0) -> np.ndarray:
        """`[K, 2]` least and largest value of one output on each tile. Exact: an affine map is extreme at corners."""
        return _patterns.output_ranges(self._tiling, output)

    def classes(self) -> np.ndarray:
        """`[K]` winning output in the middle of each tile (one output: 1 where it is positive, else 0)."""
        return _patterns.classes(self._tiling)

    def active_units(self) -> np.ndarray:
        """`[K]` number of units on the positive side of their fold on each tile."""
        return _patterns.active_units(self._tiling)

    def pieces(self, rtol: float = 1e-8) -> Pieces:
        """Pieces (linear regions): neighbouring tiles merged where their maps are equal.

        Maps are equal if their slopes differ by at most `rtol` times the largest slope of the tiling (or the largest
        output over the slice's extent, if that is more), in the Frobenius norm; continuity makes the offsets agree.
        Whether nearly equal maps merge depends on it.
        """
        return pieces.pieces(self._tiling, rtol)

    # ---- folds

    def folds(self) -> Folds:
        """The walls inside the domain with site, unit, layer and length; `by_layer()`, `lengths_by_layer()`."""
        return folds.folds(self._tiling)

    def bends(self) -> Bends:
        """Where folds cross folds of earlier layers, and the angles in the slice at which they bend there.

        Angles are measured from the two walls that meet, so their error is about 1e-16 of the slice's extent over
        the length of the shorter wall. Vertices at which more than two walls of one unit meet are left out.
        """
        return folds.bends(self._tiling)

    def input_dihedrals(self, bends: Bends) -> np.ndarray:
        """`[B]` dihedral angles in the full input space of the folds of `bends()`: `pi - angle(n-, n+)`.

        n- and n+ are the gradients of the pre-activation on both sides of the crossed fold; for two layers
        `n+ = n- + v_k w_k` (v_k the weight from unit k, w_k its own weights). Exact; two backward passes per bend.
        """
        return folds.input_dihedrals(self._tiling, bends)

    def graph_angles(self, output: int = 0) -> np.ndarray:
        """`[E]` dihedral angles, across each wall, of the graph of one output over the slice; pi is flat.

        NaN for walls with a tile on one side only.
        """
        return folds.graph_angles(self._tiling, output)

    def fold_raster(self, cells: int = 256, depth: int | None = None) -> Raster:
        """Fold length in every cell of a grid over the slice's bounding box (`.density`: per unit area). Exact.

        Args:
            cells: Cells along the longer side; cells are (nearly) square.
            depth: Only folds of this layer.
        """
        return folds.fold_raster(self._tiling, cells, depth)

    # ---- boundaries

    def decision_boundary(self) -> Boundary | Any:
        """Where the class with the largest output changes (one output: where it is zero). Exact to rounding.

        Segments on a plane, a `SurfaceMesh` of polygons in 3-D.

        Example:
            >>> for pair, points in tiling.decision_boundary().polylines: ...    # doctest: +SKIP
        """
        return boundary.decision_boundary(self._tiling)

    def level_set(self, value: float, output: int = 0) -> Boundary | Any:
        """Where one output takes a value: the boundary between below or equal (class 0) and above (class 1).

        Segments on a plane, a `SurfaceMesh` of polygons in 3-D.
        """
        return boundary.level_set(self._tiling, value, output)

    def margin(self, points: Any) -> np.ndarray:
        """`[N]` distances within the slice from points `[N, d]` to the decision boundary; infinite if there is none.

        Exact for the boundary inside the domain. It is also the distance in the slice's whole plane wherever it is at
        most the distance to the domain's edge. For distances in the input space, never larger, see `input_margin`.
        """
        return self.decision_boundary().distances(as_points(points, self._tiling.dimension))

    def input_margin(self, points: Any) -> InputMargin:
        """Distances in the full input space from points `[N, d]` of the slice to their tiles' edges and the boundary.

        See `InputMargin` for which are exact and which are bounds. Cost: min(D, units) passes through the network.
        """
        program = self._tiling.program("distances in the input space")
        inputs = self._tiling.view.inputs(as_points(points, self._tiling.dimension))
        return margin.input_margin(program, inputs, exact_network=self._tiling.certainty == "exact")

    def section(self, plane: Any, through: Any = None) -> Tiling:
        """The 2-D tiling on a plane through this 3-D one: what `tessellate` gives there, without the network.

        Args:
            plane: A 2-D `Slice` within this tiling's; or `[3]` a direction at right angles to the plane, in slice
                coordinates, for all of the domain that it meets.
            through: `[3]` a point of the plane with that normal; by default the mean of the domain's corners.
        """
        return section.section(self._tiling, plane, through)

    def topology(self, level: float | None = None, output: int = 0) -> Topology:
        """Components, holes and voids (Betti numbers) of each class's region of a 2-D or 3-D tiling. Exact.

        Args:
            level: Instead of classes, where one output is at most ("below") or at least ("above") this; for a network
                with a single output zero is the default.
            output: Which output.

        Example:
            >>> tiling.topology(0.0)["below"]    # doctest: +SKIP
            (1, 1, 0)
        """
        return topology.topology(self._tiling, level, output)

    def persistence(self, output: int = 0) -> list[tuple[int, float, float]]:
        """Persistent homology of the sub-level sets of one output on a 2-D or 3-D tiling (extra "topology"). Exact.

        (dimension, birth, death) of every component, hole and void as the level rises, longest-lived first; what never
        dies has an infinite death. Computed by gudhi on simplices that fill the tiles, in arithmetic modulo 2.
        """
        return topology.persistence(self._tiling, output)

    # ---- places

    @cached_property
    def grid(self) -> Grid:
        """The cells that `locate` and `tiles_near` look tiles up in (2-D)."""
        return locate.make_grid(self._tiling)

    @cached_property
    def boxes(self) -> Boxes:
        """The tree of boxes that `locate` looks tiles up in (3-D and beyond)."""
        return make_boxes(self._tiling)

    def locate(self, points: Any) -> np.ndarray:
        """`[N]` tile of each point `[N, d]` of the slice; -1 outside. On a wall, one of its tiles.

        Cost: the tiles in one grid cell per point, after the grid is built once.
        """
        return locate.locate(self._tiling, points)

    def tiles_near(self, point: Any, radius: float) -> np.ndarray:
        """Numbers of the tiles that meet the open disc (1-D: interval) about a point: those with area inside. Exact."""
        return locate.tiles_near(self._tiling, point, radius)

    def counts_near(self, points: Any, radius: float) -> np.ndarray:
        """`[N]` number of tiles that meet the open disc about each point `[N, d]`: exact local complexity."""
        return locate.counts_near(self._tiling, points, radius)

    def density_near(self, points: Any, radius: float) -> np.ndarray:
        """`[N]` `counts_near` per unit area (1-D: length) of the disc, also where part of it is outside the slice."""
        return statistics.density_near(self._tiling, points, radius)

    # ---- statistics

    @property
    def sides(self) -> np.ndarray:
        """`[K]` number of sides of each tile: its corners on a plane (a side that meets two neighbours counts twice),
        its facets in a space."""
        return np.diff(self._tiling.tiles.side_offsets)

    def centroids(self) -> np.ndarray:
        """`[K, d]` centres of area (of mass) of the tiles."""
        return shapes.centroids(self._tiling)

    def eccentricities(self) -> np.ndarray:
        """`[K]` `sqrt(1 - l2 / l1)` for the variances l1 >= l2 of a uniform point of the tile: 0 round, 1 a line."""
        folds.need_plane(self._tiling, "eccentricities")
        return shapes.eccentricities(self._tiling)

    def inradii(self) -> np.ndarray:
        """`[K]` radius of the largest disc in each tile (Chebyshev radius; 1-D: half the length). Exact."""
        folds.need_flat(self._tiling, "inradii")
        return shapes.inradii(self._tiling)

    def quantity(self, name: str, *, output: int = 0) -> Quantity:
        """One number per tile by name, with its label and scale.

        Args:
            name: "slope" (spectral norm of the map on the slice: the local Lipschitz constant), "area", "class",
                "value" and others: a wrong name lists them all, docs/tiling.md says what each is.
            output: Which output "value" is of.
        """
        return quantities.tile_quantity(self._tiling, name, output=output)

    def histogram(
        self, of: Any, bins: Any = None, *, weighted: bool = False, log: bool = False, output: int = 0
    ) -> Histogram:
        """Histogram over tiles, or over the slice.

        Args:
            of: Name of a quantity (see `quantity`), or `[K]` numbers.
            bins: How many, or their edges; by default 50, or one per whole number for what is counted or a class.
            weighted: Count area instead of tiles: what a random point of the slice sees.
            log: Bins of equal width on a logarithmic scale; values that are not positive are left out.
            output: Which output "value" is of.
        """
        return statistics.histogram(self._tiling, of, bins, weighted=weighted, log=log, output=output)

    def counts_by_depth(self) -> dict[int, int]:
        """Depth l -> number of tiles of the first l layers on the slice (0: one per connected part). Exact.

        Found by merging tiles across deeper folds. Compare `zaslavsky` for one layer, `serra` and `montufar` for more.
        """
        return graph.counts_by_depth(self._tiling)

    def growth(self) -> Growth:
        """Folds met per unit length of a line, and per unit of the network.

        At initialisation the number of folds that a line meets grows linearly with the number of units, not
        exponentially with depth. Reference: Hanin, Rolnick, "Complexity of linear regions in deep networks", 2019.
        """
        return statistics.growth(self._tiling)

    def dual_graph(self) -> DualGraph:
        """Tiles joined where they share a wall: edges, degrees, CSR neighbours, `to_networkx()`."""
        return graph.dual_graph(self._tiling)

    def summary(self) -> Summary:
        """The main numbers, as a table (`print`, `rich.print`) and as a dict (`.as_dict()`)."""
        return statistics.summary(self._tiling)
