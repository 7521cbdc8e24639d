"""Exact tilings: slices, the engine that cuts tiles, and the tiling with what it tells."""

from .slice import Slice as Slice
from .storage import load_tiling as load_tiling
from .tessellate import tessellate as tessellate
from .tiling import Cells as Cells
from .tiling import Tiling as Tiling
from .tiling import Walls as Walls
