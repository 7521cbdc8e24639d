"""Models in, `SplineNetwork` out: the graph of affine steps and folds."""

from ._freeze import freeze_statistics as freeze_statistics
from ._load import load as load
from ._network import SplineNetwork as SplineNetwork
from ._network import trace as trace
from ._program import Affine as Affine
from ._program import Fold as Fold
from ._program import Program as Program
from ._program import Seal as Seal
from ._program import Site as Site
from ._program import units_of_cuts as units_of_cuts
