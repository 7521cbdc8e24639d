"""The names at the top level, for type checkers and editors and, by lazy_loader, for Python itself."""

__version__: str

__all__ = [
    "ComplexityMonitor",
    "FileFormatError",
    "InputError",
    "LimitReached",
    "MagnetSampler",
    "MissingExtraError",
    "PolaritySampler",
    "Slice",
    "SplineNetwork",
    "SplinescopeError",
    "Tiling",
    "UnsupportedModelError",
    "compare_models",
    "compare_tilings",
    "complexity",
    "curvature",
    "data",
    "evidence",
    "freeze_statistics",
    "generative",
    "initialize_",
    "landscape",
    "load",
    "load_tiling",
    "local_complexity",
    "local_map",
    "log_volume",
    "loss_surface",
    "meanfield",
    "network",
    "normalization",
    "normalization_report",
    "pick_output",
    "plot",
    "report",
    "reports",
    "representation",
    "representation_geometry",
    "skip_conditioning",
    "smooth",
    "soften",
    "studio",
    "tessellate",
    "tiling",
    "token_geometry",
    "trace",
    "train",
]

from . import (
    complexity,
    data,
    evidence,
    generative,
    landscape,
    meanfield,
    network,
    normalization,
    plot,
    reports,
    representation,
    smooth,
    studio,
    tiling,
    train,
)
from ._errors import (
    FileFormatError,
    InputError,
    LimitReached,
    MissingExtraError,
    SplinescopeError,
    UnsupportedModelError,
)
from .complexity import ComplexityMonitor, local_complexity
from .generative import MagnetSampler, PolaritySampler, log_volume
from .landscape import curvature, loss_surface, skip_conditioning
from .network import SplineNetwork, freeze_statistics, load, pick_output, trace
from .normalization import initialize_, normalization_report
from .reports import compare_models, report
from .representation import representation_geometry
from .smooth import local_map, soften, token_geometry
from .tiling import Slice, Tiling, compare_tilings, load_tiling, tessellate
