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
    "Retiler": "tiling",
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
    "data_spacing": "complexity",
    "frame_reach": "complexity",
    "ComplexityMonitor": "complexity",
    "robustness": "complexity",
    "timeline": "complexity",
    "Timeline": "complexity",
    "load_timeline": "complexity",
    "Robustness": "complexity",
    "load_tiling": "tiling",
    "compare_tilings": "tiling",
    "level_set": "tiling",
    "SurfaceMesh": "tiling",
    "fold_census": "tiling",
    "FoldCensus": "tiling",
    "crofton_constant": "tiling",
    "zaslavsky": "tiling",
    "montufar": "tiling",
    "serra": "tiling",
    # normalization
    "fold_distances": "normalization",
    "point_distances": "normalization",
    "fold_density": "normalization",
    "fold_counts": "normalization",
    "fold_alignment": "normalization",
    "merge_batchnorm": "normalization",
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
    # smooth: networks that are not piecewise affine
    "local_map": "smooth",
    "LocalMap": "smooth",
    "block": "smooth",
    "soften": "smooth",
    "harden": "smooth",
    "region_posterior": "smooth",
    "entropy_map": "smooth",
    "steer": "smooth",
    "Steering": "smooth",
    "boundary_curvature": "smooth",
    "token_geometry": "smooth",
    "TokenGeometry": "smooth",
    # mean field: two-layer batch-norm networks as particles on a manifold
    "TwoLayer": "meanfield",
    "TwoLayerBN": "meanfield",
    "Manifold": "meanfield",
    "GaussianInputs": "meanfield",
    "ParticleMeasure": "meanfield",
    "wasserstein2": "meanfield",
    "convergence_study": "meanfield",
    "density_flow": "meanfield",
    # landscape
    "Minima": "landscape",
    "NotOneLayer": "landscape",
    "Conditioning": "landscape",
    "condition_number": "landscape",
    "layer_conditioning": "landscape",
    "layer_map": "landscape",
    "random_conditioning": "landscape",
    "skip_bound": "landscape",
    "tile_spectra": "landscape",
    "PathPlane": "landscape",
    "direction_between": "landscape",
    "principal_directions": "landscape",
    "random_directions": "landscape",
    "Curvature": "landscape",
    "curvature": "landscape",
    "curvature_factor": "landscape",
    "downstream_jacobians": "landscape",
    "CurvatureMonitor": "landscape",
    "PolynomialSection": "landscape",
    "polynomial_section": "landscape",
    "LossSection": "landscape",
    "loss_section": "landscape",
    "Skip": "landscape",
    "find_skips": "landscape",
    "skip_conditioning": "landscape",
    "without_skips": "landscape",
    "SpectralDensity": "landscape",
    "SpectrumSummary": "landscape",
    "extreme_eigenvalues": "landscape",
    "spectral_density": "landscape",
    "spectrum_summary": "landscape",
    "CertifiedSurface": "landscape",
    "certified_surface": "landscape",
    "LossSurface": "landscape",
    "loss_surface": "landscape",
    # reports
    "report": "reports",
    "Report": "reports",
    "compare_models": "reports",
}

__all__ = ["__version__", *_PUBLIC]

_PARTS = {*_PUBLIC.values(), "data", "plot", "evidence", "train"} - {"_errors"}


def __getattr__(name: str) -> Any:
    if name in _PARTS:  # `ss.plot.film`, whatever has been loaded before
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'splinescope' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
