"""Drawings: a function takes a result and an Axes, and returns the Axes. None of them calls `plt.show()`."""

from ..tiling.quantities import Quantity as Quantity
from ..tiling.quantities import tile_quantity as tile_quantity
from .generative import image_grid as image_grid
from .generative import plot_class_shares as plot_class_shares
from .generative import plot_cloud as plot_cloud
from .generative import plot_geometry_map as plot_geometry_map
from .generative import plot_images as plot_images
from .generative import plot_manifold as plot_manifold
from .landscape import plot_conditioning as plot_conditioning
from .landscape import plot_loss_section as plot_loss_section
from .landscape import plot_loss_surface as plot_loss_surface
from .landscape import plot_spectral_density as plot_spectral_density
from .landscape import write_surface_page as write_surface_page
from .page import write_page as write_page
from .smooth import plot_tokens as plot_tokens
from .smooth import plot_validity as plot_validity
from .tiling import plot_boundary as plot_boundary
from .tiling import plot_folds as plot_folds
from .tiling import plot_graph as plot_graph
from .tiling import plot_points as plot_points
from .tiling import plot_surface as plot_surface
from .tiling import plot_tiles as plot_tiles
from .tiling import shading as shading
from .timeline import film as film
from .timeline import plot_timeline as plot_timeline
