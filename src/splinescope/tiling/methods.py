"""What a `Tiling` tells, as methods: functions of `measures`, bound; each module explains its own."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..support.checks import as_points
from .measures import boundary, graph, maps, patterns, quantities, tile_shapes
from .measures import folds as _folds
from .measures import locate as _locate
from .measures import margin as _margin
from .measures import section as _section
from .measures import summary as _summary
from .measures import topology as _topology

if TYPE_CHECKING:
    from .measures.locate import Boxes, Grid
    from .measures.margin import InputMargin
    from .tiling import Tiling


class Measures:
    """Derived quantities of a tiling. `tiles=` takes tile numbers or a mask; None means all."""

    @property
    def _tiling(self) -> Tiling:
        return cast("Tiling", self)

    # ---- affine maps

    slopes = maps.slopes
    offsets = maps.offsets
    slope_norms = maps.slope_norms
    singular_values = maps.singular_values
    input_slopes = maps.input_slopes
    iterate_input_slopes = maps.iterate_input_slopes
    input_slope_norms = maps.input_slope_norms
    input_singular_values = maps.input_singular_values
    outputs = patterns.outputs_at
    output_ranges = patterns.output_ranges
    classes = patterns.classes
    active_units = patterns.active_units
    pieces = graph.pieces

    # ---- folds

    folds = _folds.folds
    bends = _folds.bends
    input_dihedrals = _folds.input_dihedrals
    graph_angles = _folds.graph_angles
    fold_raster = _folds.fold_raster

    # ---- boundaries

    decision_boundary = boundary.decision_boundary
    level_set = boundary.level_set

    def margin(self, points: Any) -> np.ndarray:
        """`[N]` distances within the slice from points `[N, d]` to the decision boundary; infinite if there is none.

        Exact for the boundary inside the domain. It is also the distance in the slice's whole plane wherever it is at
        most the distance to the domain's edge. For distances in the input space, never larger, see `input_margin`.
        """
        return self._tiling.decision_boundary().distances(as_points(points, self._tiling.dimension))

    def input_margin(self, points: Any) -> InputMargin:
        """Distances in the full input space from points `[N, d]` of the slice to their tiles' edges and the boundary.

        See `InputMargin` for which are exact and which are bounds. Cost: min(D, units) passes through the network.
        """
        program = self._tiling.program("distances in the input space")
        inputs = self._tiling.view.inputs(as_points(points, self._tiling.dimension))
        return _margin.input_margin(program, inputs, exact_network=self._tiling.certainty == "exact")

    section = _section.section
    topology = _topology.topology
    persistence = _topology.persistence

    # ---- places

    @cached_property
    def grid(self) -> Grid:
        """The cells that `locate` and `tiles_near` look tiles up in (2-D)."""
        return _locate.make_grid(self._tiling)

    @cached_property
    def boxes(self) -> Boxes:
        """The tree of boxes that `locate` looks tiles up in (3-D and beyond)."""
        return _locate.make_boxes(self._tiling)

    locate = _locate.locate
    tiles_near = _locate.tiles_near
    counts_near = _locate.counts_near
    density_near = _summary.density_near

    # ---- statistics

    @property
    def sides(self) -> np.ndarray:
        """`[K]` number of sides of each tile: its corners on a plane (a side that meets two neighbours counts twice),
        its facets in a space."""
        return np.diff(self._tiling.tiles.side_offsets)

    centroids = tile_shapes.centroids

    def eccentricities(self) -> np.ndarray:
        """`[K]` `sqrt(1 - l2 / l1)` for the variances l1 >= l2 of a uniform point of the tile: 0 round, 1 a line."""
        _folds.need_plane(self._tiling, "eccentricities")
        return tile_shapes.eccentricities(self._tiling)

    def inradii(self) -> np.ndarray:
        """`[K]` radius of the largest disc in each tile (Chebyshev radius; 1-D: half the length). Exact."""
        _folds.need_flat(self._tiling, "inradii")
        return tile_shapes.inradii(self._tiling)

    quantity = quantities.tile_quantity
    histogram = _summary.histogram
    counts_by_depth = graph.counts_by_depth
    growth = _summary.growth
    dual_graph = graph.dual_graph
    summary = _summary.summary
