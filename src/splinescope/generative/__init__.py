"""Generative models: the volume of a generator's tiles, MaGNET and polarity sampling, geometry and quality."""

from .cache import Pool as Pool
from .descriptors import LocalGeometry as LocalGeometry
from .descriptors import effective_rank as effective_rank
from .descriptors import geometry_map as geometry_map
from .descriptors import local_geometry as local_geometry
from .domains import Ball as Ball
from .domains import Box as Box
from .domains import Gaussian as Gaussian
from .domains import LatentDomain as LatentDomain
from .domains import Sphere as Sphere
from .domains import TruncatedGaussian as TruncatedGaussian
from .exact import TiledManifold as TiledManifold
from .exact import tiled_manifold as tiled_manifold
from .quality import ClassHistogram as ClassHistogram
from .quality import Fidelity as Fidelity
from .quality import class_histogram as class_histogram
from .quality import fidelity as fidelity
from .quality import frechet_distance as frechet_distance
from .sampler import EffectiveSizeWarning as EffectiveSizeWarning
from .sampler import MagnetSampler as MagnetSampler
from .sampler import PolaritySampler as PolaritySampler
from .sampler import Samples as Samples
from .training import train_planar_wgan as train_planar_wgan
from .training import train_vae as train_vae
from .volume import Volumes as Volumes
from .volume import log_volume as log_volume
