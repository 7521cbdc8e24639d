"""Networks that are not piecewise affine: the strongest statement that is true of each, and which it is."""

from .blocks import Block as Block
from .blocks import block as block
from .local_map import LocalMap as LocalMap
from .local_map import local_map as local_map
from .map_part import MapPart as MapPart
from .soften import RegionPosterior as RegionPosterior
from .soften import Softened as Softened
from .soften import harden as harden
from .soften import region_posterior as region_posterior
from .soften import soften as soften
from .soften import softened_relu as softened_relu
from .tokens import FEATURES as FEATURES
from .tokens import TokenGeometry as TokenGeometry
from .tokens import token_geometry as token_geometry
from .validity import Validity as Validity
