"""Generative models: the volume of a generator's tiles, MaGNET and polarity sampling, geometry and quality."""

from ..support.errors import answer_misspellings as _answer_misspellings
from .descriptors import geometry_map, local_geometry
from .domains import Ball, Box, Gaussian, Sphere, TruncatedGaussian
from .exact import tiled_manifold
from .quality import class_histogram, fidelity, frechet_distance
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
    "class_histogram",
    "fidelity",
    "frechet_distance",
    "geometry_map",
    "local_geometry",
    "log_volume",
    "tiled_manifold",
]

_answer_misspellings(__name__)
