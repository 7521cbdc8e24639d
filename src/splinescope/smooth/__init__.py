"""Networks that are not piecewise affine: the strongest statement that is true of each, and which it is."""

from .bending import BoundaryCurvature, boundary_curvature
from .blocks import Block, block
from .local_map import LocalMap, local_map
from .map_part import MapPart
from .posterior import EntropyMap, RegionPosterior, entropy_map, region_posterior
from .soften import Softened, harden, soften, softened_relu
from .steering import Steering, steer
from .tokens import FEATURES, TokenGeometry, token_geometry
from .validity import Validity

__all__ = [
    "FEATURES",
    "Block",
    "BoundaryCurvature",
    "EntropyMap",
    "LocalMap",
    "MapPart",
    "RegionPosterior",
    "Softened",
    "Steering",
    "TokenGeometry",
    "Validity",
    "block",
    "boundary_curvature",
    "entropy_map",
    "harden",
    "local_map",
    "region_posterior",
    "soften",
    "softened_relu",
    "steer",
    "token_geometry",
]
