"""What normalisation does to the folds of a network, and how to place folds on data without it."""

from .fold_distances import FoldDistances as FoldDistances
from .fold_distances import SiteDistances as SiteDistances
from .fold_distances import fold_distances as fold_distances
from .fold_distances import point_distances as point_distances
from .folding import ScaleShift as ScaleShift
from .folding import fold_batchnorm as fold_batchnorm
from .initialize import Initialization as Initialization
from .initialize import initialize_ as initialize_
