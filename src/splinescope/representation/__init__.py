"""A batch through depth: rank, angles, activity, the odd point."""

from .geometry import representation_geometry
from .measures import odd_point

__all__ = [
    "odd_point",
    "representation_geometry",
]
