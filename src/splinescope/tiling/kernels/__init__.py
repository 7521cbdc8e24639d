"""The hot loops of the engine: signs as bits, cutting polygons and intervals, carrying rows to new vertices.

Conventions. A vertex is an index into arrays that grow at the end: `names` (a 64-bit name that depends only on how the
vertex came to be), `points`, `pos`/`neg` (two bit-planes of its pre-activations at the current fold: above tol, below
-tol; neither means exactly zero), `parents` and `weights` (a vertex made at this fold lies at
`weights[0] * parent0 + weights[1] * parent1`). The pre-activations themselves are `cuts` for the first len(cuts)
vertices, those that were there before this fold; a later one has zero where it has no sign bit, else the combination
of its parents'. Of these `new_cuts` keeps the words of 64 units that were needed so far (`filled`): most units never
come close to most vertices. All decisions are made on the bits, and
every number of a new vertex is a fixed formula of its parents taken in the order of their names, so a result does not
depend on which tiles happen to be processed together.

Tiles are CSR lists of corners; `labels[i]` names what made the wall from corner i to the next (in 1-D: what made
corner i).
"""

from .basis_ranges import add_patches as add_patches
from .basis_ranges import add_rows as add_rows
from .carry_rows import carry as carry
from .carry_rows import carry_bits as carry_bits
from .carry_rows import carry_dense as carry_dense
from .carry_rows import carry_sparse as carry_sparse
from .carry_rows import list_bends as list_bends
from .carry_rows import straighten as straighten
from .cut_intervals import split_intervals as split_intervals
from .cut_lines import cut_stretches as cut_stretches
from .cut_lines import opposite_signs as opposite_signs
from .cut_polygons import split_polygons as split_polygons
from .cut_polytopes import FACETS_FULL as FACETS_FULL
from .cut_polytopes import split_cells as split_cells
from .edge_vertices import DONE as DONE
from .edge_vertices import STACK_FULL as STACK_FULL
from .edge_vertices import TABLE_FULL as TABLE_FULL
from .edge_vertices import TILES_FULL as TILES_FULL
from .edge_vertices import VERTICES_FULL as VERTICES_FULL
from .edge_vertices import Vertices as Vertices
from .edge_vertices import keep_ancestors as keep_ancestors
from .number_vertices import chain_boundaries as chain_boundaries
from .number_vertices import enter_again as enter_again
from .number_vertices import farthest as farthest
from .number_vertices import keep_shared_walls as keep_shared_walls
from .number_vertices import keep_used_walls as keep_used_walls
from .number_vertices import mark_lost_walls as mark_lost_walls
from .number_vertices import number_vertices as number_vertices
from .number_vertices import polygon_areas as polygon_areas
from .number_vertices import replace_tiles as replace_tiles
from .number_vertices import tiles_around as tiles_around
from .polytope_faces import count_faces as count_faces
from .polytope_faces import measure_facets as measure_facets
from .polytope_facets import facet_keys as facet_keys
from .polytope_facets import keep_shared_facets as keep_shared_facets
from .polytope_facets import keep_slots as keep_slots
from .polytope_facets import keep_used_facets as keep_used_facets
from .polytope_facets import list_facets as list_facets
from .polytope_facets import mark_lost_facets as mark_lost_facets
from .polytope_facets import real_facets as real_facets
from .polytope_volumes import measure_cells as measure_cells
from .sign_bits import count_cutting_units as count_cutting_units
from .sign_bits import mix as mix
from .sign_bits import mix_in_python as mix_in_python
from .sign_bits import nth_cutting_unit as nth_cutting_unit
from .sign_bits import sign_bits as sign_bits
