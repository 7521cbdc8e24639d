"""A batch through depth: recentering, rescaling, non-linearity; rank, angles, the odd point."""

from .geometry import representation_geometry
from .layers import random_network
from .measures import odd_point

__all__ = [
    "odd_point",
    "random_network",
    "representation_geometry",
]
