"""Local complexity: how many folds pass near the data, and how that changes while a network learns."""

from ._result import LocalComplexity as LocalComplexity
from ._timeline_file import load_timeline as load_timeline
from .frames import calibrated_radius as calibrated_radius
from .frames import frame_reach as frame_reach
from .frames import random_frame as random_frame
from .local_complexity import local_complexity as local_complexity
from .monitor import ComplexityMonitor as ComplexityMonitor
from .robustness import Robustness as Robustness
from .robustness import robustness as robustness
from .spacing import data_spacing as data_spacing
from .timeline import Timeline as Timeline
from .timeline import timeline as timeline
