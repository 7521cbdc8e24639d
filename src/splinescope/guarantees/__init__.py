"""What exact tiles prove: statements about a network over a whole set of inputs, with their own rounding bound.

In: a network and a set of inputs (a `Slice`, a box, a polytope), for a verdict also a property of the outputs. Out:
verdicts, margins, witnesses, extremes and integrals, exact up to a stated tolerance. Imports `network`, `tiling` and
`support`.
"""

from .attribution import integrated_gradients
from .difference import difference
from .expectation import expectation
from .extremes import output_range
from .lipschitz import lipschitz
from .property import Property
from .sets import polytope
from .verify import verify
from .vnnlib import read_vnnlib

__all__ = [
    "Property",
    "difference",
    "expectation",
    "integrated_gradients",
    "lipschitz",
    "output_range",
    "polytope",
    "read_vnnlib",
    "verify",
]
