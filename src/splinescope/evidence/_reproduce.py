"""Runs experiments and writes, for each, numbers (JSON), a figure (PNG), and one page and table over all of them.

Each result is written the moment it is there and by atomic replacement, so an interrupted run keeps what it
had; the page and the table are rebuilt from the JSON files in the folder, so runs of single experiments add up.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .._checks import check_choice, require
from ._experiment import Outcome, Size
from ._pages import page, read_records, summary
from ._registry import find, ids


def reproduce(
    experiment_ids: Iterable[str] | None = None,
    *,
    out: str | os.PathLike[str],
    size: Size = "full",
    seed: int = 0,
    progress: Callable[[str, float, str], None] | None = None,
) -> dict[str, Outcome]:
    """Run experiments and write `ID.json`, `ID.png`, `index.html` and the table `summary.md` into `out`.

    Args:
        experiment_ids: Which ones; all if None.
        out: Folder, created if needed.
        size: "quick" (under a minute each) or "full".
        seed: Handed to every run.
        progress: Called with (id, fraction done, what is being done).

    Returns:
        The outcomes by id.
    """
    check_choice(size, "size", ("quick", "full"))
    chosen = [find(i) for i in (ids() if experiment_ids is None else experiment_ids)]
    pyplot = require("matplotlib.pyplot", "plot")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    outcomes: dict[str, Outcome] = {}
    for experiment in chosen:
        start = time.perf_counter()
        name = experiment.id

        def report(fraction: float, what: str, name: str = name) -> None:
            if progress is not None:
                progress(name, fraction, what)

        outcome = experiment.run(size=size, seed=seed, progress=report)
        record = {
            "id": name,
            "document": experiment.document,
            "title": experiment.title,
            "size": size,
            "seed": seed,
            "seconds": round(time.perf_counter() - start, 2),
            "claims": [vars(claim) for claim in outcome.claims],
            "numbers": outcome.numbers,
        }
        figure = experiment.draw(outcome.numbers)
        partial = folder / f".{name}.png"
        figure.savefig(partial, dpi=150, bbox_inches="tight", format="png")
        pyplot.close(figure)
        os.replace(partial, folder / f"{name}.png")
        _write(folder / f"{name}.json", json.dumps(record, indent=1, default=_plain))
        records = read_records(folder)
        _write(folder / "index.html", page(records))
        _write(folder / "summary.md", summary(records))
        outcomes[name] = outcome
        report(1.0, "done")
    return outcomes


def _plain(value: Any) -> Any:
    """numpy scalars and arrays, and torch tensors, as JSON-ready Python."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON-ready")


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
