"""A batch through depth: recentering, rescaling, non-linearity; rank, angles, the odd point; the tree model."""

from ..support.errors import answer_misspellings as _answer_misspellings
from .full_rank import full_rank_width
from .gamma import sign_classes
from .geometry import representation_geometry
from .gram import expected_gram
from .invariant import invariant_representation, odd_point_step
from .layers import random_network
from .measures import odd_point
from .one_unit_per_point import one_unit_per_point_
from .tree import tree_representation

__all__ = [
    "expected_gram",
    "full_rank_width",
    "invariant_representation",
    "odd_point",
    "odd_point_step",
    "one_unit_per_point_",
    "random_network",
    "representation_geometry",
    "sign_classes",
    "tree_representation",
]

_answer_misspellings(__name__)
