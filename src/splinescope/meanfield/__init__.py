"""Two-layer batch-norm networks as particles flowing on a manifold: batch norm as a change of metric."""

from .data import Data, GaussianInputs
from .density import density_flow
from .flow import descend, flow
from .measure import wasserstein2
from .networks import TwoLayer, TwoLayerBN
from .optimality import certificate

__all__ = [
    "Data",
    "GaussianInputs",
    "TwoLayer",
    "TwoLayerBN",
    "certificate",
    "density_flow",
    "descend",
    "flow",
    "wasserstein2",
]
