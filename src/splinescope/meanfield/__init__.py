"""Two-layer batch-norm networks as particles flowing on a manifold: batch norm as a change of metric.

In: data and initial neurons, or a two-layer module. Out: flows, metrics, losses over time. Imports `support`.
"""

from .data import Data, GaussianInputs
from .flow import descend, flow
from .networks import TwoLayer, TwoLayerBN

__all__ = ["Data", "GaussianInputs", "TwoLayer", "TwoLayerBN", "descend", "flow"]
