"""Networks that are not piecewise affine: the strongest statement that is true of each, and which it is.

In: a module and inputs. Out: affine maps at points, how far they predict, features of tokens. Imports `network` and
`support`.
"""

from .blocks import block
from .local_map import local_map
from .soften import harden, soften
from .tokens import token_geometry

__all__ = ["block", "harden", "local_map", "soften", "token_geometry"]
