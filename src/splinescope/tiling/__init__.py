"""Exact tilings: slices, the engine that cuts tiles, and the tiling with what it tells."""

from ..support.errors import answer_misspellings as _answer_misspellings
from .files.loading import load_tiling
from .measures.region_counts import serra, zaslavsky
from .measures.summary import compare_tilings
from .retile import Retiler
from .several import tessellate_each
from .slice import Slice
from .sweep import sweep_tiles
from .tessellate import tessellate
from .tiling import Tiling

__all__ = [
    "Retiler",
    "Slice",
    "Tiling",
    "compare_tilings",
    "load_tiling",
    "serra",
    "sweep_tiles",
    "tessellate",
    "tessellate_each",
    "zaslavsky",
]

_answer_misspellings(__name__)
