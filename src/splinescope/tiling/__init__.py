"""Exact tilings: slices, the engine that cuts tiles, and the tiling with what it tells."""

from .boundary import Boundary as Boundary
from .bounds import montufar as montufar
from .bounds import serra as serra
from .bounds import zaslavsky as zaslavsky
from .cells import Cells as Cells
from .cells import Walls as Walls
from .census import FoldCensus as FoldCensus
from .census import fold_census as fold_census
from .crofton import crofton_constant as crofton_constant
from .folds import Bends as Bends
from .folds import Folds as Folds
from .folds import Raster as Raster
from .graph import DualGraph as DualGraph
from .margin import InputMargin as InputMargin
from .pieces import Pieces as Pieces
from .polytopes import Facets as Facets
from .polytopes import Polytopes as Polytopes
from .retile import Retiler as Retiler
from .slice import Slice as Slice
from .statistics import Comparison as Comparison
from .statistics import Summary as Summary
from .statistics import compare as compare
from .storage import load_tiling as load_tiling
from .tessellate import tessellate as tessellate
from .tiling import Tiling as Tiling
