"""One page about a network and its data: `report`, and `compare_models` for several side by side."""

from .block import ReportBlock as ReportBlock
from .compare import ModelComparison as ModelComparison
from .compare import compare_models as compare_models
from .report import BLOCKS as BLOCKS
from .report import Report as Report
from .report import report as report
