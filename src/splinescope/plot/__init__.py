"""Drawings: a function takes a result and an Axes, and returns the Axes. None of them calls `plt.show()`."""

from .generative import (
    image_grid,
    plot_class_shares,
    plot_cloud,
    plot_facets,
    plot_geometry_map,
    plot_images,
    plot_manifold,
)
from .landscape import (
    plot_conditioning,
    plot_loss_section,
    plot_loss_surface,
    plot_spectral_density,
    write_surface_page,
)
from .meanfield import (
    animate_neurons,
    plot_convergence,
    plot_density,
    plot_first_step,
    plot_learning_rates,
    plot_neurons,
    plot_speed_by_direction,
)
from .monitor import plot_records
from .normalization import plot_boundary_jitter, plot_comparison, plot_fold_density, plot_fold_distances
from .page import write_page
from .representation import (
    plot_activity,
    plot_angle_histogram,
    plot_angles,
    plot_depth,
    plot_overview,
    plot_projection,
    plot_tree,
)
from .smooth import plot_entropy, plot_steering, plot_tokens, plot_validity
from .solid import plot_cells, plot_mesh
from .tiling import plot_boundary, plot_folds, plot_graph, plot_points, plot_surface, plot_tiles, shading
from .timeline import film, plot_curves, plot_timeline

__all__ = [
    "animate_neurons",
    "film",
    "image_grid",
    "plot_activity",
    "plot_angle_histogram",
    "plot_angles",
    "plot_boundary",
    "plot_boundary_jitter",
    "plot_cells",
    "plot_class_shares",
    "plot_cloud",
    "plot_comparison",
    "plot_conditioning",
    "plot_convergence",
    "plot_curves",
    "plot_density",
    "plot_depth",
    "plot_entropy",
    "plot_facets",
    "plot_first_step",
    "plot_fold_density",
    "plot_fold_distances",
    "plot_folds",
    "plot_geometry_map",
    "plot_graph",
    "plot_images",
    "plot_learning_rates",
    "plot_loss_section",
    "plot_loss_surface",
    "plot_manifold",
    "plot_mesh",
    "plot_neurons",
    "plot_overview",
    "plot_points",
    "plot_projection",
    "plot_records",
    "plot_spectral_density",
    "plot_speed_by_direction",
    "plot_steering",
    "plot_surface",
    "plot_tiles",
    "plot_timeline",
    "plot_tokens",
    "plot_tree",
    "plot_validity",
    "shading",
    "write_page",
    "write_surface_page",
]
