"""The loss around a network's parameters, its curvature, and why skip connections help.

In: a network, data and a loss. Out: losses on lines and planes of parameters, spectra, conditioning. Imports `network`,
`train` and `support`.
"""

from .directions import principal_directions, random_directions
from .hessian import curvature
from .monitor import CurvatureMonitor
from .skip_conditioning import skip_conditioning
from .skips import without_skips
from .spectrum import spectrum_summary
from .surface import loss_surface

__all__ = [
    "CurvatureMonitor",
    "curvature",
    "loss_surface",
    "principal_directions",
    "random_directions",
    "skip_conditioning",
    "spectrum_summary",
    "without_skips",
]
