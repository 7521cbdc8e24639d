"""Exact tilings: slices, the engine that cuts tiles, and the tiling with what it tells."""

from .boundary import Boundary
from .bounds import montufar, serra, zaslavsky
from .cells import Cells, Walls
from .census import FoldCensus, fold_census
from .crofton import crofton_constant
from .folds import Bends, Folds, Raster
from .graph import DualGraph
from .level_sets import level_set
from .margin import InputMargin
from .pieces import Pieces
from .polytopes import Facets, Polytopes
from .quantities import Quantity, tile_quantity
from .retile import Retiler
from .several import tessellate_each
from .slice import Slice
from .statistics import Summary, TilingComparison, compare_tilings
from .storage import load_tiling
from .subdivision import Level, Subdivision, cuts_within, subdivision
from .surfaces import SurfaceMesh
from .tessellate import tessellate
from .tiling import Tiling
from .topology import Topology

__all__ = [
    "Bends",
    "Boundary",
    "Cells",
    "DualGraph",
    "Facets",
    "FoldCensus",
    "Folds",
    "InputMargin",
    "Level",
    "Pieces",
    "Polytopes",
    "Quantity",
    "Raster",
    "Retiler",
    "Slice",
    "Subdivision",
    "Summary",
    "SurfaceMesh",
    "Tiling",
    "TilingComparison",
    "Topology",
    "Walls",
    "compare_tilings",
    "crofton_constant",
    "cuts_within",
    "fold_census",
    "level_set",
    "load_tiling",
    "montufar",
    "serra",
    "subdivision",
    "tessellate",
    "tessellate_each",
    "tile_quantity",
    "zaslavsky",
]
