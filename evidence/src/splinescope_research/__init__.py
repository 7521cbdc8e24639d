"""Tools born of open questions, which may still change: outside of the promise that `splinescope` makes.

In: networks in training and their data. Out: monitors, optimizers and laws that the findings are measured with. Imports
what measures in `splinescope`; experiments and gallery scripts import it.
"""

from .boundary_curvature import boundary_curvature
from .convergence import convergence_study
from .density_flow import density_flow
from .depth_profile import depth_profile
from .expected_gram import expected_gram
from .fold_density import fold_density
from .fold_monitor import FoldMonitor
from .full_rank import full_rank_width
from .invariant import invariant_representation, odd_point_step
from .jitter import boundary_jitter, fold_jitter
from .layers import random_network
from .layerwise_descent import LayerwiseDescent
from .loss_section import loss_section
from .manifold_law import manifold_law, project
from .merge_away import MergeAway
from .merge_in_place import merge_batchnorm_
from .normalizations import compare_normalizations
from .one_unit_per_point import one_unit_per_point_
from .optimality import certificate
from .particle_measure import wasserstein2
from .placed_norms import placing, with_placed_norms
from .polynomial_section import polynomial_section
from .posterior import entropy_map, region_posterior
from .quality import frechet_distance
from .sign_classes import sign_classes
from .statistics_fidelity import statistics_fidelity
from .steering import steer
from .subdivision import subdivision
from .topology import topology
from .tree_model import tree_representation

__all__ = [
    "FoldMonitor",
    "LayerwiseDescent",
    "MergeAway",
    "boundary_curvature",
    "boundary_jitter",
    "certificate",
    "compare_normalizations",
    "convergence_study",
    "density_flow",
    "depth_profile",
    "entropy_map",
    "expected_gram",
    "fold_density",
    "fold_jitter",
    "frechet_distance",
    "full_rank_width",
    "invariant_representation",
    "loss_section",
    "manifold_law",
    "merge_batchnorm_",
    "odd_point_step",
    "one_unit_per_point_",
    "placing",
    "polynomial_section",
    "project",
    "random_network",
    "region_posterior",
    "sign_classes",
    "statistics_fidelity",
    "steer",
    "subdivision",
    "topology",
    "tree_representation",
    "wasserstein2",
    "with_placed_norms",
]
