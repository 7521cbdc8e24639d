"""The loss as a piecewise quadratic of a layer's parameters, its curvature, and why skip connections help."""

from .directions import principal_directions, random_directions
from .hessian import curvature
from .monitor import CurvatureMonitor
from .polynomials import polynomial_section
from .sections import loss_section
from .skip_conditioning import skip_conditioning
from .skips import without_skips
from .spectrum import spectrum_summary
from .surface import loss_surface

__all__ = [
    "CurvatureMonitor",
    "curvature",
    "loss_section",
    "loss_surface",
    "polynomial_section",
    "principal_directions",
    "random_directions",
    "skip_conditioning",
    "spectrum_summary",
    "without_skips",
]
