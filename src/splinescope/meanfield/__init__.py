"""Two-layer batch-norm networks as particles flowing on a manifold: batch norm as a change of metric."""

from .convergence import ConvergenceStudy, Rate, convergence_study
from .data import Data, GaussianInputs
from .density import DensityPath, density_flow
from .effects import (
    FirstStep,
    LearningRateStudy,
    SpeedByDirection,
    SpeedByLength,
    first_step,
    learning_rate_study,
    speed_by_direction,
    speed_by_length,
)
from .flow import Trajectory, descend, flow
from .functions import Activation, Loss
from .manifold import Manifold
from .measure import ParticleMeasure, bounded_lipschitz, sliced_wasserstein2, wasserstein2
from .networks import TwoLayer, TwoLayerBN
from .optimality import Certificate, certificate, first_variation, separates

__all__ = [
    "Activation",
    "Certificate",
    "ConvergenceStudy",
    "Data",
    "DensityPath",
    "FirstStep",
    "GaussianInputs",
    "LearningRateStudy",
    "Loss",
    "Manifold",
    "ParticleMeasure",
    "Rate",
    "SpeedByDirection",
    "SpeedByLength",
    "Trajectory",
    "TwoLayer",
    "TwoLayerBN",
    "bounded_lipschitz",
    "certificate",
    "convergence_study",
    "density_flow",
    "descend",
    "first_step",
    "first_variation",
    "flow",
    "learning_rate_study",
    "separates",
    "sliced_wasserstein2",
    "speed_by_direction",
    "speed_by_length",
    "wasserstein2",
]
