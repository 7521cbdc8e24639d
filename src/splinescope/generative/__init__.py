"""Generative models: the volume of a generator's tiles, MaGNET and polarity sampling, local geometry.

In: a generator and latents. Out: volumes, samples, ranks and singular values. Imports `complexity`, `network`, `tiling`
and `support`.
"""

from .descriptors import geometry_map, local_geometry
from .domains import Ball, Box, Gaussian, Sphere, TruncatedGaussian
from .exact import tiled_manifold
from .sampler import MagnetSampler, PolaritySampler
from .volume import log_volume

__all__ = [
    "Ball",
    "Box",
    "Gaussian",
    "MagnetSampler",
    "PolaritySampler",
    "Sphere",
    "TruncatedGaussian",
    "geometry_map",
    "local_geometry",
    "log_volume",
    "tiled_manifold",
]
