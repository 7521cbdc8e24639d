"""What normalization does to the folds of a network, and how to place folds on data without it."""

from ..support.errors import answer_misspellings as _answer_misspellings
from .compare import compare_normalizations
from .density import fold_density
from .fold_distances import fold_distances
from .initialize import initialize_
from .jitter import boundary_jitter, fold_jitter, with_statistics
from .merge_copy import merge_batchnorm
from .merge_in_place import merge_batchnorm_
from .report import Thresholds, normalization_report

__all__ = [
    "Thresholds",
    "boundary_jitter",
    "compare_normalizations",
    "fold_density",
    "fold_distances",
    "fold_jitter",
    "initialize_",
    "merge_batchnorm",
    "merge_batchnorm_",
    "normalization_report",
    "with_statistics",
]

_answer_misspellings(__name__)
