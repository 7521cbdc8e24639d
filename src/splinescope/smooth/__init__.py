"""Networks that are not piecewise affine: the strongest statement that is true of each, and which it is."""

from .local_map import LocalMap as LocalMap
from .local_map import local_map as local_map
from .map_part import MapPart as MapPart
from .validity import Validity as Validity
