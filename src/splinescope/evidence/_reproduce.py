"""Runs experiments and writes, for each, numbers (JSON), a figure (PNG), and one page over all of them.

Each result is written the moment it is there and by atomic replacement, so an interrupted run keeps what it
had; the page is rebuilt from the JSON files in the folder, so runs of single experiments add up.
"""

from __future__ import annotations

import html
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .._checks import check_choice, require
from ._experiment import DOCUMENTS, Outcome, Size
from ._registry import find, ids


def reproduce(
    experiment_ids: Iterable[str] | None = None,
    *,
    out: str | os.PathLike[str],
    size: Size = "full",
    seed: int = 0,
    progress: Callable[[str, float, str], None] | None = None,
) -> dict[str, Outcome]:
    """Run experiments and write `ID.json`, `ID.png` and `index.html` into `out`.

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
        _write(folder / "index.html", _page(folder))
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


def _page(folder: Path) -> str:
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    order = list(DOCUMENTS)
    records = [r for r in records if {"id", "document", "claims"} <= r.keys()]
    records.sort(key=lambda r: (order.index(r["document"]), r["id"]))
    parts = [_HEAD]
    for r in records:
        rows = "".join(
            f"<tr><td>{html.escape(c['text'])}</td><td class='{html.escape(c['verdict'].replace(' ', '-'))}'>"
            f"{html.escape(c['verdict'])}</td><td>{html.escape(c['measured'])}</td>"
            f"<td>{html.escape(c['criterion'])}</td></tr>"
            for c in r["claims"]
        )
        parts.append(
            f"<section id='{r['id']}'><h2>{html.escape(r['title'])}</h2>"
            f"<p class='meta'>{html.escape(r['id'])} · {html.escape(DOCUMENTS[r['document']])} · {r['size']} size · "
            f"seed {r['seed']} · {r['seconds']} s · <a href='{r['id']}.json'>numbers</a></p>"
            f"<table><tr><th>claim</th><th>verdict</th><th>measured</th><th>decided by</th></tr>{rows}</table>"
            f"<img src='{r['id']}.png' alt='{html.escape(r['title'])}'></section>"
        )
    return "\n".join([*parts, "</main></body></html>"])


_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>splinescope: evidence</title><style>
body{font:16px/1.5 system-ui,sans-serif;margin:0;color:#222;background:#fafafa}main{max-width:70rem;margin:auto;
padding:1rem}section{background:#fff;border:1px solid #ddd;border-radius:8px;padding:1rem 1.5rem;margin:1.5rem 0}
img{max-width:100%}table{border-collapse:collapse;width:100%;font-size:.9rem}td,th{text-align:left;
padding:.35rem .6rem;border-bottom:1px solid #eee;vertical-align:top}.meta{color:#666;font-size:.85rem}
td:nth-child(2){white-space:nowrap;font-weight:600}.holds{color:#00684a}.holds-with-correction{color:#8a5a00}
.does-not-hold{color:#a4262c}.inconclusive{color:#555}</style></head><body><main><h1>Evidence</h1>"""
