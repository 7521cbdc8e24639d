"""Tables that benchmarks write and docs/benchmarks/index.md shows."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks"


def write_table(name: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write docs/benchmarks/NAME.csv and print it; a row that does not fit the head is an error."""
    lines = [list(head), *(list(map(str, row)) for row in rows)]
    if any(len(line) != len(head) for line in lines):
        raise ValueError(f"{name}: rows of {sorted({len(line) for line in lines})} cells below {len(head)} columns.")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
    print(name, *(" | ".join(line) for line in lines), sep="\n", flush=True)
