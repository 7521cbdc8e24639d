"""Local complexity: how many folds pass near the data, and how that changes while a network learns.

In: a network and points, or a training loop. Out: counts, distances and densities of folds; a slice's tiles over steps.
Imports `network`, `tiling`, `train` and `support`.
"""

from .local_complexity import local_complexity
from .monitor import ComplexityMonitor
from .neighborhoods import data_spacing
from .robustness import robustness
from .sweep_tiles import sweep_tiles
from .timeline import load_timeline, timeline

__all__ = [
    "ComplexityMonitor",
    "data_spacing",
    "load_timeline",
    "local_complexity",
    "robustness",
    "sweep_tiles",
    "timeline",
]
