"""Generative models: the volume of a generator's tiles, MaGNET and polarity sampling, geometry and quality."""

from .cache import Pool
from .descriptors import LocalGeometry, effective_rank, geometry_map, local_geometry
from .domains import Ball, Box, Gaussian, LatentDomain, Sphere, TruncatedGaussian
from .exact import TiledManifold, tiled_manifold
from .manifold_law import ManifoldLaw, Projection, manifold_law, project
from .quality import ClassHistogram, Fidelity, class_histogram, fidelity, frechet_distance
from .sampler import EffectiveSizeWarning, MagnetSampler, PolaritySampler, Samples
from .training import train_planar_wgan, train_vae
from .volume import Volumes, log_volume

__all__ = [
    "Ball",
    "Box",
    "ClassHistogram",
    "EffectiveSizeWarning",
    "Fidelity",
    "Gaussian",
    "LatentDomain",
    "LocalGeometry",
    "MagnetSampler",
    "ManifoldLaw",
    "PolaritySampler",
    "Pool",
    "Projection",
    "Samples",
    "Sphere",
    "TiledManifold",
    "TruncatedGaussian",
    "Volumes",
    "class_histogram",
    "effective_rank",
    "fidelity",
    "frechet_distance",
    "geometry_map",
    "local_geometry",
    "log_volume",
    "manifold_law",
    "project",
    "tiled_manifold",
    "train_planar_wgan",
    "train_vae",
]
