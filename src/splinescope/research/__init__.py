"""Tools born of open questions, which may still change: outside of the promise that the other parts make.

In: networks in training and their data. Out: monitors, optimizers and laws that the findings are measured with. Imports
everything that measures; nothing imports it.
"""

from ..support.errors import answer_misspellings as _answer_misspellings
from .depth_profile import depth_profile
from .fold_monitor import FoldMonitor
from .layerwise_descent import LayerwiseDescent
from .manifold_law import manifold_law, project
from .merge_away import MergeAway
from .placed_norms import placing, with_placed_norms
from .statistics_fidelity import statistics_fidelity
from .subdivision import subdivision

__all__ = [
    "FoldMonitor",
    "LayerwiseDescent",
    "MergeAway",
    "depth_profile",
    "manifold_law",
    "placing",
    "project",
    "statistics_fidelity",
    "subdivision",
    "with_placed_norms",
]

_answer_misspellings(__name__)
