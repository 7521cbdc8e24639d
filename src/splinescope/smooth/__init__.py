"""Networks that are not piecewise affine: the strongest statement that is true of each, and which it is."""

from .local_map import LocalMap as LocalMap
from .local_map import local_map as local_map
from .map_part import MapPart as MapPart
from .tokens import FEATURES as FEATURES
from .tokens import TokenGeometry as TokenGeometry
from .tokens import token_geometry as token_geometry
from .validity import Validity as Validity
