"""A batch through depth: recentering, rescaling, non-linearity; rank, angles, the odd point; the tree model."""

from .gamma import sign_classes
from .geometry import representation_geometry
from .gram import expected_gram
from .layers import random_network
from .measures import odd_point
from .tree import tree_representation

__all__ = [
    "expected_gram",
    "odd_point",
    "random_network",
    "representation_geometry",
    "sign_classes",
    "tree_representation",
]
