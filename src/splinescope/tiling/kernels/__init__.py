"""The hot loops of the engine: signs as bits, cutting lines, polygons and polytopes, carrying rows to new vertices.

In: arrays. Out: arrays. Imports `support`.

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

from .basis_ranges import add_patches, add_rows, column_ranges
from .carry_rows import carry, carry_bits, carry_dense, carry_sparse, list_bends, straighten
from .cut_intervals import split_intervals
from .cut_lines import cut_stretches, opposite_signs
from .cut_polygons import split_polygons
from .cut_polytopes import FACETS_FULL, split_cells
from .edge_vertices import DONE, STACK_FULL, TABLE_FULL, TILES_FULL, VERTICES_FULL, Vertices, keep_ancestors
from .number_vertices import (
    chain_boundaries,
    enter_again,
    farthest,
    number_vertices,
    polygon_areas,
    replace_tiles,
    tiles_around,
)
from .polytope_facets import (
    facet_keys,
    keep_slots,
    list_facets,
    pair_facets,
    real_facets,
)
from .polytope_volumes import measure_cells, measure_facets
from .real_walls import keep_shared, keep_used, mark_lost
from .sign_bits import count_cutting_units, mix, mix_in_python, nth_cutting_unit, sign_bits
from .small_products import multiply, multiply_probes
