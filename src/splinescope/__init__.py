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
    "compare": "tiling",
    "zaslavsky": "tiling",
    "montufar": "tiling",
    "serra": "tiling",
    # normalization
    "fold_distances": "normalization",
    "point_distances": "normalization",
    "fold_density": "normalization",
    "fold_counts": "normalization",
    "fold_alignment": "normalization",
    "fold_batchnorm": "normalization",
    "initialize_": "normalization",
    "normalization_report": "normalization",
    "compare_normalizations": "normalization",
    "with_statistics": "normalization",
    "fold_jitter": "normalization",
    "boundary_jitter": "normalization",
    # representation
    "NormalizedLayer": "representation",
    "random_network": "representation",
    "one_unit_per_point_": "representation",
    "representation_geometry": "representation",
    "RepresentationGeometry": "representation",
    "sign_classes": "representation",
    "full_rank_width": "representation",
    "expected_gram": "representation",
    "odd_point_step": "representation",
    "tree_representation": "representation",
    "TreeRepresentation": "representation",
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
