"""The loss as a piecewise quadratic of a layer's parameters, its curvature, and why skip connections help."""

from ..support.errors import answer_misspellings as _answer_misspellings
from .break_distance import break_distance
from .certified import certified_surface
from .directions import principal_directions, random_directions
from .hessian import curvature
from .monitor import CurvatureMonitor
from .polynomials import polynomial_section
from .sections import loss_section
from .skip_conditioning import skip_conditioning
from .skips import without_skips
from .spectrum import spectral_density, spectrum_summary
from .surface import loss_surface

__all__ = [
    "CurvatureMonitor",
    "break_distance",
    "certified_surface",
    "curvature",
    "loss_section",
    "loss_surface",
    "polynomial_section",
    "principal_directions",
    "random_directions",
    "skip_conditioning",
    "spectral_density",
    "spectrum_summary",
    "without_skips",
]

_answer_misspellings(__name__)
