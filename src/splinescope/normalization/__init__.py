"""What normalization does to the folds of a network, and how to place folds on data without it."""

from .fold_distances import fold_distances
from .initialize import initialize_
from .jitter import boundary_jitter, fold_jitter, with_statistics
from .merge_copy import merge_batchnorm
from .report import normalization_report

__all__ = [
    "boundary_jitter",
    "fold_distances",
    "fold_jitter",
    "initialize_",
    "merge_batchnorm",
    "normalization_report",
    "with_statistics",
]
