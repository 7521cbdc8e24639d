"""Models in (modules, ONNX and .nnet files), `SplineNetwork` out: the graph of affine steps and folds.

Imports `support` alone.
"""

from .freeze import freeze_statistics
from .load import load
from .network import SplineNetwork, trace
from .outputs import pick_output

__all__ = ["SplineNetwork", "freeze_statistics", "load", "pick_output", "trace"]
