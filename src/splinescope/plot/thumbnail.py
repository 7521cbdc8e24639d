"""A small picture of a plane tiling for notebooks: SVG text, without any drawing library."""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from ..tiling import Tiling
from ..tiling.measures.quantities import tile_quantity
from .page import web_file

MOST_TILES = 2_000
"""More would be finer than the picture, and a burden in the notebook's file."""
SIDE = 240
"""Pixels of its longer side."""


def thumbnail(tiling: Tiling) -> str:
    """The tiles, shaded by slope norm where outputs are stored; empty if it is no plane, or has too many tiles."""
    if tiling.dimension != 2 or not 0 < tiling.count <= MOST_TILES:
        return ""
    low, high = tiling.view.domain.min(axis=0), tiling.view.domain.max(axis=0)
    scale = SIDE / (high - low).max()
    width, height = (scale * (high - low)).tolist()
    places = scale * np.stack([tiling.vertices[:, 0] - low[0], high[1] - tiling.vertices[:, 1]], axis=1)
    words = [f"{x:.4g},{y:.4g}" for x, y in places.tolist()]
    offsets, corners = tiling.tiles.offsets.tolist(), tiling.tiles.corners.tolist()
    tiles = [
        f'<polygon points="{" ".join(words[c] for c in corners[a:b])}" fill="#{shade}"/>'
        for a, b, shade in zip(offsets, offsets[1:], _shades(tiling), strict=False)
    ]
    label = "tiles" if tiling.values is None else "tiles, brighter where the slope norm is larger"
    return (
        f'<svg role="img" aria-label="{tiling.count} {label}" width="{width:.4g}" height="{height:.4g}" '
        f'viewBox="0 0 {width:.4g} {height:.4g}" stroke="#000" stroke-width="0.4">{"".join(tiles)}</svg>'
    )


def _shades(tiling: Tiling) -> list[str]:
    """A color for each tile, as six digits."""
    if tiling.values is None:
        return ["dddddd"] * tiling.count
    slope = tile_quantity(tiling, "slope")
    low, high = slope.limits
    values = np.clip(slope.values, low, high)
    if slope.log and low > 0:
        low, high, values = np.log(low), np.log(high), np.log(values)
    stops = _viridis()
    level = (values - low) / (high - low) if high > low else np.full(tiling.count, 0.5)
    return [stops[i] for i in np.rint(np.nan_to_num(level) * (len(stops) - 1)).astype(int).tolist()]


@cache
def _viridis() -> list[str]:
    """The stops of the viewer's own table."""
    found = re.search(r'VIRIDIS = "([0-9a-f]+)"', web_file("colors.js"))
    assert found is not None
    return re.findall("......", found[1])
