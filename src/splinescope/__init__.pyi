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
    "freeze_statistics",
    "generative",
    "guarantees",
    "initialize_",
    "integrated_gradients",
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
    "output_range",
    "pick_output",
    "plot",
    "report",
    "reports",
    "representation",
    "representation_geometry",
    "skip_conditioning",
    "smooth",
    "soften",
    "space",
    "studio",
    "tessellate",
    "tile_at",
    "tiling",
    "token_geometry",
    "trace",
    "train",
    "verify",
]

from . import (
    complexity,
    data,
    generative,
    guarantees,
    landscape,
    meanfield,
    network,
    normalization,
    plot,
    reports,
    representation,
    smooth,
    space,
    studio,
    tiling,
    train,
)
from .complexity import ComplexityMonitor, local_complexity
from .generative import MagnetSampler, PolaritySampler, log_volume
from .guarantees import integrated_gradients, output_range, verify
from .landscape import curvature, loss_surface, skip_conditioning
from .network import SplineNetwork, freeze_statistics, load, pick_output, trace
from .normalization import initialize_, normalization_report
from .reports import compare_models, report
from .representation import representation_geometry
from .smooth import local_map, soften, token_geometry
from .space import tile_at
from .support.errors import (
    FileFormatError,
    InputError,
    LimitReached,
    MissingExtraError,
    SplinescopeError,
    UnsupportedModelError,
)
from .tiling import Slice, Tiling, compare_tilings, load_tiling, tessellate
