"""What normalisation does to the folds of a network, and how to place folds on data without it."""

from .compare import (
    NORMALIZATIONS,
    NormalizationRow,
    compare_normalizations,
    comparison_table,
    normalized_mlp,
    sign_changes,
)
from .density import FoldDensity, fold_alignment, fold_counts, fold_density
from .fidelity import StatisticsFidelity, statistics_fidelity
from .fold_distances import FoldDistances, SiteDistances, fold_distances, point_distances
from .folding import ScaleShift, merge_batchnorm
from .initialize import Initialization, initialize_
from .jitter import BoundaryJitter, FoldJitter, boundary_jitter, fold_jitter, minibatch_networks, with_statistics
from .merge_away import MergeAway, merge_batchnorm_
from .placed import CRITERIA, PlacedNorm1d, PlacedNorm2d, boundary_weights, placing, with_placed_norms
from .plateau import plateaued
from .report import Finding, NormalizationReport, Thresholds, normalization_report

__all__ = [
    "CRITERIA",
    "NORMALIZATIONS",
    "BoundaryJitter",
    "Finding",
    "FoldDensity",
    "FoldDistances",
    "FoldJitter",
    "Initialization",
    "MergeAway",
    "NormalizationReport",
    "NormalizationRow",
    "PlacedNorm1d",
    "PlacedNorm2d",
    "ScaleShift",
    "SiteDistances",
    "StatisticsFidelity",
    "Thresholds",
    "boundary_jitter",
    "boundary_weights",
    "compare_normalizations",
    "comparison_table",
    "fold_alignment",
    "fold_counts",
    "fold_density",
    "fold_distances",
    "fold_jitter",
    "initialize_",
    "merge_batchnorm",
    "merge_batchnorm_",
    "minibatch_networks",
    "normalization_report",
    "normalized_mlp",
    "placing",
    "plateaued",
    "point_distances",
    "sign_changes",
    "statistics_fidelity",
    "with_placed_norms",
    "with_statistics",
]
