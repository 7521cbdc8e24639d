"""The one table of operations: what each torch operation is, whoever asks (tracing, watching, bounds).

In: the name of an operation. Out: its entry (see `registry`), which the files beside this one make, one per family.
Imports `program`, `patches` and `support`.
"""

from . import activations, affine, extrema, pooling, python_names, refused, reshapes  # noqa: F401
from .registry import OPERATIONS, Operation


def operation(name: str) -> Operation:
    """What is known of an op by its ATen name, or by that of a torch function or method (`relu_`, `__abs__`)."""
    return OPERATIONS.get(name) or OPERATIONS.get(name.strip("_")) or Operation(name)
