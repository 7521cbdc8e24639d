"""A batch through depth: recentring, rescaling, non-linearity; rank, angles, the odd point; the tree model."""

from .full_rank import (
    FullRankWidth,
    expected_width_bound,
    full_rank_width,
    new_direction_probability,
    width_tail_bounds,
)
from .gamma import SignClasses, sign_classes
from .geometry import RepresentationGeometry, representation_geometry
from .gram import arc_cosine, expected_gram, follow_expected_gram
from .invariant import OddPointStep, invariant_representation, odd_point_step, sample_odd_point_step
from .layers import BatchStandardize, NormalizedLayer, random_network
from .measures import LayerGeometry, OddPoint, odd_point
from .one_unit_per_point import one_unit_per_point_
from .tree import TreeRepresentation, three_cluster_depth_bound, tree_gram, tree_representation, tree_rows

__all__ = [
    "BatchStandardize",
    "FullRankWidth",
    "LayerGeometry",
    "NormalizedLayer",
    "OddPoint",
    "OddPointStep",
    "RepresentationGeometry",
    "SignClasses",
    "TreeRepresentation",
    "arc_cosine",
    "expected_gram",
    "expected_width_bound",
    "follow_expected_gram",
    "full_rank_width",
    "invariant_representation",
    "new_direction_probability",
    "odd_point",
    "odd_point_step",
    "one_unit_per_point_",
    "random_network",
    "representation_geometry",
    "sample_odd_point_step",
    "sign_classes",
    "three_cluster_depth_bound",
    "tree_gram",
    "tree_representation",
    "tree_rows",
    "width_tail_bounds",
]
