"""A batch through depth: rank, angles, activity, the odd point.

In: a network and a batch. Out: numbers for every layer. Imports `network` and `support`.
"""

from .geometry import representation_geometry
from .measures import odd_point

__all__ = ["odd_point", "representation_geometry"]
