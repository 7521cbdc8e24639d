"""Local complexity: how many folds pass near the data, and how that changes while a network learns."""

from ._result import LocalComplexity as LocalComplexity
from ._result import zaslavsky as zaslavsky
from .frames import calibrated_radius as calibrated_radius
from .frames import frame_reach as frame_reach
from .frames import random_frame as random_frame
from .local_complexity import local_complexity as local_complexity
