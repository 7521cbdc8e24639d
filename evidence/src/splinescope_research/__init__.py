"""Tools born of open questions, which may still change: outside of the promise that `splinescope` makes.

In: networks in training and their data. Out: monitors, optimizers and laws that the findings are measured with. Imports
what measures in `splinescope`; experiments and gallery scripts import it.
"""

from .folds.boundary_curvature import boundary_curvature
from .folds.depth_profile import depth_profile
from .folds.fold_density import fold_density
from .folds.fold_monitor import FoldMonitor
from .folds.posterior import entropy_map, region_posterior
from .folds.steering import steer
from .folds.subdivision import subdivision
from .folds.topology import topology
from .generators.manifold_law import manifold_law, project
from .generators.quality import frechet_distance
from .loss.layerwise_descent import LayerwiseDescent
from .loss.loss_section import loss_section
from .loss.polynomial_section import polynomial_section
from .meanfield.convergence import convergence_study
from .meanfield.density_flow import density_flow
from .meanfield.optimality import certificate
from .meanfield.particle_measure import wasserstein2
from .normalization.jitter import boundary_jitter, fold_jitter
from .normalization.merge_away import MergeAway
from .normalization.merge_in_place import merge_batchnorm_
from .normalization.normalizations import compare_normalizations
from .normalization.placed_norms import placing, with_placed_norms
from .normalization.statistics_fidelity import statistics_fidelity
from .random_layers.expected_gram import expected_gram
from .random_layers.full_rank import full_rank_width
from .random_layers.invariant import invariant_representation, odd_point_step
from .random_layers.layers import random_network
from .random_layers.one_unit_per_point import one_unit_per_point_
from .random_layers.sign_classes import sign_classes
from .random_layers.tree_model import tree_representation

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
