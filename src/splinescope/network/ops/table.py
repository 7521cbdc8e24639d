"""`operation(name)`: the table of operations with every family entered."""

from __future__ import annotations

from . import activations, affine, extrema, pooling, python_names, refused, reshapes  # noqa: F401
from .registry import OPERATIONS, Operation


def operation(name: str) -> Operation:
    """What is known of an op by its ATen name, or by that of a torch function or method (`relu_`, `__abs__`)."""
    return OPERATIONS.get(name) or OPERATIONS.get(name.strip("_")) or Operation(name)
