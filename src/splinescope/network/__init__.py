"""Models in, `SplineNetwork` out: the graph of affine steps and folds."""

from ._load import load
from ._network import SplineNetwork, trace
from .freeze import freeze_statistics
from .hooks import HookWarning
from .outputs import pick_output
from .program import Affine, Fold, Program, Seal, Site, site_names, units_of_cuts

__all__ = [
    "Affine",
    "Fold",
    "HookWarning",
    "Program",
    "Seal",
    "Site",
    "SplineNetwork",
    "freeze_statistics",
    "load",
    "pick_output",
    "site_names",
    "trace",
    "units_of_cuts",
]
