"""Tiles as shapely geometries in a GeoDataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...support.checks import require
from ..measures.folds import need_flat
from ..measures.quantities import available, mean_values, tile_quantity

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

    from ..tiling import Tiling


def to_geopandas(tiling: Tiling) -> GeoDataFrame:
    """See `Tiling.to_geopandas`."""
    need_flat(tiling, "shapely geometries")
    geopandas, shapely = require("geopandas", "geo"), require("shapely", "geo")
    offsets, corners = tiling.tiles.offsets, tiling.tiles.corners
    sizes = np.diff(offsets)
    if tiling.dimension == 1:
        ends = tiling.vertices[corners].reshape(-1, 2, 1)
        geometry = shapely.linestrings(np.concatenate([ends, np.zeros_like(ends)], 2))
    else:
        # a ring repeats its first corner: insert it after each tile's last
        rings = np.insert(corners, offsets[1:], corners[offsets[:-1]])
        ends = np.concatenate([[0], np.cumsum(sizes + 1)])
        polygon = shapely.GeometryType.POLYGON
        geometry = shapely.from_ragged_array(polygon, tiling.vertices[rings], (ends, np.arange(tiling.count + 1)))
    names = available(tiling)
    columns = {name: tile_quantity(tiling, name).values for name in names if name != "value"}
    if "value" in names and tiling.values is not None:
        columns |= {f"value_{c}": mean_values(tiling, c) for c in range(tiling.values.shape[1])}
    return geopandas.GeoDataFrame(columns, geometry=geometry)
