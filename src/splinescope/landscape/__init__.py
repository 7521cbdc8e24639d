"""The loss as a piecewise quadratic of a layer's parameters, its curvature, and why skip connections help."""

from ._minima import Minima
from ._moved import NotOneLayer
from .break_distance import BreakDistance, break_distance
from .certified import CertifiedSurface, certified_surface
from .conditioning import (
    Conditioning,
    TileSpectra,
    condition_number,
    layer_conditioning,
    layer_map,
    random_conditioning,
    skip_bound,
    tile_spectra,
)
from .depth_profile import DepthProfile, depth_profile, partial_rank_correlation
from .directions import PathPlane, direction_between, principal_directions, random_directions
from .hessian import Curvature, curvature, curvature_factor, downstream_jacobians
from .monitor import CurvatureMonitor
from .optimizer import LayerwiseDescent
from .polynomials import PolynomialSection, polynomial_section
from .sections import LossSection, loss_section
from .skip_conditioning import BlockConditioning, SkipConditioning, skip_conditioning
from .skips import Skip, find_skips, without_skips
from .spectrum import SpectralDensity, SpectrumSummary, extreme_eigenvalues, spectral_density, spectrum_summary
from .surface import LossSurface, loss_surface

__all__ = [
    "BlockConditioning",
    "BreakDistance",
    "CertifiedSurface",
    "Conditioning",
    "Curvature",
    "CurvatureMonitor",
    "DepthProfile",
    "LayerwiseDescent",
    "LossSection",
    "LossSurface",
    "Minima",
    "NotOneLayer",
    "PathPlane",
    "PolynomialSection",
    "Skip",
    "SkipConditioning",
    "SpectralDensity",
    "SpectrumSummary",
    "TileSpectra",
    "break_distance",
    "certified_surface",
    "condition_number",
    "curvature",
    "curvature_factor",
    "depth_profile",
    "direction_between",
    "downstream_jacobians",
    "extreme_eigenvalues",
    "find_skips",
    "layer_conditioning",
    "layer_map",
    "loss_section",
    "loss_surface",
    "partial_rank_correlation",
    "polynomial_section",
    "principal_directions",
    "random_conditioning",
    "random_directions",
    "skip_bound",
    "skip_conditioning",
    "spectral_density",
    "spectrum_summary",
    "tile_spectra",
    "without_skips",
]
