"""Networks that are not piecewise affine: the strongest statement that is true of each, and which it is."""

from ..support.errors import answer_misspellings as _answer_misspellings
from .bending import boundary_curvature
from .blocks import block
from .local_map import local_map
from .posterior import entropy_map, region_posterior
from .soften import harden, soften
from .steering import steer
from .tokens import token_geometry

__all__ = [
    "block",
    "boundary_curvature",
    "entropy_map",
    "harden",
    "local_map",
    "region_posterior",
    "soften",
    "steer",
    "token_geometry",
]

_answer_misspellings(__name__)
