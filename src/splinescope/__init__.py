"""splinescope: a microscope for the geometry of deep networks.

A PyTorch module (or an ONNX file) goes in; exact tiles, folds, slopes, boundaries, complexity, curvature and
volumes come out. Importing this package does no work; each name below is loaded when first used.

    >>> import splinescope as ss
    >>> view = ss.Slice.through(x0, x1, x2, pad=0.1)    # doctest: +SKIP
    >>> tiling = ss.tessellate(model, view)             # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# name -> module that defines it, grouped by part
_PUBLIC: dict[str, str] = {
    # errors
    "SplinescopeError": "_errors",
    "InputError": "_errors",
    "UnsupportedModelError": "_errors",
    "MissingExtraError": "_errors",
    "FileFormatError": "_errors",
    "LimitReached": "_errors",
    # network
    "trace": "network",
    "SplineNetwork": "network",
    "load": "network",
    "freeze_statistics": "network",
    # tiling
    "Slice": "tiling",
    "tessellate": "tiling",
    "Tiling": "tiling",
    # generative
    "log_volume": "generative",
    "MagnetSampler": "generative",
    "PolaritySampler": "generative",
    "tiled_manifold": "generative",
    "local_geometry": "generative",
    # complexity
    "local_complexity": "complexity",
    "LocalComplexity": "complexity",
    "calibrated_radius": "complexity",
    "frame_reach": "complexity",
    "load_tiling": "tiling",
    "compare": "tiling",
    "zaslavsky": "tiling",
    "montufar": "tiling",
    "serra": "tiling",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'splinescope' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
