"""What a `Tiling` tells, as methods: functions of `measures`, bound; each module explains its own."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from .measures import boundary, graph, maps, quantities, tile_shapes
from .measures import folds as _folds
from .measures import locate as _locate
from .measures import margin as _margin
from .measures import summary as _summary

if TYPE_CHECKING:
    from .tiling import Tiling


class Measures:
    """Derived quantities of a tiling. `tiles=` takes tile numbers or a mask; None means all."""

    # ---- affine maps

    slopes = maps.slopes
    offsets = maps.offsets
    slope_norms = maps.slope_norms
    input_slopes = maps.input_slopes
    input_slope_norms = maps.input_slope_norms
    outputs = maps.outputs_at
    output_ranges = maps.output_ranges
    classes = maps.classes
    active_units = maps.active_units
    pieces = graph.pieces

    # ---- folds

    folds = _folds.folds
    bends = _folds.bends
    fold_raster = _folds.fold_raster

    # ---- boundaries

    decision_boundary = boundary.decision_boundary
    level_set = boundary.level_set
    margin = boundary.margin
    input_margin = _margin.tiling_margin

    # ---- places

    @cached_property
    def grid(self) -> _locate.Grid:
        """The cells that `locate` and `tiles_near` look tiles up in (2-D)."""
        return _locate.make_grid(cast("Tiling", self))

    @cached_property
    def boxes(self) -> _locate.Boxes:
        """The tree of boxes that `locate` looks tiles up in (3-D and beyond)."""
        return _locate.make_boxes(cast("Tiling", self))

    locate = _locate.locate
    tiles_near = _locate.tiles_near
    counts_near = _locate.counts_near
    density_near = _locate.density_near

    # ---- statistics

    @property
    def sides(self) -> np.ndarray:
        """`[K]` number of sides of each tile: its corners on a plane (a side that meets two neighbors counts twice),
        its facets in a space."""
        return np.diff(cast("Tiling", self).tiles.side_offsets)

    centroids = tile_shapes.centroids
    eccentricities = tile_shapes.eccentricities
    inradii = tile_shapes.inradii
    quantity = quantities.tile_quantity
    counts_by_depth = graph.counts_by_depth
    folds_per_length = _folds.folds_per_length
    dual_graph = graph.dual_graph
    summary = _summary.summary
