"""The whole input space: tiles, surfaces, and counts of folds, that no single slice shows.

In: a network, and a box, a distribution of lines or a point. Out: exact tiles and surfaces, exact crossings, estimates
with their error. Imports `network`, `tiling` and `support`.
"""

from .boundary_distance import boundary_distance
from .census import fold_census
from .explore import explore, tiles_in_ball
from .level_set import level_set
from .tile import tile_at
from .walk import walk

__all__ = [
    "boundary_distance",
    "explore",
    "fold_census",
    "level_set",
    "tile_at",
    "tiles_in_ball",
    "walk",
]
