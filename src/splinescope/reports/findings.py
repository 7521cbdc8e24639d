"""Which findings a report opens with."""

from __future__ import annotations

from collections.abc import Iterable

from .block import ReportBlock
from .typical import places

_AT_TOP = 3


def top_findings(blocks: Iterable[ReportBlock]) -> list[ReportBlock]:
    """The blocks that tell most: findings about folds, then numbers that are unlike those of other networks."""

    def score(block: ReportBlock) -> float:
        if block.key == "folds":
            return 0.0 if "no findings" in block.headline else 3.0
        found = places(block)
        if found is None:
            return 0.4 if block.key == "tiles" else 0.1
        here, others = found
        below = sum(place < here for place in others.values()) / len(others)
        return 0.5 + abs(2 * below - 1)

    known = [block for block in blocks if block.state == "measured" and block.finding]
    return sorted(known, key=score, reverse=True)[:_AT_TOP]
