"""What normalisation does to the folds of a network, and how to place folds on data without it."""

from .fold_distances import FoldDistances as FoldDistances
from .fold_distances import SiteDistances as SiteDistances
from .fold_distances import fold_distances as fold_distances
from .fold_distances import point_distances as point_distances
from .folding import ScaleShift as ScaleShift
from .folding import fold_batchnorm as fold_batchnorm
from .initialize import Initialization as Initialization
from .initialize import initialize_ as initialize_
from .report import Finding as Finding
from .report import NormalizationReport as NormalizationReport
from .report import Thresholds as Thresholds
from .report import normalization_report as normalization_report
from .density import FoldDensity as FoldDensity
from .density import fold_alignment as fold_alignment
from .density import fold_counts as fold_counts
from .density import fold_density as fold_density
