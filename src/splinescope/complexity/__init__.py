"""Local complexity: how many folds pass near the data, and how that changes while a network learns."""

from ._result import LocalComplexity
from ._timeline_file import load_timeline
from .fold_tracks import FoldMonitor, FoldPlaces
from .frames import calibrated_radius, frame_reach, random_frame
from .local_complexity import local_complexity
from .monitor import ComplexityMonitor
from .robustness import Robustness, robustness
from .spacing import data_spacing
from .timeline import Timeline, timeline

__all__ = [
    "ComplexityMonitor",
    "FoldMonitor",
    "FoldPlaces",
    "LocalComplexity",
    "Robustness",
    "Timeline",
    "calibrated_radius",
    "data_spacing",
    "frame_reach",
    "load_timeline",
    "local_complexity",
    "random_frame",
    "robustness",
    "timeline",
]
