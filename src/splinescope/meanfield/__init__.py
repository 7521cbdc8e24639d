"""Two-layer batch-norm networks as particles flowing on a manifold: batch norm as a change of metric."""

from ..support.errors import answer_misspellings as _answer_misspellings
from .convergence import convergence_study
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
    "convergence_study",
    "density_flow",
    "descend",
    "flow",
    "wasserstein2",
]

_answer_misspellings(__name__)
