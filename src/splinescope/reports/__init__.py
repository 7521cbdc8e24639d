"""One page about a network and its data: `report`, and `compare_models` for several side by side.

In: networks, data and labels. Out: blocks of numbers and pictures, as a page or as records; `typical` ranks them for
the top of the page. Imports `complexity`, `generative`, `guarantees`, `landscape`, `network`, `normalization`, `plot`,
`representation`, `space`, `tiling` and `support`.
"""

from .compare import compare_models
from .report import report

__all__ = ["compare_models", "report"]
