"""What normalization does to the folds of a network, and how to place folds on data without it.

In: a network and a batch. Out: distances of folds, findings, placed or merged layers. Imports `network`, `tiling` and
`support`.
"""

from .fold_distances import fold_distances
from .initialize import initialize_
from .merge_copy import merge_batchnorm
from .report import normalization_report
from .with_statistics import with_statistics

__all__ = ["fold_distances", "initialize_", "merge_batchnorm", "normalization_report", "with_statistics"]
