"""What normalisation does to the folds of a network, and how to place folds on data without it."""

from .density import FoldDensity as FoldDensity
from .density import fold_alignment as fold_alignment
from .density import fold_counts as fold_counts
from .density import fold_density as fold_density
from .fold_distances import FoldDistances as FoldDistances
from .fold_distances import SiteDistances as SiteDistances
from .fold_distances import fold_distances as fold_distances
from .fold_distances import point_distances as point_distances
from .folding import ScaleShift as ScaleShift
from .folding import fold_batchnorm as fold_batchnorm
from .initialize import Initialization as Initialization
from .initialize import initialize_ as initialize_
from .jitter import BoundaryJitter as BoundaryJitter
from .jitter import FoldJitter as FoldJitter
from .jitter import boundary_jitter as boundary_jitter
from .jitter import fold_jitter as fold_jitter
from .jitter import minibatch_networks as minibatch_networks
from .jitter import with_statistics as with_statistics
from .report import Finding as Finding
from .report import NormalizationReport as NormalizationReport
from .report import Thresholds as Thresholds
from .report import normalization_report as normalization_report
