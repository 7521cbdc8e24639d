"""How a block's main number compares with networks that other people trained, and which findings lead a report."""

import json
import math
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

from .block import ReportBlock

MAIN: dict[str, str] = {
    "folds": "share of channels that fold between points",
    "complexity": "share of neurons",
    "tiles": "folds per spacing of the data",
    "margins": "median edge over spacing",
    "depth": "effective rank before the output",
    "curvature": "largest eigenvalue",
    "surface": "non-convex share",
    "volume": "spread of the log volume, 5% to 95%",
}
"""Key of a block -> the number of it that can be compared between networks."""
_FEWEST = 3  # networks that make a range
_AT_TOP = 3


@cache
def table() -> dict[str, dict[str, float]]:
    """Network -> {key of a block: its main number}, as `python -m benchmarks.typical` measured them."""
    text = (resources.files(__package__) / "typical.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, float]] = json.loads(text)
    return found


def main_number(block: ReportBlock) -> float | None:
    """The number of a block that can be compared."""
    value: Any = block.numbers.get(MAIN.get(block.key, ""))
    return None if value is None else float(value)


def known_numbers(block: ReportBlock) -> dict[str, float]:
    """The same number of other networks, by their names."""
    return {name: row[block.key] for name, row in table().items() if block.key in row}


def compared(block: ReportBlock) -> str:
    """The main number among those of the table, in words; empty if there is nothing to compare with."""
    value, known = main_number(block), known_numbers(block)
    if value is None or len(known) < _FEWEST:
        return ""
    low, high = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    return (
        f"{MAIN[block.key]}: {value:.3g} here; {known[low]:.3g} ({low}) to {known[high]:.3g} ({high}) for "
        f"{len(known)} networks that others trained"
    )


def places(block: ReportBlock) -> tuple[float, dict[str, float]] | None:
    """Where the main number and those of the table lie between the least (0) and the largest (1) of them all.

    Over more than a factor of a hundred the scale is logarithmic. None if there is nothing to compare with.
    """
    value, known = main_number(block), known_numbers(block)
    if value is None or not math.isfinite(value) or len(known) < _FEWEST:
        return None
    low, high = min(value, *known.values()), max(value, *known.values())
    if low == high:
        return None
    scaled = math.log if low > 0 and high > 100 * low else float
    start, room = scaled(low), scaled(high) - scaled(low)
    return (scaled(value) - start) / room, {name: (scaled(each) - start) / room for name, each in known.items()}


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
