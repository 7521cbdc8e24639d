"""Networks that are not piecewise affine: the strongest statement that is true of each, and which it is."""

from .bending import BoundaryCurvature as BoundaryCurvature
from .bending import boundary_curvature as boundary_curvature
from .blocks import Block as Block
from .blocks import block as block
from .local_map import LocalMap as LocalMap
from .local_map import local_map as local_map
from .map_part import MapPart as MapPart
from .posterior import EntropyMap as EntropyMap
from .posterior import RegionPosterior as RegionPosterior
from .posterior import entropy_map as entropy_map
from .posterior import region_posterior as region_posterior
from .soften import Softened as Softened
from .soften import harden as harden
from .soften import soften as soften
from .soften import softened_relu as softened_relu
from .steering import Steering as Steering
from .steering import steer as steer
from .tokens import FEATURES as FEATURES
from .tokens import TokenGeometry as TokenGeometry
from .tokens import token_geometry as token_geometry
from .validity import Validity as Validity
