"""One page about a network and its data: `report`, and `compare_models` for several side by side."""

from .block import ReportBlock
from .compare import ModelComparison, compare_models
from .report import BLOCKS, Report, report

__all__ = [
    "BLOCKS",
    "ModelComparison",
    "Report",
    "ReportBlock",
    "compare_models",
    "report",
]
