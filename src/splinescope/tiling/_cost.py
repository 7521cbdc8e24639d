"""When rows in factored form are cheaper than plain ones: a model of sizes alone, measured once.

Sizes alone, so that equal calls have equal results on every machine. What plain rows cost is passes through the layers:
behind a fold they run over the vertices that were there before it, so the first two folds are cheap, and a later one is
the dearer the more folds there are before it. What factored rows cost is a product with the basis per vertex and
bookkeeping per chunk, so they never pay where layers are narrower than a basis. On a line there are as many basis
rows as vertices: there they pay for images alone, whose basis rows are small windows at first, and where memory is
short. The lines below are read off docs/benchmarks/rows.md, which `python -m benchmarks.rows` measures.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..network.program import Fold

WIDE = 2048
"""Numbers in a row from which factored rows pay anywhere on a plane, and behind two folds of images on a line."""
_LEAST = 512  # narrower layers than this are no wider than the basis of a chunk
_WIDE_ON_LINES = 16384  # numbers in any row: whole rows take too much memory


def factored_folds(folds: Sequence[Fold], widths: Sequence[int], rows: str, dimension: int) -> int:
    """How many folds to meet with factored rows, by the widths of rows before them: up to the last where these pay."""
    if rows != "auto":
        return len(widths) if rows == "factored" else 0
    sites = [len(fold.site.shape) == 3 for fold in folds]
    places = enumerate(zip(widths, sites, strict=True))
    return max((i + 1 for i, (width, image) in places if _pays(width, i, image, dimension)), default=0)


def _pays(width: int, before: int, image: bool, dimension: int) -> bool:
    """Whether rows of this width, of an image or not, are better factored before a fold with so many others before."""
    if dimension == 1:
        return width >= (WIDE if image and before >= 2 else _WIDE_ON_LINES)
    return width >= WIDE or (width >= _LEAST and width * before >= WIDE)
