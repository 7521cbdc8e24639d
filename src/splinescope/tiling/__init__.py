"""Exact tilings: slices, the engine that cuts tiles, and the tiling with what it tells.

In: a network and a `Slice`. Out: a `Tiling`. Imports `network` and `support`.
"""

from .files.loading import load_tiling
from .measures.region_counts import zaslavsky
from .measures.summary import compare_tilings
from .several import tessellate_each
from .slice import Slice
from .tessellate import tessellate
from .tiling import Tiling

__all__ = ["Slice", "Tiling", "compare_tilings", "load_tiling", "tessellate", "tessellate_each", "zaslavsky"]
