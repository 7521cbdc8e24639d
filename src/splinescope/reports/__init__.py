"""One page about a network and its data: `report`, and `compare_models` for several side by side."""

from .compare import compare_models
from .report import report

__all__ = [
    "compare_models",
    "report",
]
