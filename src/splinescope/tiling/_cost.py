"""When rows in factored form are cheaper than plain ones: a model of sizes alone, measured once.

Sizes alone, so that equal calls have equal results on every machine. What plain rows cost is passes through the layers:
behind a fold they run over the vertices that were there before it, so the first two folds are cheap, and a later one is
the dearer the more folds there are before it. What factored rows cost is a product with the basis per vertex and
bookkeeping per chunk, so they never pay where layers are narrower than a basis. On a line there are as many basis
rows as vertices: there they pay for several images alone, whose basis rows are small windows at first, and where memory
is short. The lines below are read off docs/benchmarks/rows.md, which `python -m benchmarks.rows` measures.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..network.program import Fold

WIDE = 2048
"""Numbers in a row from which factored rows pay anywhere on a plane."""
_LEAST = 512  # narrower layers than this are no wider than the basis of a chunk
_WIDE_ON_LINES = 16384  # numbers in any row: whole rows take too much memory
_IMAGES_ON_LINES = 4  # wide ones: fewer do not make up for the basis


def factored_folds(folds: Sequence[Fold], widths: Sequence[int], rows: str, dimension: int) -> int:
    """How many folds to meet with factored rows, by the widths of rows before them.

    If they pay before any fold, up to the last one that is not narrow: where rows are handed over, every vertex is an
    old one, which is dear while rows are wide.
    """
    if rows != "auto":
        return len(widths) if rows == "factored" else 0
    if dimension == 1:
        images = sum(width >= WIDE and len(fold.site.shape) == 3 for fold, width in zip(folds, widths, strict=True))
        pays = images >= _IMAGES_ON_LINES or any(width >= _WIDE_ON_LINES for width in widths)
    else:
        pays = any(width >= WIDE or (width >= _LEAST and width * i >= WIDE) for i, width in enumerate(widths))
    return max((i + 1 for i, width in enumerate(widths) if pays and width >= min(_LEAST, WIDE)), default=0)
